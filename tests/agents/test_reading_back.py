"""What every model call was given can be read back from the journal."""

from __future__ import annotations

from typing import Any

from retinue import Retinue, Run, tool
from retinue.core import events as e
from retinue.core.run import RunState
from retinue.testing import Reply, SetClock, call
from tests.agents.acting import Actor, acting, finish, guide
from tests.outside import doomed, ended, outside


@tool(effect="read")
async def look_up(city: str) -> str:
    return f"{city} is a city"


async def given_in_turns(app: Retinue, run: Run) -> list[tuple[Any, ...]]:
    """Instructions, tools and settings of each turn, as the journal says."""
    state, given = RunState(run.id), []
    for event in await app.service.events(run.id):
        state.apply(event)
        if isinstance(event.data, e.TurnStarted):
            given.append((state.instructions, state.tools, state.settings))
    return given


async def test_L45_instructions_tools_and_settings_of_every_call_can_be_read_back(clock: SetClock) -> None:
    actor = Actor(call("look_up", city="Porto"), call("look_up", city="Faro"), finish())
    keys: dict[str, Any] = {"settings": {"temperature": 0.5}, "limits": {"max_turns": 2}}
    async with acting(clock, actor, tools=[look_up], **keys) as app:
        run = await app.submit("agent:guide", "Go")
        await ended(app, run)
        given = await given_in_turns(app, run)
    assert given == [
        (
            request.instructions,
            tuple(spec.name for spec in request.tools),
            {"temperature": request.settings.temperature},
        )
        for request in actor.requests
    ]
    assert given[0] == (
        "You guide.\n\nToday is Tuesday, 2030-01-01.",
        ("look_up", "complete_task"),
        {"temperature": 0.5},
    )
    assert given[2][1] == ("complete_task",)


async def test_L45_a_turn_that_a_crash_broke_off_is_asked_again_as_the_journal_says(
    clock: SetClock, file_url: str
) -> None:
    async def halt(n: int) -> None:
        await outside.wait_at_door()

    actor = Actor(Reply(pieces=["Hm."], before=halt), finish())
    async with doomed(file_url, clock, agents=[guide(tools=[look_up])], models={"m": actor}) as app:
        run = await app.submit("agent:guide", "Go")
        await outside.at_door.wait()
    clock.advance(86_400)
    async with acting(clock, actor, file_url, tools=[look_up]) as app:
        await ended(app, app.get(run.id))
        ((instructions, *_),) = await given_in_turns(app, app.get(run.id))
    assert [request.instructions for request in actor.requests] == [instructions, instructions]
