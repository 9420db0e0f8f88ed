"""`retinue threads`"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from .conftest import Terminal


def a_thread(retinue: Terminal, *said: str) -> str:
    thread = ""
    for text in said:
        more = ["--thread", thread] if thread else []
        thread = retinue("run", "model:test", text, *more, "--json").json["thread_id"]
    return thread


def test_threads_are_listed_the_one_that_something_was_said_in_last_first(retinue: Terminal) -> None:
    first, second = a_thread(retinue, "About tea"), a_thread(retinue, "About coffee")
    retinue("run", "model:test", "more", "--thread", first)
    assert [one["thread_id"] for one in retinue("threads", "list", "--json").json] == [first, second]
    listed = retinue("threads", "list").out
    assert listed.index("About tea") < listed.index("About coffee")


def test_a_thread_is_shown_as_it_was_said(retinue: Terminal) -> None:
    thread = a_thread(retinue, "Hello")
    shown = retinue("threads", "show", thread[:12] + thread[12:]).out
    assert "you  msg_" in shown
    assert "\nHello\n" in shown
    assert "\nYou said: Hello\n" in shown


def test_a_tree_shows_every_branch(retinue: Terminal) -> None:
    thread = a_thread(retinue, "one", "two")
    first = retinue("threads", "show", thread, "--json").json["messages"][1]["message_id"]
    retinue("run", "model:test", "other", "--thread", thread, "--parent", first)
    lines = retinue("threads", "show", thread, "--all").out.splitlines()[1:]
    assert [line.split("  ")[-1] for line in lines] == [
        "one", "You said: one", "two", "You said: two", "other", "You said: other",
    ]  # fmt: skip
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 0, 2, 2, 2, 2]


def test_what_was_said_is_found_whatever_its_case(retinue: Terminal) -> None:
    thread = a_thread(retinue, "Über den HAFEN von Porto")
    found = retinue("threads", "search", "hafen VON", "--json").json
    assert {message["thread_id"] for message in found} == {thread}
    assert len(retinue("threads", "search", "über", "--json").json) == 2
    assert retinue("threads", "search", "kind text", "--json").json == []
    assert "Nobody said that" in retinue("threads", "search", "nothing of the kind").out


def test_a_thread_gets_another_title_and_is_deleted(retinue: Terminal) -> None:
    thread = a_thread(retinue, "Hello")
    retinue("threads", "rename", thread, "Greetings")
    assert retinue("threads", "list", "--json").json[0]["title"] == "Greetings"
    assert retinue("threads", "delete", thread, stdin="n\n").code == 2
    assert retinue("threads", "delete", thread, "--yes").out == f"deleted {thread}\n"
    assert retinue("threads", "show", thread).code == 2
    assert retinue("runs", "list", "--json").json == []


def test_what_is_not_there_is_said(retinue: Terminal) -> None:
    a_thread(retinue, "Hello")
    assert "There is no thread" in retinue("threads", "show", "nope").err
    assert "There is no message msg_x" in retinue("threads", "show", a_thread(retinue, "x"), "--leaf", "msg_x").err
    assert "A title says something" in retinue("threads", "rename", a_thread(retinue, "x"), " ").err
    assert "nothing to search for" in retinue("threads", "search", " ").err


def test_without_a_database_nothing_is_made(retinue: Terminal) -> None:
    said = retinue("threads", "list")
    assert (said.code, "There is no database" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("UPDATE messages SET parent_id = (SELECT max(id) FROM messages) WHERE parent_id IS NULL", "is above itself"),
        ("DELETE FROM messages WHERE parent_id IS NULL", "is missing"),
    ],
)
def test_a_thread_that_is_broken_is_said_to_be_and_takes_nothing(retinue: Terminal, sql: str, says: str) -> None:
    thread = a_thread(retinue, "one", "two")
    with closing(sqlite3.connect(".retinue/retinue.db")) as database:
        database.execute(sql)
        database.commit()
    for words in (("threads", "show", thread), ("run", "model:test", "three", "--thread", thread)):
        said = retinue(*words)
        assert (said.code, says in said.err, len(said.err.splitlines())) == (2, True, 1)
    assert len(retinue("runs", "list", "--json").json) == 2


def test_a_message_that_is_not_there_is_no_parent(retinue: Terminal) -> None:
    thread = a_thread(retinue, "one")
    said = retinue("run", "model:test", "x", "--thread", thread, "--parent", "msg_none")
    assert (said.code, "There is no message msg_none" in said.err) == (2, True)
    assert len(retinue("runs", "list", "--json").json) == 1
