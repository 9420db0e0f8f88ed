"""Sleeping: parked, on the clock, counted from when it was first said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.ports.clock import SystemClock
from retinue.testing import SetClock, drain
from tests.conftest import Postgres
from tests.outside import doomed, ended, outside, pass_time, types_of


async def nap(ctx: FunctionContext, input: dict[str, float]) -> str:
    await ctx.sleep(**input)
    return "awake"


async def test_a_run_that_sleeps_is_parked_until_the_time_has_come(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(nap, {"hours": 1, "minutes": 1, "days": 1, "seconds": 1})
    await drain(app)
    row = await run.row()
    assert (row.status, row.waits_for, row.wake_at) == ("waiting", "timer", clock.now_ms() + 90_061_000)
    await pass_time(app, clock, 90_060)
    assert (await run.row()).status == "waiting"
    await pass_time(app, clock, 1)
    assert (await run.outcome()).output == "awake"


async def test_to_sleep_for_no_time_does_not_park(app: Retinue) -> None:
    run = await app.submit(nap, {"seconds": 0})
    assert (await ended(app, run)).output == "awake"
    assert "run.waiting" not in await types_of(run)


async def test_a_worker_wakes_sleepers_by_itself(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(nap, {"seconds": 5})
    await drain(app)
    clock.advance(6)
    async with asyncio.timeout(5):
        assert (await run.outcome()).output == "awake"


async def test_a_short_sleep_does_not_wait_for_the_next_look(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(nap, {"seconds": 0.5})
    await drain(app)
    clock.advance(0.5)
    async with asyncio.timeout(5):
        assert (await run.outcome()).output == "awake"


class Wrong(SystemClock):
    """A machine's clock that nobody has set."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


@pytest.mark.postgres
@pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000])
async def test_sleepers_wake_by_the_databases_clock(postgres: Postgres, ahead_ms: int) -> None:
    with postgres.database() as url:
        async with Retinue.open(url, clock=Wrong(ahead_ms)) as app:
            run = await app.submit(nap, {"seconds": 0.2})
            assert (await run.outcome()).output == "awake"
            assert (await types_of(run)).count("run.resumed") == 1


async def two_naps(ctx: FunctionContext, input: Any) -> list[str]:
    woken: list[str] = []

    async def sleeper(name: str, minutes: int) -> None:
        await ctx.sleep(minutes=minutes)
        woken.append(name)

    await asyncio.gather(sleeper("long", 20), sleeper("short", 10))
    return woken


async def test_parallel_sleepers_park_until_the_first_is_due(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(two_naps)
    await drain(app)
    assert (await run.row()).wake_at == clock.now_ms() + 600_000
    await pass_time(app, clock, 600)
    assert (await run.row()).wake_at == clock.now_ms() + 600_000
    await pass_time(app, clock, 600)
    assert sorted((await run.outcome()).output) == ["long", "short"]  # type: ignore[call-overload]


async def sleep_after_step(ctx: FunctionContext, input: Any) -> str:
    await asyncio.gather(ctx.sleep(hours=1), ctx.step("work", outside.wait_at_door, effect="read"))
    return "awake"


async def test_a_crash_does_not_prolong_a_sleep(file_url: str, clock: SetClock) -> None:
    begin = clock.now_ms()
    async with doomed(file_url, clock) as app:
        run = await app.submit(sleep_after_step)
        await outside.at_door.wait()
    outside.door.set()
    async with Retinue.open(file_url, clock=clock) as app:
        await drain(app)
        assert (await app.get(run.id).row()).wake_at == begin + 3_600_000


async def test_a_clock_that_jumps_back_loses_nothing(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(sleep_after_step)
    await outside.at_door.wait()
    clock.advance(-3600)
    outside.door.set()
    await drain(app)
    await pass_time(app, clock, 7200)
    assert (await run.outcome()).output == "awake"
    events = await app.service.events(run.id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
