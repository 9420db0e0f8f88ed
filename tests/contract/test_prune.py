"""Pruning: what ended long ago goes as a whole, and nothing goes that somebody still needs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue.errors import UnknownRun
from retinue.ports.store import Append, Prune, Pruned, WorkerDied
from retinue.store.sql import SqlStore, open_store
from retinue.testing.clock import SetClock

from .steps import Held, draft, gapless, held, new_run, note, queued, renew, said, take, ticket, together

DAY = 24 * 3600


async def ended(store: SqlStore, **facts: Any) -> Held:
    run = await held(store, **facts)
    await run.work()
    await run.finish()
    return run


async def prune(store: SqlStore, clock: SetClock, *roots: str) -> Pruned:
    """Delete what has ended before now, of these trees or of all that may go."""
    before = clock.now_ms()
    return await store.prune(Prune(root_ids=roots or tuple(await store.prunable(before)), before=before))


async def test_a_tree_that_ended_goes_with_all_that_belongs_to_it(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    child_id = await run.start("child")
    child = await take(store, child_id)
    await run.append(ticket())
    await store.speak(said(run, "hello"))
    await child.finish()
    await run.finish()
    stays = await held(store)
    clock.advance(DAY)
    assert await store.prunable(clock.now_ms()) == [run.id]
    pruned = await prune(store, clock)
    assert (pruned.trees, pruned.runs) == (1, 2)
    rows = (await store.stats()).rows
    kept = {table: count for table, count in rows.items() if count and table not in ("requirements", "workers")}
    assert kept == {"runs": 1, "events": 2}
    await gapless(store, stays.id)


async def test_it_says_how_many_events_went(store: SqlStore, clock: SetClock) -> None:
    run = await ended(store)
    clock.advance(DAY)
    events = len(await store.events(run.id))
    assert await prune(store, clock) == Pruned(trees=1, runs=1, events=events, roots=(run.id,))


async def test_what_ended_later_stays(store: SqlStore, clock: SetClock) -> None:
    run = await ended(store)
    before = clock.now_ms()
    clock.advance(DAY)
    assert await store.prunable(before) == []
    assert await store.prune(Prune(root_ids=(run.id,), before=before)) == Pruned()
    assert await store.run(run.id)


@pytest.mark.parametrize("state", ["queued", "running", "waiting"])
async def test_what_has_not_ended_stays(store: SqlStore, clock: SetClock, state: str) -> None:
    run_id = await queued(store)
    if state != "queued":
        run = await take(store, run_id)
        if state == "waiting":
            await run.park()
    clock.advance(DAY)
    assert await prune(store, clock, run_id) == Pruned()
    assert await store.run(run_id)


async def test_a_tree_stays_as_long_as_one_of_it_runs(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    child = await take(store, await run.start("child"))
    await run.finish()
    clock.advance(DAY)
    assert await prune(store, clock, run.id) == Pruned()
    await child.finish()
    clock.advance(DAY)
    assert (await prune(store, clock)).runs == 2


async def test_the_past_of_a_run_that_stays_stays(store: SqlStore, clock: SetClock) -> None:
    first = await ended(store)
    second = await ended(store, source_run_id=first.id, source_seq=2)
    third = await held(store, source_run_id=second.id, source_seq=2)
    clock.advance(DAY)
    assert await store.prunable(clock.now_ms()) == []
    assert await prune(store, clock, first.id, second.id, third.id) == Pruned()
    await third.finish()
    clock.advance(DAY)
    assert await store.prunable(clock.now_ms()) == [third.id, second.id, first.id]
    assert (await prune(store, clock)).trees == 3


async def test_a_past_goes_only_after_what_reads_it(store: SqlStore, clock: SetClock) -> None:
    first = await ended(store)
    second = await ended(store, source_run_id=first.id, source_seq=2)
    clock.advance(DAY)
    assert await prune(store, clock, first.id) == Pruned()
    assert (await prune(store, clock, second.id)).trees == 1
    assert (await prune(store, clock, first.id)).trees == 1


async def test_the_past_may_be_a_run_in_the_middle_of_a_tree(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    child = await take(store, await run.start("child"))
    await child.finish()
    await run.finish()
    again = await held(store, source_run_id=child.id, source_seq=1)
    clock.advance(DAY)
    assert await prune(store, clock, run.id) == Pruned()
    await again.finish()


async def test_a_run_does_not_begin_with_a_past_that_is_gone(store: SqlStore, clock: SetClock) -> None:
    run = await ended(store)
    clock.advance(DAY)
    await prune(store, clock)
    with pytest.raises(UnknownRun):
        await queued(store, source_run_id=run.id, source_seq=1)
    assert await store.runs() == []


async def test_what_is_submitted_while_its_past_is_deleted_is_refused_or_keeps_it(
    shared_url: str, clock: SetClock
) -> None:
    one, other = await open_store(shared_url, clock), await open_store(shared_url, clock)
    for _ in range(10):
        run = await ended(one)
        clock.advance(DAY)
        write = Prune(root_ids=(run.id,), before=clock.now_ms())
        again = new_run(source_run_id=run.id, source_seq=1)
        pruned, answer = await asyncio.gather(one.prune(write), other.submit(again), return_exceptions=True)
        assert isinstance(pruned, Pruned)
        assert isinstance(answer, UnknownRun if pruned.trees else str)
        assert bool(await one.run(run.id)) == (not pruned.trees)
    await one.close()
    await other.close()


async def test_two_that_prune_at_once_take_each_tree_once(shared_url: str, clock: SetClock) -> None:
    stores = [await open_store(shared_url, clock) for _ in range(2)]
    roots = tuple([(await ended(stores[0])).id for _ in range(20)])
    clock.advance(DAY)
    write = Prune(root_ids=roots, before=clock.now_ms())
    pruned = await asyncio.gather(*(store.prune(write) for store in stores))
    assert sum(one.trees for one in pruned) <= 20
    assert len(await stores[0].runs()) == 20 - sum(one.trees for one in pruned)
    for store in stores:
        await store.close()


async def test_files_are_given_back_when_nothing_refers_to_them(store: SqlStore, clock: SetClock) -> None:
    one, two = await held(store), await held(store)
    for run, uris in ((one, ("file:a", "file:shared")), (two, ("file:shared",))):
        files = tuple((uri, 1000) for uri in uris)
        await store.append(
            Append(run_id=run.id, attempt=run.attempt, last_seq=run.seq, drafts=(draft(note("big")),), files=files)
        )
        run.seq += 1
        await run.finish()
    clock.advance(DAY)
    assert (await prune(store, clock, one.id)).files == ("file:a",)
    assert (await prune(store, clock, two.id)).files == ("file:shared",)


async def test_a_key_can_be_used_again_when_its_run_is_gone(store: SqlStore, clock: SetClock) -> None:
    facts = {"idempotency_key": "k", "request_digest": "d"}
    run = await ended(store, **facts)
    clock.advance(3600)
    await prune(store, clock)
    assert await queued(store, **facts) != run.id


async def test_dead_workers_are_forgotten_unless_they_hold_something(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await renew(store, "wrk_2")
    for name in ("wrk_1", "wrk_2"):
        await store.worker_died(WorkerDied(worker_id=name))
    await renew(store, "wrk_3")
    await prune(store, clock, run.id)
    assert {row.id for row in await store.workers()} == {"wrk_1", "wrk_3"}


async def test_pruning_nothing_is_nothing(store: SqlStore, clock: SetClock) -> None:
    assert await prune(store, clock) == Pruned()
    assert await prune(store, clock, "run_none") == Pruned()


async def test_other_writes_go_on_in_the_same_commit(store: SqlStore, clock: SetClock) -> None:
    old, run = await ended(store), await held(store)
    clock.advance(DAY)
    await renew(store)
    write = Prune(root_ids=(old.id, run.id), before=clock.now_ms())
    pruned, appended = await together(store, store.prune(write), run.store.append(run.write(note("a"))))
    assert isinstance(pruned, Pruned)
    assert pruned.trees == 1
    assert appended
    await gapless(store, run.id)
