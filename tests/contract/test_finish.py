"""The end of a run: one transaction, with all that belongs to it."""

from __future__ import annotations

import json

from retinue.core.outcome import Reason, Status
from retinue.ports.store import Cancel, Signal
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import claim, finished, gapless, held, said, status, take, ticket, together, types


async def test_the_row_says_how_the_run_ended(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    clock.advance(7)
    await run.append(finished(Status.FAILED, Reason.TOOL_ERROR))
    row = await store.run(run.id)
    assert row
    assert (row.status, row.reason, row.recovered) == ("failed", "tool_error", False)
    assert (row.finished_at, row.worker_id, row.last_seq) == (clock.now_ms(), None, 3)


async def test_an_end_waits_for_a_signal_that_came_before_it(store: SqlStore) -> None:
    run = await held(store)
    await store.signal(Signal(run_id=run.id, kind="steer"))
    assert await run.finish(signal_seen=0) is None
    assert await status(store, run.id) == "running"
    assert await run.finish(signal_seen=1) is not None
    await gapless(store, run.id)


async def test_ends_that_share_a_commit_wait_each_for_itself(store: SqlStore) -> None:
    told, untold, forced = [await held(store) for _ in range(3)]
    await store.signal(Signal(run_id=told.id, kind="steer"))
    await store.signal(Signal(run_id=forced.id, kind="steer"))
    await together(store, told.finish(signal_seen=0), untold.finish(signal_seen=0), forced.finish())
    assert [await status(store, run.id) for run in (told, untold, forced)] == ["running", "completed", "completed"]


async def test_the_parent_is_told_once(store: SqlStore) -> None:
    root = await held(store)
    child = await take(store, await root.start("a"))
    await child.append(finished(Status.FAILED, Reason.TIMEOUT))
    (signal,) = await store.signals(root.id, 0)
    said = {"run_id": child.id, "call_id": "a", "status": "failed", "reason": "timeout", "recovered": False}
    assert (signal.kind, json.loads(signal.data)) == ("child", said)


async def test_a_parent_that_waits_is_woken(store: SqlStore) -> None:
    root = await held(store)
    child = await take(store, await root.start("a"))
    await root.park()
    await child.finish()
    assert (await take(store, root.id)).row.cause == "child"


async def test_children_that_end_together_are_all_told_of(store: SqlStore) -> None:
    root = await held(store)
    children = [await take(store, await root.start(f"c{n}")) for n in range(10)]
    await together(store, *(child.finish() for child in children))
    signals = await store.signals(root.id, 0)
    assert {json.loads(signal.data)["run_id"] for signal in signals} == {child.id for child in children}
    await gapless(store, root.id)


async def test_a_parent_that_ended_is_told_nothing(store: SqlStore) -> None:
    root = await held(store)
    child = await take(store, await root.start("a"))
    await together(store, root.finish(), child.finish())
    assert await store.signals(root.id, 0) == []
    assert await status(store, child.id) == "completed"
    await gapless(store, root.id)


async def test_what_was_open_is_closed_and_what_was_said_is_forgotten(store: SqlStore, clock: SetClock) -> None:
    run, other = await held(store), await held(store)
    for n, each in enumerate((run, other)):
        await each.append(ticket(f"tkt_{n}"))
        await store.signal(Signal(run_id=each.id, kind="steer"))
        await store.speak(said(each, "Hello"))
    await run.finish()
    closed, still_open = await store.tickets()
    assert (closed.status, closed.decision, closed.closed_at) == ("closed", "void", clock.now_ms())
    assert still_open.status == "open"
    assert (await store.signals(run.id, 0), await store.open_turn(run.id)) == ([], None)
    assert len(await store.signals(other.id, 0)) == 1
    assert await store.open_turn(other.id)


async def test_what_runs_below_is_cancelled_if_asked_for(store: SqlStore) -> None:
    root = await held(store)
    child = await take(store, await root.start("a"))
    grandchild = await child.start("b")
    await root.finish(cancel_children=True)
    assert [s.kind for s in await store.signals(child.id, 0)] == ["cancel"]
    assert [s.kind for s in await store.signals(grandchild, 0)] == ["cancel"]
    assert {row.id for row in await store.tree(root.id) if row.cancelled} == {child.id, grandchild}


async def test_what_runs_below_goes_on_otherwise(store: SqlStore) -> None:
    root = await held(store)
    child = await root.start("a")
    await root.finish()
    assert await store.signals(child, 0) == []
    assert (await take(store, child)).row.cancelled is False


async def test_a_child_that_is_started_while_its_grandparent_ends_is_cancelled(store: SqlStore) -> None:
    root = await held(store)
    child = await take(store, await root.start("a"))
    await together(store, root.finish(cancel_children=True), child.start("b"))
    (grandchild,) = await store.children(child.id)
    assert grandchild.cancelled
    await gapless(store, root.id)


async def test_a_child_that_is_started_while_its_run_is_cancelled_is_cancelled(store: SqlStore) -> None:
    root = await held(store)
    await together(store, store.cancel(Cancel(run_id=root.id)), root.start("a"))
    assert [row.cancelled for row in await store.tree(root.id)] == [True, True]


async def test_an_end_may_come_with_what_led_to_it(store: SqlStore) -> None:
    run = await held(store)
    await run.append(ticket(), finished(), files=(("file:a", 3),))
    assert await types(store, run.id) == ["run.queued", "run.started", "ticket.opened", "run.finished"]
    assert [ticket.status for ticket in await store.tickets()] == ["closed"]


async def test_what_ended_is_not_claimed(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await run.finish()
    clock.advance(3600)
    assert await claim(store, "wrk_2") == []
