"""Appends: fenced, numbered without a hole, refused alone."""

from __future__ import annotations

import asyncio

import pytest

from retinue.core import events as e
from retinue.core.outcome import Waits
from retinue.errors import ChildRefused, Fenced, StoreError
from retinue.ports.store import Cancel, Renew, Signal
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import (
    LEASE_MS,
    Held,
    child_started,
    claim,
    finished,
    gapless,
    held,
    note,
    status,
    take,
    ticket,
    together,
    types,
    worker,
)


async def test_an_append_is_there_when_it_was_answered(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    clock.advance(5)
    appended = await run.append(note("a"), note("b"))
    assert appended == (3, clock.now_ms())
    stored = await store.events(run.id, after=2)
    assert [(r.seq, r.root_seq, r.attempt, r.at) for r in stored] == [
        (3, 3, 1, clock.now_ms()),
        (4, 4, 1, clock.now_ms()),
    ]
    assert [e.decode(r.type, r.data) for r in stored] == [note("a"), note("b")]


async def test_text_of_all_kinds_comes_back_as_it_was(store: SqlStore) -> None:
    run = await held(store)
    data = e.Warned(code="100 % of 'it'?", message='naïve "quotes" \\ {rows} %s ? 日本 🦊 \u2028\n\t')
    await run.append(data)
    last = await store.last_event(run.id)
    assert last
    assert e.decode(last.type, last.data) == data


async def test_a_stale_attempt_is_fenced(store: SqlStore, clock: SetClock) -> None:
    old = await held(store, "wrk_1")
    clock.advance(31)
    new = await take(store, old.id, "wrk_2")
    with pytest.raises(Fenced):
        await old.work()
    await new.work()
    assert await types(store, old.id) == ["run.queued", "run.started", "run.resumed", "warning"]


async def test_a_stale_place_is_fenced(store: SqlStore) -> None:
    run = await held(store)
    await run.work()
    with pytest.raises(Fenced):
        await run.append(note("again"), last_seq=run.seq - 1)
    with pytest.raises(Fenced):
        await run.append(note("ahead"), last_seq=run.seq + 1)
    await gapless(store, run.id)


async def test_nothing_follows_the_end(store: SqlStore) -> None:
    run = await held(store)
    await run.finish()
    with pytest.raises(Fenced):
        await run.work()
    with pytest.raises(Fenced):
        await run.finish()
    assert (await types(store, run.id)).count("run.finished") == 1


async def test_a_run_that_does_not_run_takes_no_events(store: SqlStore) -> None:
    run = await held(store)
    await run.park()
    with pytest.raises(Fenced):
        await run.work()
    assert (await types(store, run.id))[-1] == "run.waiting"


async def test_a_run_that_does_not_exist_is_fenced(store: SqlStore) -> None:
    run = await held(store)
    with pytest.raises(Fenced):
        await run.append(note("a"), run_id="run_none")


async def test_a_fenced_append_fails_alone_in_its_commit(store: SqlStore) -> None:
    runs = [await held(store) for _ in range(5)]
    before = store.commits
    answers = await together(store, *(run.append(note("a"), attempt=1 + n % 2) for n, run in enumerate(runs)))
    assert [isinstance(answer, Fenced) for answer in answers] == [False, True, False, True, False]
    assert store.commits == before + 1
    assert [len(await types(store, run.id)) for run in runs] == [3, 2, 3, 2, 3]


@pytest.mark.parametrize("bad", [{"attempt": 7}, {"attempt": 7, "last_seq": 9}, {"last_seq": 9}, {"last_seq": 1}])
async def test_beside_a_good_append_of_the_same_run_a_bad_one_fails_alone(store: SqlStore, bad: dict[str, int]) -> None:
    root = await held(store)
    run = await take(store, await root.start("a"))
    answers = await together(store, run.append(note("bad"), **bad), run.append(note("good")), root.work())
    assert [isinstance(answer, Fenced) for answer in answers] == [True, False, False]
    assert (await types(store, run.id))[2:] == ["warning"]
    await gapless(store, root.id)


async def test_appends_of_one_run_that_share_a_commit_keep_their_order(store: SqlStore) -> None:
    root = await held(store)
    run = await take(store, await root.start("a"))
    writes = [run.write(note(str(n)), last_seq=run.seq + n) for n in range(4)]
    answers = await together(store, *map(store.append, writes))
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    await gapless(store, root.id)


async def test_a_refused_append_leaves_no_child_no_ticket_and_no_file(store: SqlStore) -> None:
    run = await held(store)
    child = run.child("a")
    with pytest.raises(Fenced):
        await run.append(ticket(), child_started(child), children=(child,), files=(("file:a", 1),), attempt=9)
    assert await store.run(child.run.id) is None
    assert await store.tickets() == []
    assert (await types(store, run.id)) == ["run.queued", "run.started"]


async def test_an_append_that_was_done_already_is_answered_as_before(store: SqlStore) -> None:
    run = await held(store)
    write = run.write(note("a"), finished())
    first = await store.append(write)
    assert await store.append(run.write(note("a"), finished(), again=True)) == first
    assert await types(store, run.id) == ["run.queued", "run.started", "warning", "run.finished"]


async def test_an_append_that_was_not_done_is_done_when_sent_again(store: SqlStore) -> None:
    run = await held(store)
    assert await run.append(note("a"), again=True)
    with pytest.raises(Fenced):
        await run.append(note("b"), attempt=2, again=True)
    await gapless(store, run.id)


async def test_a_tree_is_numbered_without_a_hole_when_many_runs_append_at_once(store: SqlStore) -> None:
    root = await held(store)
    for n in range(20):
        await root.start(f"c{n}")
    children = [Held.just(store, claimed) for claimed in await claim(store)]

    async def work(run: Held) -> None:
        for n in range(10):
            await run.work(1 + n % 3)
        if run is not root:
            await run.start("grandchild")
            await run.finish()

    await asyncio.gather(*map(work, [root, *children]))
    await gapless(store, root.id)
    assert len(await store.tree(root.id)) == 41


async def test_trees_are_numbered_apart(store: SqlStore) -> None:
    first, second = await held(store), await held(store)
    await asyncio.gather(first.work(2), second.work(3))
    await gapless(store, first.id)
    await gapless(store, second.id)


# Children


async def test_a_child_is_stored_with_the_event_that_starts_it(store: SqlStore) -> None:
    run = await held(store)
    child_id = await run.start("a", priority=3)
    child = await store.run(child_id)
    assert child
    assert (child.parent_id, child.call_id, child.root_id, child.depth, child.priority) == (run.id, "a", run.id, 1, 3)
    assert await types(store, child_id) == ["run.queued"]
    assert [row.id for row in await store.children(run.id)] == [child_id]


async def test_a_call_starts_no_second_child(store: SqlStore) -> None:
    run = await held(store)
    child_id = await run.start("a")
    with pytest.raises(StoreError):
        await run.start("a")
    assert [row.id for row in await store.children(run.id)] == [child_id]
    await run.work()
    await gapless(store, run.id)


async def test_a_second_child_of_one_call_fails_alone_in_its_commit(store: SqlStore) -> None:
    run, other = await held(store), await held(store)
    await run.start("a")
    twin = run.child("a")
    answers = await together(store, run.append(child_started(twin), children=(twin,)), other.work())
    assert isinstance(answers[0], StoreError)
    assert await types(store, other.id) == ["run.queued", "run.started", "warning"]


async def test_a_cancelled_run_starts_no_child(store: SqlStore) -> None:
    run = await held(store)
    await store.cancel(Cancel(run_id=run.id))
    with pytest.raises(ChildRefused):
        await run.start("a")
    assert await store.children(run.id) == []
    await run.work()
    await gapless(store, run.id)


async def test_of_a_cancelled_run_a_stale_attempt_is_fenced_first(store: SqlStore) -> None:
    run = await held(store)
    await store.cancel(Cancel(run_id=run.id))
    child = run.child("a")
    with pytest.raises(Fenced):
        await run.append(child_started(child), children=(child,), attempt=9)


# Parking


async def test_parking_frees_the_worker(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await run.park(Waits.TIMER, Waits.CHILDREN, until=clock.now_ms() + 1000)
    row = await store.run(run.id)
    assert row
    assert (row.status, row.waits_for, row.wake_at) == ("waiting", "timer,children", clock.now_ms() + 1000)
    assert row.worker_id is None
    assert await store.renew(Renew(worker=worker(), lease_ms=LEASE_MS)) == {}


async def test_parking_forgets_crashes(store: SqlStore, clock: SetClock) -> None:
    run = await held(store, "wrk_1")
    clock.advance(31)
    run = await take(store, run.id, "wrk_2")
    assert run.row.crashes == 1
    await run.park()
    row = await store.run(run.id)
    assert row
    assert row.crashes == 0


async def test_a_signal_that_was_not_seen_forbids_parking(store: SqlStore) -> None:
    run = await held(store)
    await store.signal(Signal(run_id=run.id, kind="steer"))
    assert await run.park(tickets=(ticket(),)) is None
    assert await status(store, run.id) == "running"
    assert await store.tickets() == []
    assert await run.park(seen=1)
    await gapless(store, run.id)


async def test_a_stale_attempt_does_not_park(store: SqlStore) -> None:
    run = await held(store)
    with pytest.raises(Fenced):
        await run.append(e.RunWaiting(reasons=(Waits.INPUT,)), attempt=2)
    assert await status(store, run.id) == "running"


@pytest.mark.parametrize("grouped", [True, False])
async def test_no_signal_is_missed_however_parking_and_signals_meet(store: SqlStore, grouped: bool) -> None:
    runs = [await held(store) for _ in range(20)]
    pairs = [(store.signal(Signal(run_id=run.id, kind="steer")), run.park()) for run in runs]
    writes = [write for n, pair in enumerate(pairs) for write in (pair[::-1] if n % 2 else pair)]
    await (together(store, *writes) if grouped else asyncio.gather(*writes))
    assert {await status(store, run.id) for run in runs} <= {"running", "queued"}
    assert [len(await store.signals(run.id, 0)) for run in runs] == [1] * 20
