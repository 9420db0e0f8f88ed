"""Workers that are killed, stopped and started again, with a thousand runs under way."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retinue import Retinue
from tests.conftest import eventually

from . import jobs
from .fleet import LEASE, check, fleet, inside_a_write, readers, rows, settle

pytestmark = pytest.mark.slow
RUNS = 1000
AT_LEAST = 50


async def submit_many(app: Retinue, count: int, seconds: float, function: Any = jobs.two_writes) -> list[str]:
    runs = await asyncio.gather(*(app.submit(function, seconds) for _ in range(count)))
    return [run.id for run in runs]


@pytest.mark.parametrize(("concurrency", "at_least"), [(50, 20), (200, AT_LEAST)])
async def test_C13_one_of_two_workers_is_killed(
    shared_url: str, tmp_path: Path, concurrency: int, at_least: int
) -> None:
    async with fleet(shared_url, tmp_path) as workers, Retinue.open(shared_url, worker=False) as app:
        run_ids = await submit_many(app, RUNS, 0.6)
        async with readers(app, run_ids):
            doomed, _ = [await workers.start(concurrency=concurrency, lease=30) for _ in range(2)]
            await workers.effects_begun(300)

            async def is_busy() -> bool:
                return await inside_a_write(app, await workers.held_by(app, doomed)) > at_least * 3 // 2

            await eventually(is_busy)
            doomed.kill()
            await doomed.wait()
            inside = await inside_a_write(app, await workers.held_by(app, doomed))
            assert inside >= at_least, f"inconclusive: only {inside} of its runs were inside a write"
            await settle(app, run_ids)
        tally = await check(app, workers, run_ids)
        print(f"one of two killed: {inside} runs were inside a write; {tally}")
        assert tally.statuses == {"completed": RUNS}
        assert tally.crashed
        assert tally.unknown


async def test_all_are_killed_and_one_starts(shared_url: str, tmp_path: Path) -> None:
    async with fleet(shared_url, tmp_path) as workers, Retinue.open(shared_url, worker=False) as app:
        run_ids = await submit_many(app, RUNS, 0.6)
        async with readers(app, run_ids):
            all_of_them = await asyncio.gather(workers.start(lease=30), workers.start(lease=30))
            await workers.effects_begun(300)
            for process in all_of_them:
                process.kill()
                await process.wait()
            inside = await inside_a_write(app, [row.id for row in await rows(app) if row.status == "running"])
            assert inside >= AT_LEAST, f"inconclusive: only {inside} runs were inside a write"
            await workers.start()
            await settle(app, run_ids)
        print(f"all killed: {inside} runs were inside a write; {await check(app, workers, run_ids)}")


async def stop_between_commits(url: str, process: asyncio.subprocess.Process) -> None:
    """A process that sleeps within a transaction on SQLite has the file's lock, and everybody else waits for it."""
    process.send_signal(signal.SIGSTOP)
    while url.startswith("sqlite") and _locked(url):
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.01)
        process.send_signal(signal.SIGSTOP)


def _locked(url: str) -> bool:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=1, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


async def test_a_worker_that_was_stopped_for_longer_than_its_lease_writes_nothing_more(
    shared_url: str, tmp_path: Path
) -> None:
    async with fleet(shared_url, tmp_path) as workers, Retinue.open(shared_url, worker=False) as app:
        run_ids = await submit_many(app, 200, 0.6)
        async with readers(app, run_ids):
            sleeper = await workers.start()
            await workers.effects_begun(50)
            await stop_between_commits(shared_url, sleeper)
            held = {row.id: row.attempt for row in await rows(app) if row.status == "running"}
            assert held, "inconclusive: it held nothing"
            await workers.start()
            await settle(app, run_ids)
        before = {run_id: len(await app.service.events(run_id, limit=1000)) for run_id in held}
        sleeper.send_signal(signal.SIGCONT)
        await asyncio.sleep(LEASE)  # what it still holds in memory goes on, and is refused
        after = {run_id: len(await app.service.events(run_id, limit=1000)) for run_id in held}
        assert after == before
        for run_id, attempt in held.items():
            ours = [event for event in await app.service.events(run_id, limit=1000) if event.attempt == attempt]
            assert all(event.type != "run.finished" for event in ours)
        print(f"stopped for longer than its lease with {len(held)} runs: {await check(app, workers, run_ids)}")


async def test_a_worker_that_is_asked_to_stop_leaves_nothing_undone(shared_url: str, tmp_path: Path) -> None:
    async with fleet(shared_url, tmp_path) as workers, Retinue.open(shared_url, worker=False) as app:
        run_ids = await submit_many(app, 300, 0.4)
        async with readers(app, run_ids):
            first = await workers.start()
            await workers.effects_begun(60)
            first.terminate()
            await workers.start()
            assert await first.wait() == 0
            await settle(app, run_ids)
        tally = await check(app, workers, run_ids)
        print(f"drained: {tally}")
        assert tally.unknown == tally.crashed == 0
