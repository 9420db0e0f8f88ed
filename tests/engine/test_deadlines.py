"""Deadlines: `max_minutes` of work, and `expires_at`, whatever the run does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue import FunctionContext, Retinue, durable
from retinue.testing import SetClock, drain
from tests.outside import doomed, ended, outside, pass_time, seconds


async def work(ctx: FunctionContext, input: Any) -> str:
    await ctx.sleep(hours=5)
    await ctx.step("work", outside.wait_at_door, effect="read")
    return "done"


async def ask(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.wait("question")


async def parent(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.child(busy)


async def busy(ctx: FunctionContext, input: Any) -> str:
    await ctx.step("work", outside.wait_at_door, effect="read")
    return "done"


async def test_only_work_counts_and_not_sleep(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(work, max_minutes=1)
    await drain(app)
    clock.advance(5 * 3600)
    await app.worker.duty()
    await outside.at_door.wait()
    clock.advance(59)
    outside.door.set()
    assert (await ended(app, run)).output == "done"


async def test_a_run_that_worked_too_long_is_timed_out(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(busy, max_minutes=1)
    await outside.at_door.wait()
    clock.advance(60)
    outcome = await ended(app, run)
    assert (outcome.status, outcome.reason) == ("timed_out", "timeout")
    assert outcome.error
    assert "1 minutes" in outcome.error.message


async def test_waiting_for_people_does_not_count(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(ask, max_minutes=1)
    await drain(app)
    await pass_time(app, clock, 3600)
    await app.answer((await run.tickets())[0].id, "yes")
    assert (await ended(app, run)).output == "yes"


async def test_a_parent_that_waits_for_a_child_in_memory_does_not_count(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(parent, max_minutes=0.1)
    await outside.at_door.wait()
    while (await run.row()).status != "running" or app.worker.attempts[run.id]._active_since is not None:
        await asyncio.sleep(0)
    clock.advance(20)
    outside.door.set()
    assert (await ended(app, run)).output == "done"


async def test_work_before_a_crash_counts(file_url: str, clock: SetClock) -> None:
    async with doomed(file_url, clock) as app:
        run = await app.submit(two, max_minutes=1)
        await outside.at_door.wait()
        clock.advance(50)
        outside.door.set()
        while "second" not in outside.done:
            await asyncio.sleep(0)
    async with Retinue.open(file_url, clock=clock) as app:
        outside.at_door.clear()
        await outside.at_door.wait()
        clock.advance(10)
        assert (await ended(app, app.get(run.id))).status == "timed_out"


async def two(ctx: FunctionContext, input: Any) -> None:
    await ctx.step("first", outside.wait_at_door, "first")
    outside.door.clear()
    await ctx.step("second", outside.wait_at_door, "second", effect="read")


@durable(max_minutes=1)
async def short(ctx: FunctionContext, input: Any) -> None:
    await ctx.step("work", outside.wait_at_door)


async def test_a_function_says_itself_how_long_it_may_work(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(short)
    await outside.at_door.wait()
    clock.advance(60)
    assert (await ended(app, run)).status == "timed_out"


async def test_a_running_run_expires(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(busy, expires_at=clock.now_ms() + seconds(60))
    await outside.at_door.wait()
    clock.advance(60)
    outcome = await ended(app, run)
    assert (outcome.status, outcome.error and outcome.error.message) == ("timed_out", "it expired")


@pytest.mark.parametrize("function", [ask, work])
async def test_a_waiting_run_expires(app: Retinue, clock: SetClock, function: Any) -> None:
    run = await app.submit(function, expires_at=clock.now_ms() + seconds(60))
    await drain(app)
    await pass_time(app, clock, 60)
    assert (await run.row()).status == "timed_out"
    assert await app.tickets() == []


async def test_a_queued_run_expires(app: Retinue, clock: SetClock) -> None:
    begin = clock.now_ms()
    run = await app.submit(busy, start_at=begin + seconds(3600), expires_at=begin + seconds(60))
    await pass_time(app, clock, 60)
    assert (await run.row()).status == "timed_out"
    assert not outside.done
