"""Tools that do what no tool should: each call has one result, and the process lives."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from retinue import tool
from retinue.core import events as e
from retinue.errors import ToolFailed
from retinue.ports.tools import Blob, Content, ToolContext
from retinue.testing import SetClock, call
from tests.agents.acting import Actor, acting, finish, results_in, told
from tests.outside import data_of, ended, outside


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def _raise(error: BaseException) -> Any:
    raise error


async def _give(value: object) -> Any:
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "cannot be stored as JSON"),
        ({1, object()}, "cannot be stored as JSON"),
        (float("nan"), "cannot be stored as JSON"),
        ("\udc80", "cannot be stored as JSON"),
        (Content(("\udc80",)), "cannot be stored as JSON"),
        (Content((Blob(data=b"x", media_type="text/plain", name="\udc80"),)), "cannot be stored as JSON"),
        (Content((3,)), "a part of Content is text or Blob"),  # type: ignore[arg-type]
        (Odd(), "its message cannot be shown"),
        (ValueError("\udc80"), r"ValueError: \udc80"),
        (SystemExit(3), "it ended itself with SystemExit(3)"),
        (asyncio.CancelledError(), "it ended itself with CancelledError()"),
        (ExceptionGroup("two", [KeyError("a")]), "KeyError: 'a'"),
    ],
)
async def test_whatever_a_tool_does_is_one_result_and_the_process_lives(
    clock: SetClock, value: object, says: str
) -> None:
    @tool(effect="read")
    async def odd() -> Any:
        return await (_raise(value) if isinstance(value, BaseException) else _give(value))

    actor = Actor(call("odd"), finish())
    async with acting(clock, actor, tools=[odd]) as app:
        assert (await ended(app, await app.submit("agent:guide", "Go"))).reason == "goal"
    (result,) = results_in(actor.requests[1])
    assert not result.ok
    assert says in str(result.result)


async def test_a_value_that_nests_without_end_is_an_error(clock: SetClock) -> None:
    nested: list[object] = []
    nested.append(nested)

    @tool(effect="read")
    async def turn() -> Any:
        return nested

    actor = Actor(call("turn"), finish())
    async with acting(clock, actor, tools=[turn]) as app:
        assert (await ended(app, await app.submit("agent:guide", "Go"))).reason == "goal"
    assert not results_in(actor.requests[1])[0].ok


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_a_function_in_a_thread_that_exits_only_fails(clock: SetClock, error: BaseException) -> None:
    @tool
    def leave() -> None:
        raise error

    actor = Actor(call("leave"), finish())
    async with acting(clock, actor, tools=[leave]) as app:
        assert (await ended(app, await app.submit("agent:guide", "Go"))).reason == "goal"
    assert "it ended itself with" in str(told(actor.requests[1])[0])


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_function_that_blocks_for_ever_is_given_up_after_its_timeout(clock: SetClock, effect: Any) -> None:
    door, inside = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool(timeout=10, effect=effect)
    def block() -> None:
        loop.call_soon_threadsafe(inside.set)
        door.wait(60)

    actor = Actor(call("block"), finish())
    async with acting(clock, actor, tools=[block]) as app:
        run = await app.submit("agent:guide", "Go")
        await inside.wait()
        clock.advance(10)
        clock.advance(5)
        assert (await ended(app, run)).reason == "goal"
        finished = (await data_of(run, e.ToolFinished))[0]
        door.set()
    assert (finished.ok, finished.unknown, finished.error.kind) == (False, effect == "write", "abandoned")
    assert str(told(actor.requests[1])[0]).startswith("It did not stop: it gave no result within 10 s.")


async def test_an_async_tool_that_never_ends_is_stopped_after_its_timeout(clock: SetClock) -> None:
    @tool(timeout=10, effect="read")
    async def wait() -> None:
        await outside.wait_at_door()

    actor = Actor(call("wait"), finish())
    async with acting(clock, actor, tools=[wait]) as app:
        run = await app.submit("agent:guide", "Go")
        await outside.at_door.wait()
        clock.advance(10)
        assert (await ended(app, run)).reason == "goal"
    assert told(actor.requests[1]) == ["It was stopped: it gave no result within 10 s."]


async def test_what_a_call_leaves_behind_changes_nothing_in_the_run_any_more(clock: SetClock) -> None:
    left: list[ToolContext] = []

    @tool(effect="read")
    async def leave(context: ToolContext) -> str:
        left.append(context)
        return await context.artifact(b"kept", "text/plain", "kept.txt")

    async with acting(clock, Actor(call("leave"), "Hm.", finish()), tools=[leave]) as app:
        run = await app.submit("agent:guide", "Go")
        await ended(app, run)
        for act in (left[0].artifact(b"late", "text/plain"), left[0].ask("why")):
            with pytest.raises(ToolFailed, match="its call is over"):
                await act
        (artifact,) = await data_of(run, e.ArtifactAdded)
        assert await app.services.files.get(artifact.uri) == b"kept"
    assert (artifact.name, artifact.media_type) == ("kept.txt", "text/plain")
