"""`retinue runs` and `retinue approvals`: looking at runs and talking to them, from one process after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Terminal


def failed(retinue: Terminal) -> str:
    said = retinue("run", "function:shop:order", "--input-json", '{"item": "nothing"}', "--json")
    return str(said.json["run_id"])


def asking(retinue: Terminal) -> str:
    return str(retinue("run", "function:shop:ask", "--json").json["run_id"])


def test_runs_are_listed_the_newest_first_and_by_status(retinue: Terminal) -> None:
    good, bad = retinue("run", "model:test", "x", "--json").json["run_id"], failed(retinue)
    assert [run["run_id"] for run in retinue("runs", "list", "--json").json] == [bad, good]
    assert [run["run_id"] for run in retinue("runs", "list", "--status", "failed", "--json").json] == [bad]
    assert "✗ failed (tool error)" in retinue("runs", "list").out


def test_a_run_is_shown_by_a_piece_of_its_id(retinue: Terminal) -> None:
    bad = failed(retinue)
    for text in (bad, bad[4:], bad[-6:]):
        shown = retinue("runs", "show", text)
        assert (shown.code, bad in shown.out, "no such item" in shown.out) == (0, True, True)
    as_json = retinue("runs", "show", bad, "--json").json
    assert as_json["input"] == {"item": "nothing"}
    assert [step["ok"] for step in as_json["steps"]] == [False]


def test_events_trees_and_exports_say_the_same(retinue: Terminal, tmp_path: Path) -> None:
    run = retinue("run", "function:shop:parent", "--input-json", '{"item": "tea"}', "--json").json["run_id"]
    events = retinue("runs", "events", run, "--tree", "--json").json
    assert [event["root_seq"] for event in events] == list(range(1, len(events) + 1))
    assert len(retinue("runs", "events", run, "--after", "2", "--json").json) == len(
        [event for event in events if event["run_id"] == run and event["seq"] > 2]
    )
    tree = retinue("runs", "tree", run, "--json").json
    assert [child["target"] for child in tree["children"]] == ["function:shop:order"]
    assert "  function:shop:order" in retinue("runs", "tree", run).out
    retinue("runs", "export", run, "-o", "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["events"] == events


def test_watching_what_has_ended_shows_it_and_gives_its_exit_code(retinue: Terminal) -> None:
    bad = failed(retinue)
    watched = retinue("runs", "watch", bad, "--json")
    types = [json.loads(line)["type"] for line in watched.out.splitlines()]
    assert (watched.code, types[0], types[-1]) == (1, "run.queued", "run.finished")


def test_a_retry_is_a_new_run_that_goes_on_at_the_failure(retinue: Terminal, tmp_path: Path) -> None:
    bad = failed(retinue)
    again = retinue("runs", "retry", bad, "--json")
    assert again.code == 1
    assert retinue("runs", "show", again.json["run_id"], "--json").json["source_run_id"] == bad


def test_a_fork_shares_what_was_recorded_up_to_an_event(retinue: Terminal) -> None:
    run = retinue("run", "function:shop:order", "--input-json", '{"item": "tea"}', "--json").json["run_id"]
    forked = retinue("runs", "fork", run, "--at", "4", "--json").json
    assert forked["output"] == {"price": 42}
    assert "events 1 to" in retinue("runs", "fork", run, "--at", "99").err


def test_a_retried_answer_stands_beside_the_first(retinue: Terminal) -> None:
    first = retinue("run", "model:test", "Hello", "--json").json
    again = retinue("runs", "retry", first["run_id"], "--fresh", "--json").json
    messages = retinue("threads", "show", first["thread_id"], "--all", "--json").json["messages"]
    assert [m["run_id"] for m in messages] == [None, first["run_id"], again["run_id"]]
    assert messages[1]["parent_id"] == messages[2]["parent_id"]


def test_a_question_is_listed_and_answered(retinue: Terminal) -> None:
    run = asking(retinue)
    (ticket,) = retinue("approvals", "list", "--json").json
    assert (ticket["run_id"], ticket["title"]) == (run, "Which colour?")
    refused = retinue("approvals", "answer", ticket["ticket_id"], "green")
    assert (refused.code, "does not fit its schema" in refused.err) == (2, True)
    assert retinue("approvals", "answer", ticket["ticket_id"][-6:], "blue").code == 0
    again = retinue("approvals", "answer", ticket["ticket_id"], "red")
    assert "already closed (decided; its run has not taken it up yet)" in again.err
    assert retinue("runs", "show", run, "--json").json["status"] == "queued"


def test_a_question_that_is_denied_fails_the_function(retinue: Terminal) -> None:
    asking(retinue)
    (ticket,) = retinue("approvals", "list", "--json").json
    assert retinue("approvals", "deny", ticket["ticket_id"], "--message", "no").code == 0
    assert retinue("approvals", "list").out == "Nobody is asked anything.\n"


def test_what_waits_is_cancelled_paused_and_explained(retinue: Terminal) -> None:
    run = asking(retinue)
    explained = retinue("runs", "explain", run, "--json").json
    assert explained["because"] == "person"
    assert "retinue approvals" in retinue("runs", "explain", run).out
    assert retinue("runs", "cancel", run, "--message", "enough").code == 0
    shown = retinue("runs", "show", run, "--json").json
    assert (shown["status"], shown["error"]["message"]) == ("cancelled", "enough")
    assert "takes no more signals" in retinue("runs", "pause", run).err
    assert "Ended" in retinue("runs", "explain", run).out or "It ended" in retinue("runs", "explain", run).out


@pytest.mark.parametrize(
    "command", ["show", "watch", "events", "tree", "cancel", "pause", "resume", "retry", "explain"]
)
def test_a_run_that_is_not_there_is_said_to_be_unknown(retinue: Terminal, command: str) -> None:
    retinue("run", "model:test", "x")
    said = retinue("runs", command, "run_nope")
    assert (said.code, "There is no run" in said.err) == (2, True)


def test_a_piece_that_fits_several_ids_is_refused_with_them(retinue: Terminal) -> None:
    for _ in range(2):
        retinue("run", "model:test", "x")
    said = retinue("runs", "show", "run_06")
    assert (said.code, "beginning or the end of several ids" in said.err) == (2, True)
