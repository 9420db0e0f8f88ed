"""Tools of the client that asked: the run waits for what it says that they gave."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import Retinue, Run, tool
from retinue.core import events as e
from retinue.engine.submit import Request
from retinue.errors import BadInput, TicketEnded
from retinue.testing import SetClock, call, drain
from tests.agents.acting import Actor, acting, finish, results_in, told
from tests.outside import data_of, ended, outside

SHOW: dict[str, object] = {
    "name": "show.map",
    "description": "Show a map.\nTo the person.",
    "schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@tool(effect="read")
async def look_up(city: str) -> str:
    return str(await outside.act(f"{city} is a city"))


async def submitted(app: Retinue, *tools: dict[str, object]) -> Run:
    request = Request(target="agent:guide", input="Go", client_tools=tools)
    return app.get(await app.service.submit(request))


async def test_L48_the_run_waits_for_the_client_and_goes_on_with_its_result(clock: SetClock) -> None:
    actor = Actor(call("show_map", city="Porto"), finish())
    async with acting(clock, actor, tools=[]) as app:
        run = await submitted(app, SHOW)
        await drain(app)
        assert (await run.row()).waits_for == "client_tool"
        (ticket,) = await run.tickets()
        await app.answer(ticket.id, {"seen": True})
        outcome = await ended(app, run)
        with pytest.raises(TicketEnded):
            await app.answer(ticket.id, {"seen": False})
        (opened,) = await data_of(run, e.TicketOpened)
    assert (opened.tool, opened.title, opened.arguments) == ("show.map", "Show a map.", {"city": "Porto"})
    assert (outcome.reason, told(actor.requests[1])) == ("goal", [{"seen": True}])


async def test_L48_a_second_result_is_refused_while_the_run_still_waits_for_another(clock: SetClock) -> None:
    actor = Actor([call("show_map", city="Porto"), call("show_map", city="Faro")], finish())
    async with acting(clock, actor, tools=[]) as app:
        run = await submitted(app, SHOW)
        await drain(app)
        first, second = await run.tickets()
        await app.answer(first.id, 1)
        with pytest.raises(TicketEnded):
            await app.answer(first.id, 2)
        await drain(app)
        await app.answer(second.id, 3)
        await ended(app, run)
    assert told(actor.requests[1]) == [1, 3]


async def test_a_client_that_does_not_call_its_tool_is_an_error_result(clock: SetClock) -> None:
    actor = Actor(call("show_map", city="Porto"), finish())
    async with acting(clock, actor, tools=[]) as app:
        run = await submitted(app, SHOW)
        await drain(app)
        await app.deny((await run.tickets())[0].id, message="no screen")
        assert (await ended(app, run)).reason == "goal"
    assert told(actor.requests[1]) == ["The client did not call it (denied). no screen"]


async def test_arguments_for_the_client_are_checked_first(clock: SetClock) -> None:
    actor = Actor(call("show_map", city=3), finish())
    async with acting(clock, actor, tools=[]) as app:
        run = await submitted(app, SHOW)
        assert (await ended(app, run)).reason == "goal"
        assert await data_of(run, e.TicketOpened) == []
    assert not results_in(actor.requests[1])[0].ok


async def test_a_rule_that_denies_holds_for_a_tool_of_the_client_too(clock: SetClock) -> None:
    actor = Actor(call("show_map", city="Porto"), finish())
    async with acting(clock, actor, tools=[], policy=[{"tool": "show.*", "action": "deny"}]) as app:
        run = await submitted(app, SHOW)
        assert (await ended(app, run)).reason == "goal"
    assert str(told(actor.requests[1])[0]).startswith("A rule does not allow this call.")


async def test_the_agents_own_tool_comes_before_the_clients_of_that_name(clock: SetClock) -> None:
    actor = Actor(call("look_up", city="Porto"), finish())
    async with acting(clock, actor, tools=[look_up]) as app:
        run = await submitted(app, {**SHOW, "name": "look_up"})
        await ended(app, run)
        (warned,) = await data_of(run, e.Warned)
    assert (outside.done, warned.code) == (["Porto is a city"], "tools")


@pytest.mark.parametrize(
    "declared", [{"name": ""}, {}, {"name": 3}, {"name": "a", "schema": {"type": "strin"}}, {"name": "complete_task"}]
)
async def test_a_tool_that_is_declared_wrongly_is_refused_at_submit(clock: SetClock, declared: Any) -> None:
    async with acting(clock, Actor(finish())) as app:
        with pytest.raises(BadInput, match="client tool"):
            await submitted(app, declared)
        assert await app.service.runs() == []
