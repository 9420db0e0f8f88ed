"""Signals: kept in order until they are consumed; who waits is woken."""

from __future__ import annotations

import asyncio

import pytest

from retinue.core import events as e
from retinue.core.outcome import Waits
from retinue.errors import RunEnded, UnknownRun
from retinue.ports.store import Cancel, Signal, SignalRow, WakeDue
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import Held, claim, held, queued, status, take, together


async def test_signals_are_kept_in_order(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    for n, kind in enumerate(("steer", "pause", "resume"), start=1):
        assert await store.signal(Signal(run_id=run.id, kind=kind, data=f'{{"n":{n}}}')) == n
    now = clock.now_ms()
    assert await store.signals(run.id, 1) == [
        SignalRow(2, "pause", '{"n":2}', now),
        SignalRow(3, "resume", '{"n":3}', now),
    ]


async def test_signals_of_one_commit_are_numbered_apart(store: SqlStore) -> None:
    run = await held(store)
    await asyncio.gather(*(store.signal(Signal(run_id=run.id, kind=f"s{n}")) for n in range(50)))
    await together(store, *(store.signal(Signal(run_id=run.id, kind=f"t{n}")) for n in range(50)))
    assert [signal.n for signal in await store.signals(run.id, 0)] == list(range(1, 101))
    assert sorted(signal.kind for signal in await store.signals(run.id, 50)) == sorted(f"t{n}" for n in range(50))


async def test_a_signal_wakes_who_waits(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await run.park(Waits.TIMER, until=clock.now_ms() + 9000)
    await store.signal(Signal(run_id=run.id, kind="steer"))
    row = await store.run(run.id)
    assert row
    assert (row.status, row.cause, row.wake_at) == ("queued", "steer", None)
    again = await take(store, run.id)
    assert (again.row.cause, again.row.signal_seq) == ("steer", 1)


async def test_a_signal_leaves_a_running_run_running(store: SqlStore) -> None:
    run = await held(store)
    await store.signal(Signal(run_id=run.id, kind="steer"))
    await run.work()
    assert await status(store, run.id) == "running"


async def test_a_paused_run_wakes_only_when_told_so(store: SqlStore) -> None:
    run = await held(store)
    await run.park(Waits.PAUSED)
    assert await store.signal(Signal(run_id=run.id, kind="steer")) == 1
    assert await status(store, run.id) == "waiting"
    assert await store.signal(Signal(run_id=run.id, kind="resume", wakes_paused=True)) == 2
    assert await status(store, run.id) == "queued"


async def test_of_two_signals_to_a_paused_run_one_is_enough_to_wake_it(store: SqlStore) -> None:
    run = await held(store)
    await run.park(Waits.PAUSED)
    resume = store.signal(Signal(run_id=run.id, kind="resume", wakes_paused=True))
    await together(store, resume, store.signal(Signal(run_id=run.id, kind="steer")))
    assert await status(store, run.id) == "queued"


async def test_a_signal_to_nobody_says_so(store: SqlStore) -> None:
    with pytest.raises(UnknownRun):
        await store.signal(Signal(run_id="run_none", kind="steer"))
    assert await store.signals("run_none", 0) == []


async def test_a_signal_to_a_run_that_ended_says_so(store: SqlStore) -> None:
    run = await held(store)
    await run.finish()
    with pytest.raises(RunEnded) as caught:
        await store.signal(Signal(run_id=run.id, kind="steer"))
    assert (caught.value.run_id, caught.value.status) == (run.id, "completed")
    assert await store.signals(run.id, 0) == []


async def test_a_signal_to_nobody_fails_alone(store: SqlStore) -> None:
    run = await held(store)
    answers = await together(
        store, *(store.signal(Signal(run_id=run_id, kind="steer")) for run_id in (run.id, "run_none", run.id))
    )
    assert (answers[0], answers[2]) == (1, 2)
    assert isinstance(answers[1], UnknownRun)


async def test_listeners_hear_of_signals_and_of_what_was_queued(store: SqlStore) -> None:
    run = await held(store)
    await run.park()
    heard: list[tuple[set[str], bool]] = []
    store.on_commit(lambda commit: heard.append((commit.signalled, commit.queued)))
    await store.signal(Signal(run_id=run.id, kind="steer"))
    await store.signal(Signal(run_id=run.id, kind="steer"))
    assert heard == [({run.id}, True), ({run.id}, True)]


# Cancel


async def test_cancel_reaches_all_that_runs_below(store: SqlStore) -> None:
    root = await held(store)
    child = await take(store, await root.start("a"))
    parked = await take(store, await root.start("c"))
    await parked.park(Waits.PAUSED)
    done = await take(store, await root.start("d"))
    await done.finish()
    grandchild = await child.start("b")
    assert await store.cancel(Cancel(run_id=root.id, data='{"by":"ann"}')) == {
        root.id: "running",
        child.id: "running",
        grandchild: "queued",
        parked.id: "queued",
    }
    assert [(s.kind, s.data) for s in await store.signals(grandchild, 0)] == [("cancel", '{"by":"ann"}')]
    assert {row.id for row in await store.tree(root.id) if not row.cancelled} == {done.id}


async def test_cancel_of_a_child_leaves_its_parent_alone(store: SqlStore) -> None:
    root = await held(store)
    first, second = await root.start("a"), await root.start("b")
    assert await store.cancel(Cancel(run_id=first)) == {first: "queued"}
    assert not [row.id for row in await store.tree(root.id) if row.cancelled and row.id in (root.id, second)]


async def test_cancel_of_nobody_says_so(store: SqlStore) -> None:
    with pytest.raises(UnknownRun):
        await store.cancel(Cancel(run_id="run_none"))
    run = await held(store)
    await run.finish()
    with pytest.raises(RunEnded):
        await store.cancel(Cancel(run_id=run.id))


async def test_cancel_of_a_run_that_ended_still_reaches_what_runs_below(store: SqlStore) -> None:
    run = await held(store)
    child = await run.start("a")
    await run.finish()
    assert await store.cancel(Cancel(run_id=run.id)) == {child: "queued"}


# Time


async def test_a_timer_wakes_when_its_time_has_come(store: SqlStore, clock: SetClock) -> None:
    first, second = await held(store), await held(store)
    now = clock.now_ms()
    await first.park(Waits.TIMER, until=now + 1000)
    await second.park(Waits.TIMER, until=now + 3000)
    await store.wake_due(WakeDue())
    assert await status(store, first.id) == "waiting"
    clock.advance(1)
    await store.wake_due(WakeDue())
    row = await store.run(first.id)
    assert row
    assert (row.status, row.cause, row.due_at, row.wake_at) == ("queued", "timer", row.created_at, None)
    assert await status(store, second.id) == "waiting"


async def test_more_timers_than_one_commit_takes_are_woken_by_the_next(store: SqlStore, clock: SetClock) -> None:
    await together(store, *(queued(store) for _ in range(1005)))
    clock.advance(1)
    runs = [Held.just(store, claimed) for claimed in await claim(store, limit=1005)]
    await together(store, *(run.park(Waits.TIMER, until=clock.now_ms()) for run in runs))
    assert await store.wake_due(WakeDue())
    assert not await store.wake_due(WakeDue())
    assert await store.runs(status="waiting") == []


async def test_a_timer_that_meets_a_signal_wakes_once(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await run.park(Waits.TIMER, until=clock.now_ms())
    await together(store, store.wake_due(WakeDue()), store.signal(Signal(run_id=run.id, kind="steer")))
    again = await take(store, run.id)
    await again.append(e.RunWaiting(reasons=(Waits.INPUT,)), signal_seen=1)
    await store.wake_due(WakeDue())
    assert await status(store, run.id) == "waiting"
