"""The time that agents have: for the whole, for a turn, between two words, for the last one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from retinue import Retinue, tool
from retinue.core import events as e
from retinue.testing import Reply, SetClock, call, drain
from tests.agents.acting import acting, finish, told
from tests.agents.pace import NEVER, Paced, pass_slowly, said_to, until
from tests.outside import data_of, ended, outside, pass_time, types_of

LONG = {"turn_timeout": 1e6, "idle_timeout": 1e6}


@tool(effect="read")
async def wait(what: str = "door") -> str:
    """Waits at the door."""
    return str(await outside.wait_at_door(what))


@tool
async def stubborn() -> str:
    """Waits at the door, whoever tells it to stop."""
    outside.done.append("stubborn")
    while not outside.door.is_set():
        try:
            await outside.door.wait()
        except asyncio.CancelledError:
            outside.at_door.set()
    return "late"


async def test_L25_a_model_that_never_answers_times_out_after_its_grace_turn(clock: SetClock) -> None:
    model = Paced(clock, NEVER)
    async with acting(clock, model, limits={"max_minutes": 0.5, "grace_seconds": 20, **LONG}) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: model.asked == 1)
        clock.advance(30)
        await until(lambda: model.asked == 2)
        clock.advance(20)
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason, outcome.recovered) == ("timed_out", "timeout", False)
        assert "The time for this task is over. (max_minutes)" in said_to(model.requests[1])[-1]


async def test_L25_the_answer_of_a_grace_turn_is_kept(clock: SetClock) -> None:
    model = Paced(clock, NEVER, finish("what I have"))
    async with acting(clock, model, limits={"max_minutes": 0.5, **LONG}) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: model.asked == 1)
        clock.advance(30)
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason, outcome.recovered) == ("completed", "timeout", True)
        assert outcome.output == "what I have"
        assert [tool.name for tool in model.requests[1].tools] == ["complete_task"]


async def test_L26_a_deadline_inside_a_tool_is_a_timeout_with_a_last_word(clock: SetClock) -> None:
    model = Paced(clock, call("wait"), finish("so far"))
    async with acting(clock, model, tools=[wait], limits={"max_minutes": 0.5}) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        clock.advance(30)
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason, outcome.output) == ("completed", "timeout", "so far")
        assert "It was stopped: the time of the run is over." in said_to(model.requests[1])[-1]
        (finished, _) = await data_of(run, e.ToolFinished)
        assert (finished.error.kind, finished.unknown) == ("timeout", False)


async def test_L26_what_was_not_called_in_time_is_not_called(clock: SetClock) -> None:
    twice = [call("wait", what="one"), call("write")]

    @tool
    async def write() -> str:
        """Takes effect."""
        return str(await outside.act("written"))

    model = Paced(clock, twice, finish())
    async with acting(clock, model, tools=[wait, write], limits={"max_minutes": 0.5}) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        clock.advance(30)
        assert (await ended(app, run)).recovered
        assert outside.done == ["one"]
        assert told(model.requests[1])[1] == "It was not called: the time of the run was over."


@pytest.fixture
async def overdue(clock: SetClock) -> AsyncIterator[tuple[Retinue, Any, Paced]]:
    """A run whose time was over while a tool ignored that it was told to stop."""
    model = Paced(clock, call("stubborn"), finish("so far"))
    policy = [{"tool": "*", "action": "allow"}]
    async with acting(clock, model, tools=[stubborn], policy=policy, limits={"max_minutes": 0.5}) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: outside.done == ["stubborn"])
        clock.advance(30)
        await outside.at_door.wait()
        yield app, run, model
        outside.door.set()


async def test_L27_a_tool_that_ignores_the_deadline_gives_its_result(clock: SetClock, overdue: Any) -> None:
    app, run, model = overdue
    clock.advance(94.9)  # 120 s is its own time, and 5 s are borne with
    outside.door.set()
    outcome = await ended(app, run)
    assert (outcome.reason, outcome.output) == ("timeout", "so far")
    assert told(model.requests[1]) == ["late"]


async def test_L27_a_tool_that_still_runs_then_is_given_up_as_unknown(clock: SetClock, overdue: Any) -> None:
    app, run, model = overdue
    clock.advance(95)
    outcome = await ended(app, run)
    assert (outcome.reason, outcome.output) == ("timeout", "so far")
    (finished, _) = await data_of(run, e.ToolFinished)
    assert (finished.ok, finished.unknown, finished.error.kind) == (False, True, "abandoned")
    assert "nobody can tell whether it took effect" in str(told(model.requests[1]))


async def test_L28_a_run_is_cancelled_in_the_middle_of_an_answer(clock: SetClock) -> None:
    model = Paced(clock, Reply(pieces=["I think ", "that"], before=outside.wait_at_door))
    async with acting(clock, model) as app:
        run = await app.submit("agent:guide", "go " * 100)
        await outside.at_door.wait()
        outside.door.set()
        outside.door.clear()
        await run.cancel("enough")
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason, outcome.recovered) == ("cancelled", "cancelled", False)
        assert (await types_of(run))[-2:] == ["turn.interrupted", "run.finished"]
        assert outcome.usage.estimated
        assert outcome.usage.input_tokens >= 100
        assert model.asked == 1


async def test_L28_what_was_said_until_then_is_kept(clock: SetClock) -> None:
    async def at_second(n: int) -> None:
        await outside.wait_at_door(n) if n else None

    model = Paced(clock, Reply(pieces=["I think ", "that"], before=at_second))
    async with acting(clock, model) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        await run.cancel()
        assert (await ended(app, run)).partial == "I think "
        (interrupted,) = await data_of(run, e.TurnInterrupted)
        assert (interrupted.text, interrupted.usage.output_tokens, interrupted.usage.estimated) == ("I think ", 2, True)


async def test_silence_ends_a_try_and_another_one_is_made(clock: SetClock) -> None:
    model = Paced(clock, NEVER, finish())
    async with acting(clock, model, retry=None, limits={"idle_timeout": 5}) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: model.asked == 1)
        await pass_slowly(clock, 4.999)
        assert model.asked == 1
        await pass_slowly(clock, 0.001)
        clock.advance(1)  # the delay before the next try
        assert (await ended(app, run)).output == "done"
        (retried,) = await data_of(run, e.ModelRetried)
        assert "it said nothing for 5 s" in retried.error.message
        assert retried.usage.calls == 0


async def test_a_slow_answer_is_not_silence(clock: SetClock) -> None:
    slow = Reply(pieces=["a", "b", "c", "d"], delay=4, calls=[finish()])
    model = Paced(clock, slow)
    async with acting(clock, model, retry=None, limits={"idle_timeout": 5}) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: model.asked == 1)
        for _ in range(4):
            await pass_slowly(clock, 4)
        assert (await ended(app, run)).output == "done"
        assert "model.retried" not in await types_of(run)


async def test_silence_in_the_middle_of_an_answer_costs_what_was_said(clock: SetClock) -> None:
    async def at_second(n: int) -> None:
        await outside.wait_at_door(n) if n else None

    model = Paced(clock, Reply(pieces=["12345678", "9"], before=at_second), finish())
    async with acting(clock, model, retry=None, limits={"idle_timeout": 5}) as app:
        run = await app.submit("agent:guide", "one two three")
        await outside.at_door.wait()
        await pass_slowly(clock, 4.999)
        await pass_slowly(clock, 0.001)
        clock.advance(1)
        outcome = await ended(app, run)
        (retried,) = await data_of(run, e.ModelRetried)
        assert "it broke off: nothing came any more for 5 s" in retried.error.message
        assert (retried.usage.input_tokens, retried.usage.output_tokens, retried.usage.estimated) == (3, 2, True)
        assert (outcome.usage.calls, outcome.usage.estimated) == (2, True)


async def test_a_turn_has_its_time_however_much_the_model_says(clock: SetClock) -> None:
    talk = Reply(pieces=["la"] * 100, delay=1)
    model = Paced(clock, talk, finish("short"))
    async with acting(clock, model, limits={"turn_timeout": 10}) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: model.asked == 1)
        for _ in range(10):
            await pass_slowly(clock, 1)
        outcome = await ended(app, run)
        assert (outcome.reason, outcome.recovered, outcome.output) == ("timeout", True, "short")
        (limit,) = await data_of(run, e.LimitReached)
        assert limit.limit == "turn_timeout"


async def test_a_last_word_has_its_own_time_and_not_that_of_the_run(clock: SetClock) -> None:
    model = Paced(clock, NEVER, Reply(first=50, calls=[finish("late")]))
    async with acting(clock, model, limits={"max_minutes": 0.1, "grace_seconds": 60, **LONG}) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: model.asked == 1)
        clock.advance(6)
        await until(lambda: model.asked == 2)
        clock.advance(50)
        assert (await ended(app, run)).output == "late"


async def test_the_clock_stands_while_a_person_decides(clock: SetClock) -> None:
    @tool
    async def write() -> str:
        """Takes effect."""
        return str(await outside.act())

    model = Paced(clock, call("write"), finish())
    policy = [{"tool": "write", "action": "ask"}]
    async with acting(clock, model, tools=[write], policy=policy, limits={"max_minutes": 0.5}) as app:
        run = await app.submit("agent:guide", "go")
        await drain(app)
        await pass_time(app, clock, 3600)
        await app.approve((await run.tickets())[0].id)
        assert (await ended(app, run)).reason == "goal"


async def test_the_model_is_told_when_its_time_is_nearly_over(clock: SetClock) -> None:
    model = Paced(clock, call("wait"), finish())
    async with acting(clock, model, tools=[wait], limits={"max_minutes": 10}) as app:
        run = await app.submit("agent:guide", "go", max_minutes=1)
        await outside.at_door.wait()
        clock.advance(50)
        outside.door.set()
        assert (await ended(app, run)).reason == "goal"
        assert said_to(model.requests[1])[-1] == "Only 10 seconds left. Come to an end in time."
