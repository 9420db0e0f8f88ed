"""Reads: pages, filters, and what an open turn has said so far."""

from __future__ import annotations

import pytest

from retinue.core import events as e
from retinue.core.outcome import Failure
from retinue.errors import Fenced, StoreClosed
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import held, queued, said, take, together


async def test_events_come_in_pages(store: SqlStore) -> None:
    run = await held(store)
    await run.work(8)
    assert [r.seq for r in await store.events(run.id, limit=4)] == [1, 2, 3, 4]
    assert [r.seq for r in await store.events(run.id, after=4, limit=4)] == [5, 6, 7, 8]
    assert [r.seq for r in await store.events(run.id, after=8, limit=4)] == [9, 10]
    assert await store.events(run.id, after=10) == []
    assert await store.events("run_none") == []


async def test_events_of_a_tree_come_in_pages(store: SqlStore) -> None:
    root = await held(store)
    child = await take(store, await root.start("a"))
    await child.work(3)
    await root.work(3)
    pages = [await store.tree_events(root.id, after=after, limit=5) for after in (0, 5, 10)]
    assert [[r.root_seq for r in page] for page in pages] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11]]
    assert {r.run_id for page in pages for r in page} == {root.id, child.id}
    assert await store.tree_events(child.id) == []


async def test_the_last_event_of_a_run_is_found(store: SqlStore) -> None:
    run = await held(store)
    await run.work(3)
    last = await store.last_event(run.id)
    assert last
    assert last.seq == 5
    assert await store.last_event("run_none") is None


async def test_runs_are_listed_from_the_newest(store: SqlStore) -> None:
    ids = [await queued(store) for _ in range(5)][::-1]
    first = await store.runs(limit=2)
    assert [row.id for row in first] == ids[:2]
    assert [row.id for row in await store.runs(before=first[-1].id)] == ids[2:]


async def test_runs_are_filtered_by_tree_and_status(store: SqlStore) -> None:
    root = await held(store)
    child = await root.start("a")
    other = await queued(store)
    assert [row.id for row in await store.runs(root_id=root.id)] == [child, root.id]
    assert [row.id for row in await store.runs(status="queued")] == [other, child]
    assert [row.id for row in await store.runs(status="queued", root_id=root.id)] == [child]
    assert await store.runs(status="failed") == []


async def test_a_tree_and_its_children_are_found(store: SqlStore) -> None:
    root = await held(store)
    child = await take(store, await root.start("a"))
    grandchild = await child.start("b")
    assert {row.id for row in await store.tree(root.id)} == {root.id, child.id, grandchild}
    assert [row.id for row in await store.children(root.id)] == [child.id]
    assert await store.children(grandchild) == []


@pytest.mark.parametrize("run_id", ["run_nobody", "run_\0", ""])
async def test_a_run_that_does_not_exist_is_none(store: SqlStore, run_id: str) -> None:
    assert await store.run(run_id) is None
    assert await store.tree(run_id) == []


async def test_time_is_the_clocks(store: SqlStore, clock: SetClock) -> None:
    clock.advance(12)
    assert await store.now() == clock.now_ms()


# The open turn


async def test_what_was_said_is_put_together(store: SqlStore) -> None:
    run = await held(store)
    pieces = [said(run, "Hel"), said(run, "lo", 3), said(run, "hm", kind="thinking"), said(run, "!", 5)]
    await together(store, *map(store.speak, pieces))
    turn = await store.open_turn(run.id)
    assert turn
    assert (turn.turn, turn.try_, turn.text(), turn.text("thinking")) == (1, 1, "Hello!", "hm")


async def test_what_was_said_twice_counts_once(store: SqlStore) -> None:
    run = await held(store)
    for piece in (said(run, "Hel"), said(run, "Hel"), said(run, "Hello"), said(run, "llo wor", 2), said(run, "?", 99)):
        await store.speak(piece)
    turn = await store.open_turn(run.id)
    assert turn
    assert turn.text() == "Hello wor"


async def test_only_the_latest_try_is_open(store: SqlStore) -> None:
    run = await held(store)
    for piece in (said(run, "old"), said(run, "new", try_=2), said(run, "newer", turn=10), said(run, "late", turn=9)):
        await store.speak(piece)
    turn = await store.open_turn(run.id)
    assert turn
    assert (turn.turn, turn.try_, turn.text()) == (10, 1, "newer")


@pytest.mark.parametrize(
    "closing",
    [
        e.ModelResponded(turn=1, try_=1, parts=(), model="test"),
        e.TurnInterrupted(turn=1, try_=1, cause="crash"),
        e.ModelRetried(turn=1, try_=1, error=Failure(kind="x", message="")),
    ],
    ids=lambda data: data.type,
)
async def test_when_the_answer_is_there_nothing_is_open(store: SqlStore, closing: e.EventData) -> None:
    run, other = await held(store), await held(store)
    await store.speak(said(run, "Hello"))
    await store.speak(said(other, "Hello"))
    await run.append(closing)
    assert await store.open_turn(run.id) is None
    assert await store.open_turn(other.id)


async def test_speech_that_shares_a_commit_with_the_answer_is_dropped(store: SqlStore) -> None:
    run = await held(store)
    closing = e.ModelResponded(turn=1, try_=1, parts=(), model="test")
    await together(store, run.append(closing), store.speak(said(run, "Hello")))
    assert await store.open_turn(run.id) is None


async def test_a_stale_attempt_says_nothing(store: SqlStore, clock: SetClock) -> None:
    old = await held(store, "wrk_1")
    clock.advance(31)
    new = await take(store, old.id, "wrk_2")
    answers = await together(store, store.speak(said(old, "old")), store.speak(said(new, "new")))
    assert [isinstance(answer, Fenced) for answer in answers] == [True, False]
    turn = await store.open_turn(new.id)
    assert turn
    assert turn.text() == "new"


async def test_a_run_that_does_not_run_says_nothing(store: SqlStore) -> None:
    run = await held(store)
    await run.park()
    with pytest.raises(Fenced):
        await store.speak(said(run, "Hello"))


async def test_what_a_crashed_run_had_said_is_there_for_its_successor(store: SqlStore, clock: SetClock) -> None:
    old = await held(store, "wrk_1")
    await store.speak(said(old, "Hello"))
    clock.advance(31)
    new = await take(store, old.id, "wrk_2")
    turn = await store.open_turn(new.id)
    assert turn
    assert turn.text() == "Hello"


# Closing


async def test_a_closed_store_says_so(store: SqlStore) -> None:
    run_id = await queued(store)
    await store.close()
    with pytest.raises(StoreClosed):
        await queued(store)
    with pytest.raises(StoreClosed):
        await store.run(run_id)
    await store.close()
