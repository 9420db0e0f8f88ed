"""Steps: done once, remembered, decided after a crash."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from retinue import Done, FunctionContext, OutcomeUnknown, Retinue, StepFailed, current_call
from retinue.core import events as e
from retinue.ports import threads
from retinue.testing import SetClock, drain
from tests.outside import data_of, doomed, ended, outside, pass_time


async def twice(ctx: FunctionContext, input: Any) -> list[Any]:
    """What a step gave before and after a replay."""
    got = await ctx.step("pair", outside.act, (1, 2))
    outside.done.append(("got", got))
    await ctx.sleep(hours=1)
    return [got, await ctx.step("pair", outside.act, (3,))]


async def test_a_step_is_done_once_and_gives_the_same_at_every_replay(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(twice)
    await drain(app)
    await pass_time(app, clock, 3600)
    assert outside.done == [(1, 2), ("got", [1, 2]), ("got", [1, 2]), (3,)]
    assert (await run.outcome()).output == [[1, 2], [3]]


async def broken(ctx: FunctionContext, input: Any) -> list[str]:
    said = []
    for _ in range(2):
        try:
            await ctx.step("broken", break_off, effect="read", key="same")
        except StepFailed as error:
            said.append(f"{error.kind}: {error.message}")
    await ctx.sleep(hours=1)
    return said


async def break_off() -> None:
    outside.done.append("broke off")
    raise ConnectionError("no line")


async def test_an_error_is_recorded_and_raised_again_at_replay(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(broken)
    await drain(app)
    await pass_time(app, clock, 3600)
    assert (await run.outcome()).output == ["ConnectionError: no line"] * 2
    assert outside.done == ["broke off"]


async def fail(ctx: FunctionContext, input: Any) -> None:
    await ctx.step("broken", break_off)


async def test_an_error_that_nobody_catches_fails_the_run(app: Retinue) -> None:
    outcome = await ended(app, await app.submit(fail))
    assert (outcome.status, outcome.reason) == ("failed", "tool_error")
    assert outcome.error
    assert "ConnectionError: no line" in outcome.error.message


async def raise_oddly(kind: str) -> None:
    if kind == "exit":
        sys.exit("enough")
    if kind == "surrogate":
        raise ValueError("\udc80")
    if kind == "base":
        raise Ungrouped("nothing that except Exception would catch")
    if kind == "cancelled":
        (waits := asyncio.ensure_future(asyncio.Event().wait())).cancel()
        await waits
    raise Unspeakable


class Ungrouped(BaseException):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def oddly(ctx: FunctionContext, input: str) -> str:
    try:
        await ctx.step("odd", raise_oddly, input)
    except StepFailed as error:
        return str(error.kind)
    return "nothing"


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("exit", "SystemExit"),
        ("surrogate", "ValueError"),
        ("unspeakable", "Unspeakable"),
        ("base", "Ungrouped"),
        ("cancelled", "CancelledError"),
    ],
)
async def test_a_step_that_raises_something_odd_has_failed_like_any_other(app: Retinue, how: str, kind: str) -> None:
    assert (await ended(app, await app.submit(oddly, how))).output == kind


def blocking(word: str, *, loud: bool) -> list[object]:
    return [word.upper() if loud else word, threading.current_thread() is threading.main_thread()]


async def in_thread(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.step("blocking", blocking, "tea", loud=True)


async def test_a_step_that_is_not_async_runs_in_a_thread(app: Retinue) -> None:
    assert (await ended(app, await app.submit(in_thread))).output == ["TEA", False]


async def slow(ctx: FunctionContext, input: Any) -> str:
    for name in ("stubborn", "slow"):
        try:
            await ctx.step(name, stubborn if name == "stubborn" else outside.wait_at_door, timeout=5)
        except StepFailed as error:
            return f"{error.kind}: {error.message}"
    return "in time"


async def stubborn() -> None:
    """Answers although its time is over."""
    outside.at_door.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        outside.at_door.clear()


async def test_a_step_that_never_returns_fails_when_its_time_is_over(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(slow)
    for _ in range(2):
        await outside.at_door.wait()
        clock.advance(5)
        await asyncio.sleep(0.01)
    assert (await ended(app, run)).output == "TimeoutError: gave no result within 5 s"


never = threading.Event()


async def hangs(ctx: FunctionContext, input: int) -> str:
    try:
        return str(await ctx.step("hang", hang, timeout=5))
    except StepFailed as error:
        return error.kind


def hang() -> None:
    outside.done.append("hangs")
    never.wait(60)


@pytest.fixture
def door_at_last() -> Iterator[None]:
    """Lets threads that would hang for ever end with the test."""
    never.clear()
    yield
    never.set()


@pytest.mark.usefixtures("door_at_last")
async def test_steps_in_threads_that_never_return_hold_up_neither_others_nor_the_end(
    app: Retinue, clock: SetClock
) -> None:
    """More of them than there are threads in asyncio's own pool."""
    runs = [await app.submit(hangs, n) for n in range(threads.MOST)]
    while len(outside.done) < len(runs):
        await asyncio.sleep(0)
    clock.advance(5)
    assert [(await run.outcome()).output for run in runs] == ["TimeoutError"] * len(runs)
    assert (await ended(app, await app.submit(in_thread))).output == ["TEA", False]


async def keys(ctx: FunctionContext, input: Any) -> list[str]:
    return [await ctx.step("key", key_of_call, effect="read") for _ in range(2)]


async def key_of_call() -> str:
    outside.done.append(current_call().idempotency_key)
    await outside.wait_at_door(current_call().try_)
    return current_call().idempotency_key


async def test_a_call_has_a_key_of_its_own_that_is_the_same_at_every_try(file_url: str, clock: SetClock) -> None:
    async with doomed(file_url, clock) as app:
        run = await app.submit(keys)
        await outside.at_door.wait()
    outside.door.set()
    async with Retinue.open(file_url, clock=clock) as app:
        output = (await ended(app, app.get(run.id))).output
    first, _, again, _, second, _ = outside.done
    assert outside.done[1::2] == [1, 2, 1]
    assert first == again != second
    assert output == [first, second]


async def test_current_call_is_there_only_inside_a_step() -> None:
    with pytest.raises(LookupError):
        current_call()


async def parallel(ctx: FunctionContext, input: Any) -> list[Any]:
    return await asyncio.gather(*(ctx.step("one", outside.act, n, key=str(n)) for n in range(3)))


async def test_parallel_steps_of_one_name_are_told_apart_by_their_keys(app: Retinue) -> None:
    assert (await ended(app, await app.submit(parallel))).output == [0, 1, 2]


async def mixed(ctx: FunctionContext, input: Any) -> list[Any]:
    first = [await ctx.step("one", outside.act, "a"), await ctx.step("one", outside.act, "a")]
    return [*first, await ctx.step("one", outside.act, "a", key="2")]


async def test_a_key_is_never_taken_for_an_occurrence(app: Retinue) -> None:
    await ended(app, await app.submit(mixed))
    assert outside.done == ["a", "a", "a"]


async def keyless(ctx: FunctionContext, input: Any) -> list[Any]:
    return await asyncio.gather(*(ctx.step("one", outside.act, n) for n in range(3)))


async def same_key(ctx: FunctionContext, input: Any) -> list[Any]:
    return await asyncio.gather(*(ctx.step("one", outside.act, key="a") for n in range(3)))


@pytest.mark.parametrize("function", [keyless, same_key])
async def test_parallel_steps_that_cannot_be_told_apart_are_refused(app: Retinue, function: Any) -> None:
    outcome = await ended(app, await app.submit(function))
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert outcome.error
    assert "key=" in outcome.error.message


async def group(ctx: FunctionContext, input: Any) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ctx.step("broken", break_off))
        tasks.create_task(ctx.sleep(hours=1))


async def test_a_step_that_fails_in_a_task_group_fails_the_run(app: Retinue) -> None:
    outcome = await ended(app, await app.submit(group))
    assert (outcome.status, outcome.reason) == ("failed", "tool_error")
    assert outcome.error
    assert "no line" in outcome.error.message


async def bad_step(ctx: FunctionContext, input: str) -> None:
    match input:
        case "name":
            await ctx.step("a#2", outside.act)
        case "empty":
            await ctx.step("", outside.act)
        case "effect":
            await ctx.step("a", outside.act, effect="sometimes")
        case "arguments":
            await ctx.step("a", outside.act, object())
        case "sleep":
            await ctx.sleep(seconds=-1)
        case "schema":
            await ctx.wait("a", {"type": "nonsense"})


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("name", "must not be empty or contain '#'"),
        ("empty", "must not be empty"),
        ("effect", "read, idempotent or write"),
        ("arguments", "cannot be stored as JSON"),
        ("sleep", "cannot wait for -1"),
        ("schema", "schema"),
    ],
)
async def test_a_step_that_is_called_wrongly_ends_the_run_and_says_why(app: Retinue, what: str, says: str) -> None:
    outcome = await ended(app, await app.submit(bad_step, what))
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert outcome.error
    assert says in outcome.error.message
    assert not outside.done


async def odd_result(kind: str) -> object:
    return {"object": object(), "nan": float("nan"), "surrogate": "\udc80"}[kind]


async def odd(ctx: FunctionContext, input: str) -> str:
    try:
        await ctx.step("odd", odd_result, input)
    except StepFailed as error:
        return str(error.kind)
    return "stored"


@pytest.mark.parametrize("kind", ["object", "nan", "surrogate"])
async def test_a_result_that_cannot_be_stored_is_a_failed_step(app: Retinue, kind: str) -> None:
    assert (await ended(app, await app.submit(odd, kind))).output == "NotStorable"


# After a crash


async def interrupted(ctx: FunctionContext, input: dict[str, Any]) -> Any:
    check = CHECKS.get(input.get("check", ""))
    for _ in range(2):
        try:
            return await ctx.step("act", outside.wait_at_door, effect=input["effect"], check=check, key="one")
        except OutcomeUnknown as error:
            outside.done.append(error.key)
    return "unknown"


async def says_done(key: str) -> Done:
    return Done("done before")


async def says_no(key: str) -> None:
    return None


async def raises(key: str) -> None:
    raise ConnectionError("cannot ask")


CHECKS: dict[str, Any] = {"done": says_done, "no": says_no, "raises": raises}


async def crash_in_step(url: str, clock: SetClock, **input: str) -> str:
    """Die while the step is under way."""
    async with doomed(url, clock) as app:
        run = await app.submit(interrupted, input)
        await outside.at_door.wait()
    outside.door.set()
    return run.id


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_step_that_may_be_repeated_is_repeated_after_a_crash(
    file_url: str, clock: SetClock, effect: str
) -> None:
    run_id = await crash_in_step(file_url, clock, effect=effect)
    async with Retinue.open(file_url, clock=clock) as app:
        assert (await ended(app, app.get(run_id))).output == "door"
        tries = [(data.try_, data.key) for data in await data_of(app.get(run_id), e.ToolStarted)]
    assert outside.done == ["door", "door"]
    assert [number for number, _ in tries] == [1, 2]
    assert tries[0][1] == tries[1][1]


async def test_a_write_that_a_crash_interrupted_is_unknown_and_not_repeated(file_url: str, clock: SetClock) -> None:
    run_id = await crash_in_step(file_url, clock, effect="write")
    async with Retinue.open(file_url, clock=clock) as app:
        run = app.get(run_id)
        assert (await ended(app, run)).output == "unknown"
        (started,) = await data_of(run, e.ToolStarted)
    assert outside.done == ["door", started.key, started.key]


@pytest.mark.parametrize(
    ("check", "output", "times"), [("done", "done before", 1), ("no", "door", 2), ("raises", "unknown", 1)]
)
async def test_the_check_of_a_write_decides_after_a_crash(
    file_url: str, clock: SetClock, check: str, output: str, times: int
) -> None:
    run_id = await crash_in_step(file_url, clock, effect="write", check=check)
    async with Retinue.open(file_url, clock=clock) as app:
        assert (await ended(app, app.get(run_id))).output == output
    assert outside.done.count("door") == times
