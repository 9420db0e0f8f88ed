"""What people want to know of many runs at once."""

from __future__ import annotations

from dataclasses import replace

from retinue.ports.store import Renew
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import LEASE_MS, by_hand, held, new_run, queued, worker


async def test_ids_are_found_by_their_beginning_else_by_their_end(store: SqlStore) -> None:
    for run_id in ("run_aab1", "run_aac1", "run_bb"):
        await store.submit(new_run(id=run_id))
    assert await store.ids_like("runs", "run_aa", 5) == ["run_aab1", "run_aac1"]
    assert await store.ids_like("runs", "run_aab", 5) == ["run_aab1"]
    assert await store.ids_like("runs", "run_c1", 5) == ["run_aac1"]
    assert await store.ids_like("runs", "run_1", 1) == ["run_aab1"]
    assert await store.ids_like("runs", "run_x", 5) == []
    assert await store.ids_like("tickets", "tkt_x", 5) == []


async def test_what_goes_before_a_queued_run(store: SqlStore, clock: SetClock) -> None:
    now = clock.now_ms()
    await queued(store, priority=5)
    await queued(store, priority=5)
    await queued(store, priority=1, due_at=now - 10)
    await queued(store, priority=1, due_at=now + 10_000)
    run_id = await queued(store, priority=1)
    await queued(store, priority=0)
    await queued(store, priority=1)
    row = await store.run(run_id)
    assert row
    assert await store.ahead(row) == {5: 2, 1: 1}


async def test_what_workers_hold_and_owners_have(store: SqlStore) -> None:
    run = await held(store, owner="ann")
    await run.start("child", owner="ann")
    await held(store, owner="bob")
    await by_hand(store, "INSERT INTO limits (owner, max_running) VALUES ('bob', 7)")
    assert await store.busy() == {"wrk_1": 3}
    assert await store.owner_load("ann") == (1, None)
    assert await store.owner_load("bob") == (1, 7)


async def test_runs_of_an_owner(store: SqlStore) -> None:
    mine = await queued(store, owner="ann")
    await queued(store, owner="bob")
    assert [row.id for row in await store.runs(owner="ann")] == [mine]
    assert await store.runs(owner="ann", status="running") == []


async def test_stats(store: SqlStore, clock: SetClock) -> None:
    await queued(store, due_at=clock.now_ms() - 5000)
    await queued(store, due_at=clock.now_ms() + 5000)
    await (await held(store)).finish()
    stats = await store.stats()
    assert stats.statuses == {"queued": 1, "running": 1, "completed": 1}
    assert (stats.rows["runs"], stats.rows["tickets"]) == (3, 0)
    assert stats.size > 0
    assert stats.oldest_queued is None


async def test_what_a_worker_says_of_itself(store: SqlStore, clock: SetClock) -> None:
    row = replace(worker(), owner_limit=3, loads='["a"]')
    await store.renew(Renew(worker=row, lease_ms=LEASE_MS))
    draining = replace(row, draining_since=clock.now_ms(), loads='["a","b"]')
    await store.renew(Renew(worker=draining, lease_ms=LEASE_MS))
    (found,) = await store.workers()
    assert (found.draining_since, found.owner_limit, found.loads) == (clock.now_ms(), 3, '["a","b"]')
