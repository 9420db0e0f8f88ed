"""Why an agent's run is where it is, in words."""

from __future__ import annotations

import asyncio

from retinue import Retinue, Run, tool
from retinue.cli.words import why
from retinue.core import events as e
from retinue.errors import CircuitOpen, ModelUnavailable
from retinue.testing import Reply, ScriptedModel, SetClock, call
from tests.agents.acting import Actor, acting, finish, guide
from tests.outside import data_of, ended, outside


@tool(effect="read")
async def look(at: str) -> str:
    """Look at something."""
    return str(await outside.wait_at_door(at))


async def said(app: Retinue, run: Run) -> str:
    return "\n".join(why(await app.service.explain(run.id)))


async def asked_again(run: Run) -> None:
    while not await data_of(run, e.ModelRetried):
        await asyncio.sleep(0)


async def test_a_call_that_is_under_way_goes_by_its_tool(clock: SetClock) -> None:
    async with acting(clock, Actor(call("look", at="the sea"), finish()), tools=[look]) as app:
        run = await app.submit("agent:guide", "Go")
        await outside.at_door.wait()
        words = await said(app, run)
        outside.door.set()
        await ended(app, run)
    assert "It is in the call look(at: the sea) (read) for" in words
    assert "It is in turn 1, " in words
    assert "10 min 00 s of its time left." in words


async def test_a_model_that_is_asked_again_later_is_told_with_the_reason(clock: SetClock) -> None:
    down = Reply(error=ModelUnavailable(model="m", problem="it is down", retry_after=20))
    async with acting(clock, Actor(down, finish()), retry={"tries": 2}) as app:
        run = await app.submit("agent:guide", "Go")
        await asked_again(run)
        words = await said(app, run)
        clock.advance(21)
        await ended(app, run)
    assert "The model test is asked again in 20 s (turn 1, try 2); the last try failed:" in words
    assert "it is down" in words


async def test_a_breaker_that_is_open_is_told_with_who_is_asked_instead(clock: SetClock) -> None:
    broken = Reply(error=CircuitOpen(model="m", problem="it is down", retry_after=20))
    slow = ScriptedModel(lambda _: Reply(pieces=["x"], first=60), "other", clock=clock)
    async with Retinue.open(
        "sqlite://",
        clock=clock,
        grace=0,
        agents=[guide(fallback_models=["other"])],
        models={"m": Actor(broken), "other": slow},
    ) as app:
        run = await app.submit("agent:guide", "Go")
        await asked_again(run)
        words = await said(app, run)
    assert "The model other is asked again (turn 1, try 2); its breaker is open:" in words


async def test_how_it_ended_is_told_in_words(clock: SetClock) -> None:
    async with acting(clock, Actor("I think.", "I think.", "I think.")) as app:
        run = await app.submit("agent:guide", "Go")
        await ended(app, run)
        assert "as failed (it never said that it was done)" in await said(app, run)
