"""Pause and resume."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.ports.store import SignalRow
from retinue.testing import SetClock, drain
from tests.outside import doomed, ended, heard, outside, pass_time


async def work(ctx: FunctionContext, input: Any) -> str:
    await ctx.step("first", outside.wait_at_door)
    await ctx.step("second", outside.act, "second")
    return "done"


async def ask(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.wait("question")


async def nap(ctx: FunctionContext, input: Any) -> str:
    await ctx.sleep(hours=1)
    return "awake"


async def test_a_run_that_is_paused_before_its_start_waits_for_resume(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(work, start_at=clock.now_ms() + 1000)
    await run.pause()
    outside.door.set()
    await pass_time(app, clock, 2)
    assert (await run.row()).waits_for == "paused"
    assert not outside.done
    await run.resume()
    assert (await ended(app, run)).output == "done"


async def test_a_pause_lets_the_step_under_way_end_and_begins_no_other(app: Retinue) -> None:
    run = await app.submit(work)
    await outside.at_door.wait()
    await run.pause()
    await heard(app, run)
    outside.door.set()
    await drain(app)
    assert (await run.row()).waits_for == "paused"
    assert outside.done == ["door"]
    await run.resume()
    assert (await ended(app, run)).output == "done"
    assert outside.done == ["door", "second"]


async def test_a_pause_that_is_taken_back_in_time_stops_nothing(app: Retinue) -> None:
    run = await app.submit(work)
    await outside.at_door.wait()
    await run.pause()
    await run.resume()
    outside.door.set()
    assert (await ended(app, run)).output == "done"


async def test_a_pause_of_a_sleeping_run_outlasts_its_sleep(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(nap)
    await drain(app)
    await run.pause()
    await drain(app)
    await pass_time(app, clock, 7200)
    assert (await run.row()).waits_for == "paused"
    await run.resume()
    assert (await ended(app, run)).output == "awake"


async def test_to_resume_what_is_not_paused_changes_nothing(app: Retinue) -> None:
    run = await app.submit(ask)
    await drain(app)
    await run.resume()
    await drain(app)
    assert (await run.row()).waits_for == "input"
    await run.pause()
    await run.pause()
    await drain(app)
    await run.resume()
    await drain(app)
    assert (await run.row()).waits_for == "input"


async def test_an_answer_that_arrives_while_paused_is_there_after_resume(app: Retinue) -> None:
    run = await app.submit(ask)
    await drain(app)
    await run.pause()
    await drain(app)
    await app.answer((await run.tickets())[0].id, "yes")
    await drain(app)
    assert (await run.row()).waits_for == "paused"
    await run.resume()
    assert (await ended(app, run)).output == "yes"


async def test_a_pause_and_an_answer_at_once_lose_neither(app: Retinue) -> None:
    run = await app.submit(ask)
    await drain(app)
    (ticket,) = await run.tickets()
    await asyncio.gather(run.pause(), app.answer(ticket.id, "yes"))
    await drain(app)
    assert (await run.row()).waits_for == "paused"
    await run.resume()
    assert (await ended(app, run)).output == "yes"
    assert (await (await run.retry()).outcome()).output == "yes"  # its journal can be read


async def test_a_paused_run_can_be_cancelled(app: Retinue) -> None:
    run = await app.submit(ask)
    await drain(app)
    await run.pause()
    await drain(app)
    await run.cancel("enough")
    assert (await ended(app, run)).status == "cancelled"


async def test_pause_and_resume_at_any_turn_of_the_loop_lose_nothing(app: Retinue) -> None:
    outside.door.set()
    for turns in range(40):
        run = await app.submit(work)
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.gather(run.pause(), return_exceptions=True)  # it may have ended already
        for _ in range(turns * 7 % 23):
            await asyncio.sleep(0)
        if not (await run.row()).status.terminal:
            await asyncio.gather(run.resume(), return_exceptions=True)
        assert (await ended(app, run)).output == "done"
    assert outside.done == ["door", "second"] * 40


async def lingers(ctx: FunctionContext, input: Any) -> None:
    try:
        await ctx.sleep(hours=1)
    finally:
        await outside.wait_at_door()


async def test_a_cancel_that_is_heard_with_a_pause_while_the_code_is_left_is_heeded(
    app: Retinue, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await app.submit(lingers)
    await outside.at_door.wait()
    store, asked = app.services.store, app.services.store.signals

    async def signals(run_id: str, after: int) -> list[SignalRow]:
        heard = await asked(run_id, after)
        outside.door.set()  # the code ends just as it is told to stop
        for _ in range(20):
            await asyncio.sleep(0)
        return heard

    monkeypatch.setattr(store, "signals", signals)
    await asyncio.gather(run.pause(), run.cancel())
    assert (await ended(app, run)).status == "cancelled"


async def asks_beside_a_step(ctx: FunctionContext, input: Any) -> list[Any]:
    return list(await asyncio.gather(ctx.step("look", outside.wait_at_door, effect="read"), ctx.wait("question")))


async def test_a_pause_outlives_a_crash_after_a_later_signal(file_url: str, clock: SetClock) -> None:
    async with doomed(file_url, clock) as app:
        run = await app.submit(asks_beside_a_step)
        await outside.at_door.wait()
        await run.pause()
        await heard(app, run)
        await app.answer((await run.tickets())[0].id, "yes")
        await heard(app, run)
    outside.door.set()
    async with Retinue.open(file_url, clock=clock) as app:
        run = app.get(run.id)
        await drain(app)
        assert (await run.row()).waits_for == "paused"
        await run.resume()
        assert (await ended(app, run)).output == ["door", "yes"]


async def test_who_wanted_a_paused_run_ended_without_reason_leaves_it_paused(app: Retinue) -> None:
    run = await app.submit(ask)
    await drain(app)
    await run.pause()
    await drain(app)
    await app.worker.end(run.id)
    await drain(app)
    assert (await run.row()).waits_for == "paused"
