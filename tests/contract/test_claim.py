"""Claims and leases: who holds a run, and how it is freed."""

from __future__ import annotations

import asyncio

import pytest

from retinue.errors import Fenced
from retinue.ports.store import Cancel, Claim, LetGo, Renew, Signal, WakeDue, WorkerDied
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import (
    LEASE_MS,
    Held,
    by_hand,
    claim,
    claim_sets,
    claimed_ids,
    gapless,
    held,
    queued,
    renew,
    status,
    take,
    together,
    types,
    worker,
)


async def test_a_claim_starts_the_run_and_brings_its_journal(store: SqlStore, clock: SetClock) -> None:
    run_id = await queued(store)
    await renew(store)
    (claimed,) = await claim(store)
    row = await store.run(run_id)
    assert row
    assert (row.status, row.attempt, row.worker_id, row.started_at) == ("running", 1, "wrk_1", clock.now_ms())
    assert claimed.events
    assert [(r.seq, r.type) for r in claimed.events] == [(1, "run.queued"), (2, "run.started")]
    assert list(claimed.events) == await store.events(run_id)


async def test_a_run_is_claimed_once(store: SqlStore) -> None:
    run_id = await queued(store)
    await renew(store, "wrk_1")
    await renew(store, "wrk_2")
    answers = await together(store, *(claimed_ids(store, name) for name in ("wrk_1", "wrk_2", "wrk_1")))
    assert sorted(answers, key=str) == [[run_id], [], []] or sorted(map(str, answers))[-1] == str([run_id])
    assert await types(store, run_id) == ["run.queued", "run.started"]


async def test_claims_go_by_priority_then_time_then_id(store: SqlStore, clock: SetClock) -> None:
    now = clock.now_ms()
    late = [await queued(store, priority=1, due_at=now - 10), await queued(store, priority=1, due_at=now - 10)]
    early = await queued(store, priority=1, due_at=now - 20)
    low = await queued(store, priority=0, due_at=now - 30)
    high = await queued(store, priority=5)
    claims = [(await claimed_ids(store, limit=1))[0] for _ in range(5)]
    assert claims == [high, early, *late, low]


async def test_a_claim_takes_no_more_than_its_limit(store: SqlStore) -> None:
    for _ in range(5):
        await queued(store)
    assert [len(await claim(store, limit=2)) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_run_is_not_claimed_before_it_is_due(store: SqlStore, clock: SetClock) -> None:
    run_id = await queued(store, due_at=clock.now_ms() + 5000)
    assert await claim(store) == []
    await store.wake_due(WakeDue())
    assert await claim(store) == []
    clock.advance(5)
    await store.wake_due(WakeDue())
    assert await claimed_ids(store) == [run_id]


async def test_a_worker_gets_only_what_it_can_load(store: SqlStore) -> None:
    a, b, c = [await queued(store, requires=requires) for requires in "abc"]
    assert {claimed.row.id for claimed in await claim_sets(store, ("a", "c"))} == {a, c}
    assert await claim_sets(store, ()) == []
    assert await status(store, b) == "queued"


async def test_a_run_left_behind_is_claimed_again_as_crashed(store: SqlStore, clock: SetClock) -> None:
    run = await held(store, "wrk_1")
    clock.advance(30)
    assert await claim(store, "wrk_2") == []
    clock.advance(0.001)
    again = await take(store, run.id, "wrk_2")
    assert (again.attempt, again.row.crashes, again.row.cause, again.row.worker_id) == (2, 1, "crash", "wrk_2")
    (*_, last) = await store.events(run.id)
    assert (last.type, last.data) == ("run.resumed", '{"worker":"wrk_2","cause":"crash"}')


async def test_what_was_left_behind_needs_the_same_requirements(store: SqlStore, clock: SetClock) -> None:
    await held(store, "wrk_1")
    clock.advance(31)
    assert await claim_sets(store, ("other",), "wrk_2") == []


async def test_who_has_no_lease_takes_nothing(store: SqlStore) -> None:
    run_id = await queued(store)
    assert await store.claim(Claim(worker_id="wrk_1", limit=1, requires=("any",))) == []
    assert await store.claim(Claim(worker_id="wrk_1", limit=1, run_id=run_id)) == []


async def test_who_claims_after_a_long_sleep_keeps_its_own_runs(store: SqlStore, clock: SetClock) -> None:
    run = await held(store, "wrk_1")
    clock.advance(300)
    assert await claim(store, "wrk_1") == []
    assert await claim(store, "wrk_2") == []
    await run.work()


async def test_a_clock_that_jumped_back_keeps_no_run_from_being_claimed(store: SqlStore, clock: SetClock) -> None:
    run_id = await queued(store)
    clock.advance(-3600)
    assert await claimed_ids(store) == [run_id]


async def test_a_renewed_lease_keeps_the_runs(store: SqlStore, clock: SetClock) -> None:
    await held(store, "wrk_1")
    for _ in range(5):
        clock.advance(20)
        await renew(store, "wrk_1")
    assert await claim(store, "wrk_2") == []


async def test_renewing_tells_what_the_worker_holds(store: SqlStore) -> None:
    first, second = await held(store, "wrk_1"), await held(store, "wrk_1")
    await held(store, "wrk_2")
    await store.signal(Signal(run_id=second.id, kind="steer"))
    assert await renew(store, "wrk_1") == {first.id: (1, 0), second.id: (1, 1)}
    assert await store.held("wrk_1") == {first.id: (1, 0), second.id: (1, 1)}
    await first.finish()
    assert await renew(store, "wrk_1") == {second.id: (1, 1)}


async def test_a_worker_is_listed_with_its_lease(store: SqlStore, clock: SetClock) -> None:
    await renew(store)
    started = clock.now_ms()
    clock.advance(10)
    await renew(store)
    (row,) = await store.workers()
    assert (row.id, row.host, row.started_at, row.lease_until) == ("wrk_1", "here", started, clock.now_ms() + LEASE_MS)


async def test_a_worker_known_to_be_dead_loses_its_runs_at_once(store: SqlStore) -> None:
    run, other = await held(store, "wrk_1"), await held(store, "wrk_2")
    await store.worker_died(WorkerDied(worker_id="wrk_1"))
    (claimed,) = await claim(store, "wrk_3")
    assert (claimed.row.id, claimed.row.crashes) == (run.id, 1)
    assert await status(store, other.id) == "running"


async def test_the_dead_worker_and_the_claim_may_share_a_commit(store: SqlStore) -> None:
    run = await held(store, "wrk_1")
    await renew(store, "wrk_2")
    _, claimed = await together(store, store.worker_died(WorkerDied(worker_id="wrk_1")), claimed_ids(store, "wrk_2"))
    assert claimed == [run.id]


async def test_a_lease_ends_although_the_clock_jumped_back(store: SqlStore, clock: SetClock) -> None:
    run = await held(store, "wrk_1")
    clock.advance(-3600)
    await renew(store, "wrk_2")
    clock.advance(119)
    await renew(store, "wrk_2")
    assert await claim(store, "wrk_2") == []
    clock.advance(2)
    assert await claimed_ids(store, "wrk_2") == [run.id]


# Giving back


async def test_runs_that_are_let_go_are_queued_and_not_crashed(store: SqlStore) -> None:
    run, kept = await held(store), await held(store)
    await store.let_go(LetGo(worker_id="wrk_1", run_ids=(run.id,)))
    assert await status(store, kept.id) == "running"
    again = await take(store, run.id, "wrk_2")
    assert (again.row.cause, again.row.crashes, again.attempt) == ("released", 0, 2)
    with pytest.raises(Fenced):
        await run.work()


async def test_a_worker_that_leaves_lets_go_of_all_and_is_gone(store: SqlStore) -> None:
    runs = [await held(store) for _ in range(3)]
    other = await held(store, "wrk_2")
    await store.let_go(LetGo(worker_id="wrk_1"))
    assert {await status(store, run.id) for run in runs} == {"queued"}
    assert await status(store, other.id) == "running"
    assert [row.id for row in await store.workers()] == ["wrk_2"]


async def test_nobody_lets_go_of_what_another_holds(store: SqlStore) -> None:
    run = await held(store, "wrk_1")
    await store.let_go(LetGo(worker_id="wrk_2", run_ids=(run.id,)))
    await run.work()


async def test_a_claim_that_shares_a_commit_with_leaving_loses_no_run(store: SqlStore) -> None:
    run_id = await queued(store)
    await renew(store)
    both = store.claim(Claim(worker_id="wrk_1", limit=1, requires=("any",)))
    await together(store, store.let_go(LetGo(worker_id="wrk_1")), both)
    assert await status(store, run_id) == "queued"
    assert await take(store, run_id, "wrk_2")


# One run, to end it


async def test_a_run_that_never_ran_can_be_claimed_to_end_it(store: SqlStore, clock: SetClock) -> None:
    run_id = await queued(store, requires="nobody", due_at=clock.now_ms() + 9000)
    (claimed,) = await claim(store, run_id=run_id)
    assert claimed.events
    assert [recorded.type for recorded in claimed.events] == ["run.queued"]
    ender = Held.just(store, claimed)
    ender.seq = 1
    await ender.finish()
    row = await store.run(run_id)
    assert row
    assert (row.status, row.started_at, row.attempt) == ("completed", None, 1)
    assert await types(store, run_id) == ["run.queued", "run.finished"]


async def test_a_waiting_run_can_be_claimed_to_end_it(store: SqlStore) -> None:
    run = await held(store)
    await run.park()
    (claimed,) = await claim(store, "wrk_2", run_id=run.id)
    assert claimed.events is None
    await Held.just(store, claimed).finish()
    assert (await types(store, run.id))[-3:] == ["run.waiting", "run.resumed", "run.finished"]
    await gapless(store, run.id)


async def test_a_run_that_runs_or_ended_is_not_claimed_to_end_it(store: SqlStore) -> None:
    run = await held(store)
    assert await claim(store, "wrk_2", run_id=run.id) == []
    await run.finish()
    assert await claim(store, "wrk_2", run_id=run.id) == []
    assert await claim(store, "wrk_2", run_id="run_none") == []


async def test_two_that_want_to_end_a_run_are_one(store: SqlStore) -> None:
    run_id = await queued(store)
    answers = await together(store, *(claimed_ids(store, name, run_id=run_id) for name in ("wrk_1", "wrk_2")))
    assert sorted(answers, key=str) == sorted([[run_id], []], key=str)


async def test_runs_past_their_time_are_listed_unless_they_run(store: SqlStore, clock: SetClock) -> None:
    soon = clock.now_ms() + 1000
    waiting = await held(store, expires_at=soon)
    await waiting.park()
    await held(store, expires_at=soon)
    waits_in_line = await queued(store, expires_at=soon)
    await queued(store, expires_at=soon + 1)
    assert await store.expired() == []
    clock.advance(1)
    assert set(await store.expired()) == {waiting.id, waits_in_line}


# Limits of owners


async def test_an_owner_runs_no_more_than_its_limit(store: SqlStore) -> None:
    anns = [await queued(store, owner="ann") for _ in range(4)]
    bobs = [await queued(store, owner="bob")]
    assert set(await claimed_ids(store, owner_limit=2)) == {*anns[:2], *bobs}
    assert await claim(store, owner_limit=2) == []


async def test_what_ends_or_parks_makes_room_for_its_owner(store: SqlStore) -> None:
    first, second, third = [await queued(store, owner="ann") for _ in range(3)]
    await renew(store)
    (claimed,) = await claim(store, owner_limit=1)
    await Held.just(store, claimed).park()
    (claimed,) = await claim(store, owner_limit=1)
    await Held.just(store, claimed).finish()
    assert await claimed_ids(store, owner_limit=1) == [third]
    assert [await status(store, run_id) for run_id in (first, second)] == ["waiting", "completed"]


async def test_an_owner_may_have_a_limit_of_its_own(store: SqlStore) -> None:
    await by_hand(store, "INSERT INTO limits (owner, max_running) VALUES ('ann', 3), ('bob', 0)")
    anns = [await queued(store, owner="ann") for _ in range(4)]
    await queued(store, owner="bob")
    carl = await queued(store, owner="carl")
    assert set(await claimed_ids(store, owner_limit=1)) == {*anns[:3], carl}


async def test_a_full_owner_is_in_nobodys_way(store: SqlStore) -> None:
    for _ in range(5):
        await queued(store, owner="ann", priority=9)
    await claim(store, owner_limit=1)
    bob = await queued(store, owner="bob")
    assert await claimed_ids(store, limit=1, owner_limit=1) == [bob]


async def test_an_owner_that_may_run_nothing_is_in_nobodys_way(store: SqlStore) -> None:
    await by_hand(store, "INSERT INTO limits (owner, max_running) VALUES ('bob', 0)")
    for _ in range(5):
        await queued(store, owner="bob", priority=9)
    ann = await queued(store, owner="ann")
    assert await claimed_ids(store, limit=2, owner_limit=1) == [ann]


async def test_children_do_not_count_towards_the_limit(store: SqlStore) -> None:
    run = await held(store, owner="ann")
    child = await run.start("a", owner="ann")
    await queued(store, owner="ann")
    assert await claimed_ids(store, owner_limit=1) == [child]


async def test_what_was_left_behind_goes_on_whatever_the_limit(store: SqlStore, clock: SetClock) -> None:
    runs = {(await held(store, "wrk_1", owner="ann")).id for _ in range(2)}
    clock.advance(31)
    await renew(store, "wrk_2")
    assert set(await claimed_ids(store, "wrk_2", owner_limit=1)) == runs


async def test_claims_of_one_commit_keep_the_limit(store: SqlStore) -> None:
    for _ in range(4):
        await queued(store, owner="ann")
    answers = await together(store, *(claimed_ids(store, name, owner_limit=2) for name in ("wrk_1", "wrk_2")))
    assert sum(len(answer) for answer in answers if isinstance(answer, list)) == 2


async def test_cancelled_runs_in_line_can_still_be_claimed(store: SqlStore) -> None:
    run_id = await queued(store)
    assert await store.cancel(Cancel(run_id=run_id)) == {run_id: "queued"}
    await renew(store)
    (claimed,) = await claim(store)
    assert claimed.row.cancelled


async def test_many_renewals_at_once_are_one_lease_each(store: SqlStore) -> None:
    renewals = [store.renew(Renew(worker=worker(f"wrk_{n % 4}"), lease_ms=LEASE_MS)) for n in range(40)]
    await asyncio.gather(*renewals)
    assert sorted(row.id for row in await store.workers()) == [f"wrk_{n}" for n in range(4)]
