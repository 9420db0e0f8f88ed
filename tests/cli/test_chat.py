"""`retinue chat`, with its questions from a pipe."""

from __future__ import annotations

from .conftest import Terminal


def test_each_line_is_answered_on_one_branch(retinue: Terminal) -> None:
    said = retinue("chat", "model:test", stdin="one\n\ntwo\n")
    assert (said.code, said.out) == (0, "You said: one\nYou said: two\n")
    (thread,) = retinue("threads", "list", "--json").json
    shown = retinue("threads", "show", thread["thread_id"], "--json").json["messages"]
    assert [m["parts"][0]["text"] for m in shown] == ["one", "You said: one", "two", "You said: two"]


def test_it_goes_on_in_a_thread_with_who_answered_there(retinue: Terminal) -> None:
    thread = retinue("run", "model:test", "one", "--json").json["thread_id"]
    assert "You said: two" in retinue("chat", "--thread", thread, stdin="two\n").out
    assert len(retinue("threads", "show", thread, "--json").json["messages"]) == 4


def test_a_fork_branches_off_and_a_retry_stands_beside(retinue: Terminal) -> None:
    said = retinue("chat", "model:test", stdin="one\ntwo\n/retry\n/fork\nother\n/tree\n").out
    assert "branches off after: You said: one" in said
    tree = [line for line in said.splitlines() if "·" in line or "◆" in line]
    assert len(tree) == 7
    assert "You said: other" in tree[-1]
    assert "◆" in tree[-1]


def test_a_fork_may_name_the_message(retinue: Terminal) -> None:
    retinue("chat", "model:test", stdin="one\ntwo\n")
    thread = retinue("threads", "list", "--json").json[0]["thread_id"]
    first = retinue("threads", "show", thread, "--json").json["messages"][1]["message_id"]
    said = retinue("chat", "--thread", thread, stdin=f"/fork {first[-6:]}\nthree\n").out
    assert "branches off after: You said: one" in said
    branch = retinue("threads", "show", thread, "--json").json["messages"]
    assert [m["parts"][0]["text"] for m in branch] == ["one", "You said: one", "three", "You said: three"]


def test_what_it_does_not_know_it_says_and_goes_on(retinue: Terminal) -> None:
    said = retinue("chat", "model:test", stdin="/retyr\n/retry\n/tree\n/fork zzz\n/model nobody:x\nhello\n/fork zzz\n")
    assert "There is no /retyr. Did you mean /retry?" in said.out
    assert "There is no answer yet." in said.out
    assert "Nothing was said yet." in said.out
    assert "nobody" in said.out
    assert "You said: hello" in said.out
    assert "No message ends with zzz" in said.out


def test_another_model_answers_from_then_on(retinue: Terminal) -> None:
    said = retinue("chat", "model:test", stdin="/model\n/model test\nhello\n").out
    assert said.splitlines() == ["  model:test answers", "  model:test answers", "You said: hello"]


def test_who_is_not_there_is_refused_before_anything_is_said(retinue: Terminal) -> None:
    said = retinue("chat", "model:nobody:x", stdin="hello\n")
    assert (said.code, "nobody" in said.err) == (2, True)
    assert "There is no thread" in retinue("chat", "--thread", "nope", stdin="hello\n").err
