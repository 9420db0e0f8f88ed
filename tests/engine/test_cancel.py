"""Cancelling: whatever a run does, it ends, and all below it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.core import events as e
from retinue.engine import attempt
from retinue.errors import RunEnded, UnknownRun
from retinue.testing import SetClock, drain
from tests.outside import data_of, doomed, ended, outside, types_of


async def work(ctx: FunctionContext, input: Any) -> str:
    try:
        await ctx.step("work", outside.wait_at_door)
    finally:
        outside.done.append("left")
    return "done"


async def ask(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.wait("question")


async def family(ctx: FunctionContext, input: Any) -> list[Any]:
    beside = await ctx.start(ask)
    front = await ctx.child(middle)
    return [front, (await beside.outcome()).output]


async def middle(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.child(ask)


async def test_a_delayed_run_is_cancelled_at_once(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(work, start_at=clock.now_ms() + 60_000)
    await run.cancel("not needed")
    outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == ("cancelled", "cancelled")
    assert outcome.error
    assert outcome.error.message == "not needed"
    assert await types_of(run) == ["run.queued", "run.finished"]


async def test_a_running_run_is_stopped_and_its_write_is_unknown(app: Retinue) -> None:
    run = await app.submit(work)
    await outside.at_door.wait()
    await run.cancel()
    assert (await ended(app, run)).status == "cancelled"
    assert outside.done == ["door", "left"]
    (finished,) = await data_of(run, e.ToolFinished)
    assert (finished.ok, finished.unknown) == (False, True)


async def test_a_waiting_run_is_cancelled_and_its_ticket_is_closed(app: Retinue) -> None:
    run = await app.submit(ask)
    await drain(app)
    await run.cancel()
    assert (await ended(app, run)).status == "cancelled"
    assert await app.tickets() == []


async def test_a_whole_tree_is_cancelled_and_every_journal_can_be_read(app: Retinue) -> None:
    run = await app.submit(family)
    await drain(app)
    await run.cancel()
    await ended(app, run)
    rows = await app.service.tree(run.id)
    assert [row.status.value for row in rows] == ["cancelled"] * 4
    for row in rows:
        await app.service.retry(row.id)
    await drain(app)
    assert {row.status.value for row in await app.service.runs()} == {"cancelled", "waiting"}


async def test_a_run_is_cancelled_without_any_worker(file_url: str, clock: SetClock) -> None:
    async with Retinue.open(file_url, clock=clock) as app:
        waiting = await app.submit(family)
        await drain(app)
    async with Retinue.open(file_url, clock=clock, worker=False) as app:
        queued = await app.submit(ask)
        for run in (app.get(waiting.id), queued):
            await run.cancel()
            assert (await run.outcome()).status == "cancelled"
        assert {row.status.value for row in await app.service.runs()} == {"cancelled"}


async def test_a_run_that_ended_or_is_not_there_cannot_be_cancelled(app: Retinue) -> None:
    run = await app.submit(ask)
    await run.cancel()
    await ended(app, run)
    with pytest.raises(RunEnded, match="already cancelled"):
        await run.cancel()
    with pytest.raises(UnknownRun):
        await app.get("run_nobody").cancel()


async def deaf(ctx: FunctionContext, input: Any) -> str:
    outside.at_door.set()
    while not outside.door.is_set():
        try:
            await outside.door.wait()
        except asyncio.CancelledError:
            outside.done.append("ignored")
    try:
        await ctx.step("after", outside.act)
    except BaseException as error:
        outside.done.append(type(error).__name__)
        raise
    return "went on"


async def test_code_that_ignores_cancellation_is_abandoned_and_can_do_nothing_more(
    app: Retinue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "GRACE_SECONDS", 0.01)
    run = await app.submit(deaf)
    await outside.at_door.wait()
    await run.cancel()
    assert (await ended(app, run)).status == "cancelled"
    outside.door.set()
    while len(outside.done) < 3:
        await asyncio.sleep(0)
    assert set(outside.done) == {"ignored", "Lost"}


async def stubborn(ctx: FunctionContext, input: Any) -> str:
    try:
        await ctx.step("work", outside.wait_at_door)
    except asyncio.CancelledError:
        return "completed all the same"
    return "done"


async def test_code_that_returns_when_it_is_cancelled_is_cancelled(app: Retinue) -> None:
    run = await app.submit(stubborn)
    await outside.at_door.wait()
    await run.cancel()
    outcome = await ended(app, run)
    assert (outcome.status, outcome.output) == ("cancelled", None)


async def quick(ctx: FunctionContext, input: Any) -> str:
    await ctx.step("quick", outside.act, effect="read")
    await ctx.step("write", outside.act)
    return "done"


async def parent(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.child(quick)


@pytest.mark.parametrize("function", [quick, parent])
async def test_a_cancel_at_any_turn_of_the_loop_leaves_one_outcome_in_each_journal(app: Retinue, function: Any) -> None:
    for turns in range(0, 80, 2):
        run = await app.submit(function)
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.gather(run.cancel(), return_exceptions=True)
        await ended(app, run)
        for row in await app.service.tree(run.id):
            types = await types_of(app.get(row.id))
            assert types.count("run.finished") == 1
            assert types[-1] == "run.finished"
            await (await app.get(row.id).retry()).outcome()  # its journal can be read


async def test_a_cancel_reaches_a_run_of_another_process(file_url: str, clock: SetClock) -> None:
    async with (
        Retinue.open(file_url, clock=clock) as app,
        Retinue.open(file_url, clock=clock, worker=False) as door,
    ):
        run = await app.submit(work)
        await outside.at_door.wait()
        await door.get(run.id).cancel()
        assert (await door.get(run.id).outcome()).status == "cancelled"


async def test_what_was_cancelled_before_a_crash_is_not_run_again(file_url: str, clock: SetClock) -> None:
    async with doomed(file_url, clock) as app:
        run = await app.submit(work)
        await outside.at_door.wait()
    async with Retinue.open(file_url, clock=clock, worker=False) as app:
        await app.get(run.id).cancel()
    async with Retinue.open(file_url, clock=clock) as app:
        assert (await ended(app, app.get(run.id))).status == "cancelled"
    assert outside.done.count("door") == 1
