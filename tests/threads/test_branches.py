"""The tree of a conversation: forks, other answers, other questions, search; and a tree that is broken."""

from __future__ import annotations

import asyncio

import pytest

from retinue import Retinue
from retinue.core.messages import Text
from retinue.errors import BadInput, BrokenThread, UnknownMessage, UnknownTarget, UnknownThread
from retinue.store.sql import SqlStore
from retinue.testing import drain
from tests.contract.steps import by_hand

from .talk import ORDERS, Doors, Heard, answer, counts, ends, say, told, words


def parts(text: str) -> tuple[Text, ...]:
    return (Text(text=text),)


async def test_C4_a_linear_chat_is_read_from_the_root_to_the_leaf(app: Retinue, ann: Heard) -> None:
    said = await say(app, "one", "model:ann")
    for text in ("two", "three"):
        said = await say(app, text, "model:ann", thread=said)
    await drain(app)
    assert await told(app, said) == ["one", "ann heard 1", "two", "ann heard 3", "three", "ann heard 5"]
    assert await told(app, said, said.message_id) == ["one", "ann heard 1", "two", "ann heard 3", "three"]


async def test_C4_two_forks_do_not_see_each_other(app: Retinue, ann: Heard) -> None:
    root = await say(app, "root", "model:ann")
    await ends(app, root)
    forks = [await say(app, text, "model:ann", thread=root, parent=root.answers[0].message_id) for text in "ab"]
    for fork in forks:
        await ends(app, fork)
        below = await say(app, "more", "model:ann", thread=root, parent=fork.answers[0].message_id)
        await ends(app, below)
        text = "ab"[forks.index(fork)]
        lines = ["root", "ann heard 1", text, "ann heard 3", "more", "ann heard 5"]
        assert await told(app, below, below.answers[0].message_id) == lines
        assert [line for _, line in ann.turns] == lines[:-1]


@pytest.mark.parametrize("place", range(6))
async def test_C4_a_reply_to_any_message_has_what_is_above_it(app: Retinue, ann: Heard, place: int) -> None:
    said = await say(app, "one", "model:ann")
    for text in ("two", "three"):
        said = await say(app, text, "model:ann", thread=said)
    await drain(app)
    branch = await app.service.threads.branch(said.thread_id)
    reply = await say(app, "reply", "model:ann", thread=said, parent=branch[place].id)
    await ends(app, reply)
    above = words(branch[: place + 1])
    assert [line for _, line in ann.turns] == [*above, "reply"]
    assert await told(app, reply, reply.answers[0].message_id) == [*above, "reply", f"ann heard {place + 2}"]


async def broken(app: Retinue, sql: str, *params: object) -> None:
    store = app.services.store
    assert isinstance(store, SqlStore)
    await by_hand(store, sql, *params)


@pytest.mark.parametrize("circle", [True, False])
async def test_C5_a_branch_without_a_beginning_is_a_typed_error_and_its_run_is_invalid(
    app: Retinue, doors: Doors, circle: bool
) -> None:
    first = await say(app, "first", "model:gated")
    await doors.reached("first")
    waiting = await say(app, "second", "model:ann", thread=first)
    leaf = waiting.answers[0].message_id
    if circle:
        await broken(app, "UPDATE messages SET parent_id = ? WHERE id = ?", leaf, first.message_id)
    else:
        await broken(app, "DELETE FROM messages WHERE id = ?", first.message_id)
    doors.open("first")
    outcome = await ends(app, waiting)
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert outcome.error
    problem = "is above itself" if circle else "is missing"
    assert (outcome.error.kind, problem in outcome.error.message) == ("BrokenThread", True)
    before = await counts(app)
    with pytest.raises(BrokenThread, match=problem):
        await told(app, waiting, leaf)
    with pytest.raises(BrokenThread, match=problem):
        await say(app, "third", thread=first, parent=leaf)
    assert await counts(app) == before
    assert len(await app.service.threads.messages(first.thread_id)) == (4 if circle else 3), "all is still readable"


async def test_C5_a_message_of_another_thread_is_not_above(app: Retinue) -> None:
    one, other = await say(app, "one"), await say(app, "other")
    await drain(app)
    await broken(app, "UPDATE messages SET parent_id = ? WHERE id = ?", other.message_id, one.message_id)
    with pytest.raises(BrokenThread, match=f"message {other.message_id}, which it hangs from, is missing"):
        await told(app, one)
    with pytest.raises(UnknownMessage):
        await told(app, one, other.message_id)


async def test_C9_a_hundred_simultaneous_replies_are_a_hundred_siblings_in_a_stable_order(app: Retinue) -> None:
    root = await say(app, "root", "model:ann")
    await ends(app, root)
    parent = root.answers[0].message_id
    replies = await asyncio.gather(*(say(app, str(n), "model:ann", thread=root, parent=parent) for n in range(100)))
    await drain(app, seconds=60)
    stored = [message for message in await app.service.threads.messages(root.thread_id) if message.parent_id == parent]
    assert sorted(words(stored), key=int) == [str(n) for n in range(100)]
    assert [message.id for message in stored] == [
        row.id for row in await app.services.store.replies(root.thread_id, parent)
    ]
    assert {(await answer(app, reply)).status for reply in replies} == {"completed"}


async def test_what_is_said_at_once_where_a_thread_ends_is_said_one_after_the_other(app: Retinue) -> None:
    root = await say(app, "root", "model:ann")
    said = await asyncio.gather(*(say(app, str(n), "model:ann", thread=root) for n in range(8)))
    await drain(app)
    branch = await app.service.threads.branch(root.thread_id)
    assert len(branch) == 18
    assert sorted(words(branch)[2::2]) == [str(n) for n in range(8)]
    assert words(branch)[1::2] == [f"ann heard {2 * n + 1}" for n in range(9)], "each has seen what was said before it"
    assert len({one.message_id for one in said}) == 8


async def test_an_answer_is_given_anew_beside_the_old_one(app: Retinue, ann: Heard, bob: Heard) -> None:
    said = await say(app, "hello", "model:ann", max_minutes=1.0)
    await ends(app, said)
    threads = app.service.threads
    again = await threads.regenerate(said.answers[0].message_id)
    other = await threads.regenerate(said.answers[0].message_id, target="model:bob")
    await drain(app)
    for one in (again, other):
        assert (await answer(app, one)).parent_id == said.message_id
    assert ann.turns == bob.turns == [("user", "hello")]
    with pytest.raises(BadInput, match="is no answer"):
        await threads.regenerate(said.message_id or "")
    with pytest.raises(UnknownMessage):
        await threads.regenerate("msg_none")


async def test_a_functions_answer_is_given_anew_with_what_it_was_given(app: Retinue) -> None:
    said = await say(app, {"item": "tea"}, ORDERS)
    await ends(app, said)
    again = await app.service.threads.regenerate(said.answers[0].message_id)
    assert (await ends(app, again)).output == {"ordered": {"item": "tea"}}
    opening = await say(app, None, ORDERS)
    await ends(app, opening)
    again = await app.service.threads.regenerate(opening.answers[0].message_id)
    assert (await ends(app, again)).output == {"ordered": None}
    assert (await answer(app, again)).parent_id is None


async def test_something_else_is_said_instead(app: Retinue, ann: Heard, bob: Heard) -> None:
    said = await say(app, "hello", "model:ann", "model:bob")
    follow_up = await say(app, "more", "model:ann", thread=said, parent=said.answers[0].message_id)
    await drain(app)
    threads = app.service.threads
    edited = await threads.edit(said.message_id or "", parts("hi"))
    await drain(app)
    assert (await threads.message(edited.message_id or "")).parent_id is None
    assert [(await answer(app, edited, n)).participant for n in range(2)] == ["model:ann", "model:bob"]
    assert ann.turns == bob.turns == [("user", "hi")]
    later = await threads.edit(follow_up.message_id or "", parts("less"), targets=("model:bob",))
    await drain(app)
    assert bob.turns == [("user", "hello"), ("user", "[ann]: ann heard 1"), ("user", "less")]
    assert len(later.answers) == 1
    with pytest.raises(BadInput, match="was not said by a person"):
        await threads.edit(said.answers[0].message_id, parts("x"))


async def test_what_nobody_answered_is_edited_for_somebody(app: Retinue) -> None:
    said = await say(app, "hello")
    await drain(app)
    await broken(app, "UPDATE messages SET run_id = NULL")
    with pytest.raises(UnknownTarget, match="say who is to answer"):
        await app.service.threads.edit(said.message_id or "", parts("hi"))


async def test_somebody_elses_thread_looks_like_none(app: Retinue) -> None:
    said = await say(app, "hello", owner="ann")
    await drain(app)
    threads = app.service.threads
    for asking in (
        threads.thread(said.thread_id, owner="bob"),
        threads.messages(said.thread_id, owner="bob"),
        threads.branch(said.thread_id, owner="bob"),
        threads.message(said.message_id or "", owner="bob"),
        threads.rename(said.thread_id, "x", owner="bob"),
        threads.delete(said.thread_id, owner="bob"),
        threads.regenerate(said.answers[0].message_id, owner="bob"),
        threads.edit(said.message_id or "", parts("x"), owner="bob"),
    ):
        with pytest.raises(UnknownThread):
            await asking
    assert await threads.threads(owner="bob") == []
    assert await threads.search("hello", owner="bob") == []
    assert (await threads.thread(said.thread_id)).title == "hello"


async def test_what_was_said_is_found_whatever_its_case_and_however_old(app: Retinue) -> None:
    threads = app.service.threads
    old = await say(app, "Wo gibt es süße Törtchen in Porto?", "model:ann")
    other = await say(app, '日本語 と "quotes" \\ and\nlines', "model:ann")
    await drain(app)
    rows = ", ".join(
        f"('msg_z{n}', 'thr_z', NULL, 'user:x', '[{{\"kind\":\"text\",\"text\":\"text\"}}]', 0)" for n in range(1200)
    )
    await broken(app, f"INSERT INTO messages (id, thread_id, parent_id, participant, parts, created_at) VALUES {rows}")
    await broken(app, "INSERT INTO threads (id, owner, title, created_at, updated_at) VALUES ('thr_z', '', '', 0, 0)")
    for text in ("SÜSSE törtchen".replace("SS", "ß"), "gibt  ES", "porto?", "törtchen in"):
        assert [found.id for found in await threads.search(text)] == [old.message_id], text
    for text in ("日本語", 'と "QUOTES" \\', "and lines"):
        assert [found.id for found in await threads.search(text)] == [other.message_id], text
    assert [found.id for found in await threads.search("HEARD 1", limit=1)] == [other.answers[0].message_id]
    assert len(await threads.search("text", limit=7)) == 7
    assert await threads.search("kind") == await threads.search("%") == await threads.search("gibt_es") == []
    with pytest.raises(BadInput, match="nothing to search for"):
        await threads.search("  ")
