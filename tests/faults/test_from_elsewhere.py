"""Cancel, pause, resume and answer, said by a process that does not run what they are for."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

from retinue import Retinue, Run
from retinue.core.outcome import Status
from tests.conftest import eventually

from . import jobs
from .fleet import check_journal, fleet

pytestmark = pytest.mark.slow


async def has(run: Run, status: Status) -> bool:
    return (await run.row()).status is status


async def test_a_run_is_cancelled_from_elsewhere_within_a_second(shared_url: str, tmp_path: Path) -> None:
    async with fleet(shared_url, tmp_path) as workers, Retinue.open(shared_url, worker=False) as app:
        await workers.start()
        runs = [await app.submit(jobs.steps_on_and_on, 0.05) for _ in range(20)]
        took = []
        for run in runs:
            await eventually(partial(has, run, Status.RUNNING))
            asked = time.monotonic()
            await run.cancel()
            assert (await run.outcome()).status is Status.CANCELLED
            took.append(time.monotonic() - asked)
            check_journal(await app.service.events(run.id, limit=100_000), settled=True)
        print(f"cancel from elsewhere: median {sorted(took)[10]:.3f} s, longest {max(took):.3f} s")


async def test_a_run_is_paused_and_resumed_from_elsewhere(shared_url: str, tmp_path: Path) -> None:
    async with fleet(shared_url, tmp_path) as workers, Retinue.open(shared_url, worker=False) as app:
        await workers.start()
        run = await app.submit(jobs.steps_on_and_on, 0.01)
        await eventually(lambda: has(run, Status.RUNNING))
        await run.pause()
        await eventually(lambda: has(run, Status.WAITING))
        seq = (await run.row()).last_seq
        await asyncio.sleep(0.5)  # it could go on now, if it did not wait
        assert (await run.row()).last_seq == seq
        await run.resume()
        await eventually(lambda: has(run, Status.RUNNING))
        await run.cancel()
        assert (await run.outcome()).status is Status.CANCELLED


async def test_a_ticket_is_answered_from_elsewhere(shared_url: str, tmp_path: Path) -> None:
    async with fleet(shared_url, tmp_path) as workers, Retinue.open(shared_url, worker=False) as app:
        await workers.start()
        run = await app.submit(jobs.asks)
        await eventually(lambda: has(run, Status.WAITING))
        (ticket,) = await run.tickets()
        await app.answer(ticket.id, "Ada")
        assert (await run.outcome()).output == "hello Ada"


async def test_readers_that_come_back_see_each_event_once(shared_url: str, tmp_path: Path) -> None:
    async with fleet(shared_url, tmp_path) as workers, Retinue.open(shared_url, worker=False) as app:
        first = await workers.start()
        run = await app.submit(jobs.two_writes, 1.5)
        seen: list[int] = []
        while not seen or not (await run.row()).status.terminal or seen[-1] < (await run.row()).last_seq:
            async for event in run.follow(after=seen[-1] if seen else 0):
                seen.append(event.seq)  # type: ignore[union-attr]
                if len(seen) == 3:
                    first.kill()
                    await workers.start()
                break  # the connection breaks after each event, and the reader comes back with its last seq
        assert seen == list(range(1, len(seen) + 1))
        check_journal(await app.service.events(run.id), settled=True)
