"""Much of everything: a million finished runs, ten thousand parked ones, a thousand readers."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import tracemalloc
from contextlib import closing

from bench.functions import paced_steps, three, waits
from retinue import Retinue
from retinue.ids import new_id
from retinue.ports.clock import SystemClock
from retinue.ports.store import Claim, LetGo, Renew
from retinue.store import schema
from retinue.store.sql import dialect_of

FINISHED = (
    "id text, root_id text, depth int, owner text, target text, requires text, durability text, priority int, "
    "due_at bigint, status text, reason text, recovered bool, cause text, cancelled bool, attempt int, crashes int, "
    "last_seq bigint, tree_seq bigint, signal_seq bigint, created_at bigint, started_at bigint, finished_at bigint"
)


def fill_with_finished(url: str, runs: int) -> None:
    dialect, now = dialect_of(url), SystemClock().now_ms()
    with closing(dialect.connect()) as connection:
        schema.prepare(dialect, connection)
        for start in range(0, runs, 10_000):
            rows = [
                (
                    *(run_id := new_id("run"), run_id, 0, "", "function:bench.functions:three", "x" * 32, "effects"),
                    *(0, now, "completed", "goal", False, "submit", False, 1, 0, 9, 9, 0, now, now, now),
                )
                for _ in range(min(10_000, runs - start))
            ]
            tx = dialect.begin(connection, now, database_time=False)
            tx.insert("runs", FINISHED, rows)
            dialect.commit(connection)


async def claim_ms(url: str, times: int) -> float:
    """Median milliseconds of a claim of one queued run, on whatever is in the database."""
    async with Retinue.open(url, worker=False) as app:
        store, worker = app.services.store, app.worker
        await store.renew(Renew(worker=worker.row, lease_ms=30_000))
        took = []
        for number in range(times):
            await app.submit(three, number)
            requires = tuple(await store.unseen_requirements([]))
            started = time.perf_counter()
            claimed = await store.claim(Claim(worker_id=worker.id, limit=1, requires=requires))
            took.append(time.perf_counter() - started)
            assert len(claimed) == 1
        await store.let_go(LetGo(worker_id=worker.id))
    return statistics.median(took) * 1000


async def park_many(url: str, runs: int) -> float:
    """Kilobytes that a worker holds for each parked run."""
    async with Retinue.open(url, concurrency=200) as app:
        await app.submit(waits, 0)
        await _all_parked(app, 1)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for start in range(0, runs, 500):
            await asyncio.gather(*(app.submit(waits, start + n) for n in range(500)))
        await _all_parked(app, runs + 1)
        await asyncio.sleep(1)  # the list of all tickets that was just read is none of it
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert not app.worker.attempts
    return held / 1024 / runs


async def _all_parked(app: Retinue, runs: int) -> None:
    while len(await app.service.tickets()) < runs or app.worker.attempts:
        await asyncio.sleep(0.1)


async def readers(url: str, count: int) -> tuple[float, float]:
    """Seconds that one run of 2,000 events takes with `count` readers, and megabytes that they hold."""
    async with Retinue.open(url) as app:
        await app.run(paced_steps, 2)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        run = await app.submit(paced_steps, 500, start_at=SystemClock().now_ms() + 2000)
        seen = [0] * count

        async def read(number: int) -> None:
            async for _ in run.follow():
                seen[number] += 1

        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                tasks.create_task(read(number))
            await asyncio.sleep(1.5)
            held = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            assert (await run.outcome()).output == 500
        row = await run.row()
        assert all(number == row.last_seq for number in seen), "a reader missed something"
        assert row.finished_at
        assert row.started_at
    return (row.finished_at - row.started_at) / 1000, held / 1024 / 1024
