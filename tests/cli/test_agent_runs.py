"""Runs of an agent on the command line: what is seen of them, and what people say to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Said, Terminal
from .trips import ENDS, LOOKS, SPEAKS, TOOLS, script


def waiting(trip: Terminal) -> dict[str, Any]:
    """The run after it has asked whether it may book."""
    said: dict[str, Any] = trip("run", "agent:guide", "Where to?", "--json").json
    assert said["status"] == "waiting"
    return said


def finished(trip: Terminal, folder: Path) -> str:
    script(folder, LOOKS, SPEAKS, ENDS)
    return str(trip("run", "agent:guide", "Where to?", "--json").json["run_id"])


def lines(said: Said) -> list[str]:
    """Without times."""
    return [line[10:].strip() if line[2:3] == ":" else line.strip() for line in said.out.splitlines()]


def test_what_an_agent_does_is_told_by_turn_tool_arguments_and_result(trip: Terminal) -> None:
    said = lines(trip("run", "agent:guide", "Where to?"))
    assert said[1].startswith("▸ turn 1  started  test:trip · 2 min 5")
    assert said[2].startswith("✓ turn 1  test:trip · ")
    assert "tokens in" in said[2]
    assert said[3:7] == [
        "… I had better look.",
        "“ Let me see.",
        "▸ about_city  started  city: Porto",
        "▸ about_city  started  city: Atlantis",
    ]
    ended = sorted(said[7:9])
    assert ended[0].startswith("✓ about_city  0.0")
    assert "city: Porto → Porto is old. Porto is old." in ended[0]
    assert ended[0].endswith("…")
    assert ended[1].endswith("city: Atlantis → ValueError: it has sunk")


def test_a_text_that_was_not_the_end_is_told_with_what_the_run_says_to_it(trip: Terminal) -> None:
    said = lines(trip("run", "agent:guide", "Where to?"))
    at = said.index("“ Now I know.")
    assert said[at + 1].startswith("› it is reminded  Nobody reads what you say besides")


def test_no_ids_of_calls_are_shown_to_people(trip: Terminal, tmp_path: Path) -> None:
    run = finished(trip, tmp_path)
    calls = [step["call_id"] for step in trip("runs", "show", run, "--json").json["steps"]]
    for command in ("show", "watch"):
        out = trip("runs", command, run).out
        assert "about_city" in out
        assert not [call for call in calls if call in out]


def test_what_it_wants_to_do_is_left_for_a_person_with_the_commands_for_it(trip: Terminal) -> None:
    said = trip("run", "agent:guide", "Where to?")
    assert said.code == 3
    assert "? may it call book? · hotel: Luz, eur: 120" in said.out
    assert "  approve it  retinue approvals approve tkt_" in said.out
    assert "  refuse it   retinue approvals deny tkt_" in said.out


def test_a_call_is_approved_with_other_arguments_and_the_run_goes_on(trip: Terminal) -> None:
    run = waiting(trip)["run_id"]
    (ticket,) = trip("approvals", "list", "--json").json
    assert (ticket["tool"], ticket["arguments"]) == ("book", {"hotel": "Luz", "eur": 120})
    refused = trip("approvals", "approve", ticket["ticket_id"], "--args", '{"eur": "much"}')
    assert (refused.code, '"hotel" is a required property' in refused.err) == (2, True)
    approved = trip(
        "approvals", "approve", ticket["ticket_id"], "--args", '{"hotel": "Sol", "eur": 20}', "--message", "cheaper"
    )
    assert (approved.code, "approved: may it call book?" in approved.out) == (0, True)
    explained = trip("runs", "explain", run)
    assert "no worker is alive" in explained.out


def test_why_it_waits_is_explained_with_turn_tokens_and_time(trip: Terminal) -> None:
    run = waiting(trip)["run_id"]
    explained = trip("runs", "explain", run).out
    assert "It asked a person" in explained
    assert "may it call book?" in explained
    assert "It is in turn 3, " in explained
    assert "of its time left." in explained
    assert trip("runs", "explain", run, "--json").json["turn"] == 3


def test_a_question_in_the_middle_of_a_chat_from_a_pipe_is_left_with_exit_code_3(trip: Terminal) -> None:
    said = trip("chat", "agent:guide", stdin="Where to?\nAnd then?\n")
    assert said.code == 3
    assert "✗ about_city" in said.out
    assert "may it call book? · hotel: Luz, eur: 120" in said.out
    assert "retinue approvals approve tkt_" in said.out
    assert len(trip("runs", "list", "--json").json) == 1


def test_a_chat_shows_calls_and_gives_the_answer_once(trip: Terminal, tmp_path: Path) -> None:
    script(tmp_path, LOOKS, ENDS)
    said = trip("chat", "agent:guide", stdin="Where to?\n")
    assert (said.code, said.out.count("Off to Porto.")) == (0, 1)
    assert [line for line in said.out.splitlines() if "turn" in line] == []
    assert "Let me see." in said.out


def test_another_model_answers_when_it_is_named(trip: Terminal) -> None:
    said = trip("run", "agent:guide", "Where to?", "--model", "test", "--json")
    assert (said.json["status"], said.json["output"]) == ("completed", "You said: Where to?")
    refused = trip("run", "model:test", "Hello", "--model", "test")
    assert (refused.code, "cannot be told which model answers" in refused.err) == (2, True)


def test_it_is_exported_as_lines_that_say_what_they_are(trip: Terminal, tmp_path: Path) -> None:
    run = finished(trip, tmp_path)
    exported = [json.loads(line) for line in trip("runs", "export", run).out.splitlines()]
    assert [line["record"] for line in exported[:2]] == ["export", "run"]
    events = [line for line in exported if line["record"] == "event"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("arguments", [["--format", "markdown"], ["--output", "run.md"]])
def test_it_is_exported_to_read(trip: Terminal, tmp_path: Path, arguments: list[str]) -> None:
    said = trip("runs", "export", finished(trip, tmp_path), *arguments).out
    text = (tmp_path / "run.md").read_text() if "--output" in arguments else said
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        "# agent:guide",
        "## Asked",
        "## Turn 1: test:trip",
        "## Turn 2: test:trip",
        "## Turn 3: test:trip",
        "## Completed",
    ]
    assert "<summary>Thinking</summary>\n\n```text\nI had better look.\n```" in text
    assert (
        '**about_city**\n\n```json\n{\n  "city": "Atlantis"\n}\n```\n\nfailed:\n\n```text\nValueError: it has' in text
    )
    assert text.endswith("```text\nOff to Porto.\n```\n")


def test_what_comes_from_elsewhere_does_not_leave_its_fence(trip: Terminal, tmp_path: Path) -> None:
    (tmp_path / "tools/cities.py").write_text(TOOLS.replace('f"{city} is old. " * 100', '"```\\n# Mine\\n````"'))
    text = trip("runs", "export", finished(trip, tmp_path), "--format", "markdown").out
    assert "`````text\n```\n# Mine\n````\n`````" in text


def test_a_fork_shares_the_past_of_the_first_and_says_something_new(trip: Terminal, tmp_path: Path) -> None:
    first = finished(trip, tmp_path)
    events = trip("runs", "events", first, "--json").json
    at = next(event["seq"] for event in events if event["type"] == "tool.finished") + 1
    forked = trip("runs", "fork", first, "--at", str(at), "--json").json
    assert (forked["status"], forked["output"]) == ("completed", "Off to Porto.")
    assert trip("runs", "show", forked["run_id"], "--json").json["source_seq"] == at
