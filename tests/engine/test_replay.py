"""The rules of durable code: what may go on, what ends the run, when it parks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.engine import attempt
from retinue.testing import SetClock, drain
from tests.outside import ended, outside, pass_time


async def chance(ctx: FunctionContext, input: Any) -> None:
    outside.done.append(number := len(outside.done))
    await ctx.step("draw", outside.act, ["number", number], effect="read")
    await ctx.sleep(hours=1)


async def test_arguments_that_differ_from_the_recorded_ones_end_the_run_with_both_shown(
    app: Retinue, clock: SetClock
) -> None:
    run = await app.submit(chance)
    await drain(app)
    await pass_time(app, clock, 3600)
    outcome = await run.outcome()
    assert (outcome.reason, outcome.error and outcome.error.kind) == ("invalid", "ReplayMismatch")
    assert outcome.error
    assert '[["number",0]]' in outcome.error.message
    assert '[["number",2]]' in outcome.error.message


async def dice(ctx: FunctionContext, input: Any) -> None:
    try:
        await ctx.step("roll", outside.act, random.random())
    except Exception:
        outside.done.append("caught")
    await ctx.sleep(hours=1)


async def test_code_that_reads_chance_outside_a_step_is_found_out_even_when_it_catches_the_error(
    app: Retinue, clock: SetClock
) -> None:
    run = await app.submit(dice)
    await drain(app)
    await pass_time(app, clock, 3600)
    assert (await run.outcome()).reason == "invalid"
    assert outside.done[-1] == "caught"


async def nested(ctx: FunctionContext, input: str) -> str:
    async def outer() -> Any:
        if input == "caught inside":
            try:
                return await ctx.step("inner", outside.act)
            except Exception:
                return "caught"
        return await ctx.step("inner", outside.act)

    try:
        await ctx.step("outer", outer)
    except Exception:
        outside.done.append("caught outside")
    return "went on"


@pytest.mark.parametrize("where", ["caught inside", "caught outside"])
async def test_a_step_inside_a_step_ends_the_run_even_when_the_code_catches_the_error(app: Retinue, where: str) -> None:
    outcome = await ended(app, await app.submit(nested, where))
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert outcome.error
    assert outcome.error.kind == "NestedStep"
    assert "act" not in outside.done


async def swallowing(ctx: FunctionContext, input: str) -> str:
    try:
        await ctx.sleep(hours=1)
    except BaseException:
        if input == "step":
            await ctx.step("after", outside.act)
        if input == "error":
            raise ValueError("something else") from None
        if input == "sleep":
            await ctx.sleep(hours=1)
    return "went on"


@pytest.mark.parametrize("after", ["nothing", "step", "error", "sleep"])
async def test_code_that_swallows_being_parked_ends_as_invalid(app: Retinue, after: str) -> None:
    outcome = await ended(app, await app.submit(swallowing, after))
    assert (outcome.reason, outcome.error and outcome.error.kind) == ("invalid", "ParkedSwallowed")
    assert not outside.done


async def tries_again(ctx: FunctionContext, input: str) -> None:
    """Holds whatever it is told for a failure that will pass."""
    while not outside.door.is_set():
        outside.done.append("again")
        try:
            match input:
                case "sleep":
                    await ctx.sleep(hours=1)
                case "wait":
                    await ctx.wait("name")
                case "child":
                    await ctx.child(endless)
                case "rule":
                    await ctx.step("a#2", outside.act)
                case "started":
                    await (await ctx.start(endless)).outcome()
        except BaseException:
            continue


async def endless(ctx: FunctionContext, input: None) -> None:
    await ctx.wait("never")


@pytest.fixture
async def door_at_last() -> AsyncIterator[None]:
    """Lets code end with the test that would try for ever."""
    yield
    outside.door.set()


@pytest.mark.usefixtures("door_at_last")
@pytest.mark.parametrize("what", ["sleep", "wait", "child", "rule", "started"])
async def test_code_that_tries_again_for_ever_ends_as_invalid_and_holds_up_nobody(
    app: Retinue, clock: SetClock, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(attempt, "GRACE_SECONDS", 0.01)
    run = await app.submit(tries_again, what)
    while len(outside.done) < 3:
        await asyncio.sleep(0)
    assert (await app.run(brief)).output == "done"
    clock.advance(attempt.LEAVING_SECONDS)
    outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert len(outside.done) < 10


async def brief(ctx: FunctionContext, input: None) -> str:
    return "done"


async def lingers(ctx: FunctionContext, input: None) -> None:
    try:
        await ctx.sleep(hours=1)
    except BaseException:
        await outside.wait_at_door()


async def test_code_that_does_not_end_when_it_is_left_is_stopped(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(lingers)
    await outside.at_door.wait()
    clock.advance(attempt.LEAVING_SECONDS)
    outcome = await run.outcome()
    assert (outcome.reason, outcome.error and outcome.error.kind) == ("invalid", "ParkedSwallowed")


async def tidy(ctx: FunctionContext, input: bool) -> str:
    try:
        await ctx.sleep(hours=1)
    finally:
        outside.done.append("tidied")
        if input:
            await ctx.step("tidy", outside.act)
    return "done"


async def test_finally_runs_when_the_code_is_parked(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(tidy, False)
    await drain(app)
    assert outside.done == ["tidied"]
    await pass_time(app, clock, 3600)
    assert (await run.outcome()).output == "done"


async def test_finally_that_uses_ctx_after_being_parked_ends_as_invalid(app: Retinue) -> None:
    outcome = await ended(app, await app.submit(tidy, True))
    assert (outcome.reason, outcome.error and outcome.error.kind) == ("invalid", "ParkedSwallowed")
    assert outside.done == ["tidied"]


async def branches(ctx: FunctionContext, input: str) -> Any:
    async def work() -> Any:
        await ctx.step("first", outside.wait_at_door)
        return await ctx.step("second", outside.act, "second")

    if input == "gather":
        return await asyncio.gather(ctx.sleep(hours=1), work())
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ctx.sleep(hours=1))
        working = tasks.create_task(work())
    return [None, working.result()]


@pytest.mark.parametrize("way", ["gather", "group"])
async def test_a_branch_that_sleeps_lets_the_other_end_its_steps_before_the_run_parks(
    app: Retinue, clock: SetClock, way: str
) -> None:
    run = await app.submit(branches, way)
    await outside.at_door.wait()
    assert (await run.row()).status == "running"
    outside.door.set()
    await drain(app)
    assert (await run.row()).waits_for == "timer"
    assert outside.done == ["door", "second"]
    await pass_time(app, clock, 3600)
    assert (await run.outcome()).output == [None, "second"]


async def race(ctx: FunctionContext, input: Any) -> Any:
    sleep = asyncio.ensure_future(ctx.sleep(hours=1))
    step = asyncio.ensure_future(ctx.step("work", outside.wait_at_door))
    done, _ = await asyncio.wait([sleep, step], return_when=asyncio.FIRST_COMPLETED)
    return [await ctx.step("after", outside.act, [task.result() for task in done])]


async def test_the_first_of_a_sleep_and_a_step_goes_on(app: Retinue) -> None:
    run = await app.submit(race)
    await outside.at_door.wait()
    outside.door.set()
    assert (await ended(app, run)).output == [["door"]]


async def own_parking(ctx: FunctionContext, input: Any) -> str:
    ticking = asyncio.ensure_future(ctx.sleep(hours=1))
    await asyncio.sleep(0)
    return f"left {ticking.done()} behind"


async def test_tasks_that_the_code_leaves_behind_end_with_it(app: Retinue) -> None:
    assert (await ended(app, await app.submit(own_parking))).output == "left False behind"
    assert not [task for task in asyncio.all_tasks() if "sleep" in repr(task.get_coro()) and "ctx" in repr(task)]


async def unstorable(ctx: FunctionContext, input: str) -> object:
    return {"object": object(), "nan": float("nan"), "surrogate": "\udc80"}[input]


@pytest.mark.parametrize("kind", ["object", "nan", "surrogate"])
async def test_a_function_that_returns_what_cannot_be_stored_ends_as_invalid(app: Retinue, kind: str) -> None:
    outcome = await ended(app, await app.submit(unstorable, kind))
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert outcome.error
    assert outcome.error.kind == "NotStorable"


class Ungrouped(BaseException):
    pass


async def raising(ctx: FunctionContext, input: str) -> None:
    match input:
        case "error":
            raise ValueError("no")
        case "surrogate":
            raise ValueError("\udc80")
        case "exit":
            raise SystemExit(3)
        case "group":
            raise ExceptionGroup("several", [ValueError("no"), KeyError("a")])
        case "cancelled":
            raise asyncio.CancelledError
        case "base":
            raise Ungrouped
        case "target":
            await ctx.child("function:nowhere:nothing")


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("error", "ValueError"),
        ("surrogate", "ValueError"),
        ("exit", "SystemExit"),
        ("group", "ValueError"),
        ("cancelled", "CancelledError"),
        ("base", "Ungrouped"),
        ("target", "UnknownTarget"),
    ],
)
async def test_a_function_that_raises_has_failed_and_the_worker_runs_the_next(
    app: Retinue, how: str, kind: str
) -> None:
    outcome = await ended(app, await app.submit(raising, how))
    assert (outcome.status, outcome.reason) == ("failed", "tool_error")
    assert outcome.error
    assert outcome.error.kind == kind
    assert (await ended(app, await app.submit(raising, "nothing"))).status == "completed"


async def tidies_quietly(ctx: FunctionContext, input: None) -> None:
    try:
        await ctx.sleep(hours=1)
    finally:
        with suppress(Exception):
            await ctx.step("late", outside.act, "late")


async def test_a_step_in_a_finally_is_invalid_also_when_its_error_is_suppressed(app: Retinue) -> None:
    outcome = await ended(app, await app.submit(tidies_quietly))
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert outcome.error
    assert outcome.error.kind == "ParkedSwallowed"
