"""`retinue run`: what it prints, what it leaves, and its exit codes."""

from __future__ import annotations

import pytest

from .conftest import Terminal

KEYS = ["run_id", "thread_id", "status", "reason", "recovered", "output", "partial", "error", "usage"]


def test_an_answer_is_printed_and_the_exit_code_is_0(retinue: Terminal) -> None:
    said = retinue("run", "model:test", "Hello")
    assert said.code == 0
    assert said.out.splitlines()[0].startswith("model:test  run_")
    assert said.out.splitlines()[-1] == "You said: Hello"


def test_with_json_one_object_is_printed_with_these_keys(retinue: Terminal) -> None:
    said = retinue("run", "model:test", "Hello", "--json")
    assert list(said.json) == KEYS
    assert (said.json["status"], said.json["reason"], said.json["output"]) == ("completed", "goal", "You said: Hello")
    assert said.json["thread_id"].startswith("thr_")
    assert said.json["usage"]["calls"] == 1


def test_what_is_piped_in_is_asked(retinue: Terminal) -> None:
    assert retinue("run", "model:test", "-", "--json", stdin="from a pipe").json["output"] == "You said: from a pipe"


def test_a_thread_goes_on_and_a_parent_branches_off(retinue: Terminal) -> None:
    first = retinue("run", "model:test", "one", "--json").json
    thread = first["thread_id"]
    retinue("run", "model:test", "two", "--thread", thread[-8:])
    shown = retinue("threads", "show", thread, "--json").json["messages"]
    assert [m["participant"] for m in shown] == ["user:local", "model:test"] * 2
    answer = shown[1]["message_id"]
    retinue("run", "model:test", "three", "--thread", thread, "--parent", answer)
    branch = retinue("threads", "show", thread, "--json").json["messages"]
    assert [m["parts"][0]["text"] for m in branch] == ["one", "You said: one", "three", "You said: three"]
    assert len(retinue("threads", "show", thread, "--all", "--json").json["messages"]) == 6


def test_a_function_gives_its_value(retinue: Terminal) -> None:
    said = retinue("run", "function:shop:order", "--input-json", '{"item": "tea"}', "--json")
    assert (said.code, said.json["output"], said.json["thread_id"]) == (0, {"price": 42}, None)


def test_a_failure_says_what_went_wrong_and_how_to_go_on(retinue: Terminal) -> None:
    said = retinue("run", "function:shop:order", "--input-json", '{"item": "nothing"}')
    assert said.code == 1
    assert "no such item" in said.out
    assert "retinue runs retry run_" in said.out


def test_the_same_key_is_the_same_run(retinue: Terminal) -> None:
    runs = {retinue("run", "model:test", "Hello", "--key", "k", "--json").json["run_id"] for _ in range(2)}
    assert len(runs) == 1
    other = retinue("run", "model:test", "Bye", "--key", "k")
    assert (other.code, "idempotency key k was used for another request" in other.err) == (2, True)


def test_what_waits_for_a_person_is_left_with_exit_code_3(retinue: Terminal) -> None:
    said = retinue("run", "function:shop:ask")
    assert said.code == 3
    assert "Which colour?" in said.out
    assert "retinue approvals answer tkt_" in said.out


def test_what_sleeps_for_long_is_left_with_exit_code_3(retinue: Terminal) -> None:
    said = retinue("run", "function:shop:nap", "--json")
    assert (said.code, said.json["status"]) == (3, "waiting")
    assert "sleeps until" in said.err


def test_detached_it_is_only_stored(retinue: Terminal) -> None:
    said = retinue("run", "model:test", "Hello", "--detach", "--json")
    assert (said.code, said.json["status"]) == (3, "queued")
    first = retinue("run", "model:test", "Hello", "--detach").out.splitlines()[0]
    assert first.startswith("model:test  run_")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["model:tset", "x"], "tset"),
        (["model:nobody:some-model", "x"], "nobody"),
        (["job:x"], "a target is one of"),
        (["agent"], "a target is one of"),
        (["function:nowhere:f"], "no module nowhere"),
        (["function:shop:oder"], "It has: ask, nap, order, parent"),
        (["model:test"], "nothing to answer"),
        (["model:test", "x", "--input-json", "{}"], "not both"),
        (["function:shop:order", "--input-json", "{"], "no JSON"),
        (["model:test", "x", "--thread", "thr_nope"], "There is no thread"),
        (["model:test", "x", "--max-cost", "0"], "max_cost_usd must be more than 0"),
        (["model:test", "x", "--max-minutes", "-1"], "max_minutes must be more than 0"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_line_and_nothing_is_stored(
    retinue: Terminal, arguments: list[str], says: str
) -> None:
    retinue("db", "upgrade")
    said = retinue("run", *arguments)
    assert said.code == 2
    assert says in said.err
    assert said.err.startswith("error: ")
    assert len(said.err.splitlines()) <= 2
    assert retinue("runs", "list", "--json").json == []
    assert retinue("threads", "list", "--json").json == []


def test_a_parent_of_another_thread_is_refused(retinue: Terminal) -> None:
    one, other = (retinue("run", "model:test", text, "--json").json["thread_id"] for text in ("one", "other"))
    message = retinue("threads", "show", other, "--json").json["messages"][0]["message_id"]
    said = retinue("run", "model:test", "x", "--thread", one, "--parent", message)
    assert (said.code, f"no message {message} in thread {one}" in said.err) == (2, True)
