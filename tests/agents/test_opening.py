"""What a run begins with: its input, and what the templates make of it."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import Retinue
from retinue.core import events as e
from retinue.core.messages import Text, text_of
from retinue.engine.submit import Request
from retinue.errors import WrongInput
from retinue.testing import SetClock
from tests.agents.acting import Actor, acting, finish, last_said
from tests.outside import data_of, ended

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
    "required": ["city"],
}


@pytest.mark.parametrize(("given", "says"), [({"city": 3}, "city: 3 is not of type"), ({}, '"city" is a required')])
async def test_L6_input_that_breaks_the_schema_is_refused_and_nothing_is_stored(
    clock: SetClock, given: object, says: str
) -> None:
    async with acting(clock, Actor(finish()), input=CITY) as app:
        with pytest.raises(WrongInput, match=says):
            await app.submit("agent:guide", given)
        with pytest.raises(WrongInput, match=says):
            await app.service.submit(Request(target="agent:guide", input=given))
        assert (await app.service.runs(), await app.service.threads.threads()) == ([], [])


async def test_the_input_gets_its_defaults(clock: SetClock) -> None:
    async with acting(clock, Actor(finish()), input=CITY, instructions="{{ city }} for {{ days }}") as app:
        run = await app.submit("agent:guide", {"city": "Porto"})
        await ended(app, run)
        (queued,) = await data_of(run, e.RunQueued)
    assert queued.input == {"city": "Porto", "days": 3}


async def test_L7_all_missing_keys_are_one_error_without_a_model_call(clock: SetClock) -> None:
    actor = Actor(finish())
    async with acting(clock, actor, instructions="{{ city }} by {{ mayor }}", query="{{ city.zip }}") as app:
        outcome = await ended(app, await app.submit("agent:guide", {"days": 3}))
    assert (outcome.status, outcome.reason, actor.requests) == ("failed", "invalid", [])
    assert outcome.error
    assert outcome.error.message == (
        "A template needs what is not there: city, mayor. There is only: agent, days, input, model, now, run_id, today."
    )


async def test_L7_a_shell_variable_is_plain_text(clock: SetClock) -> None:
    actor = Actor(finish())
    async with acting(clock, actor, instructions="Look into ${HOME} for {{ agent }}", context=[]) as app:
        await ended(app, await app.submit("agent:guide", "Go"))
    assert actor.requests[0].instructions == "Look into ${HOME} for guide"


async def test_a_key_of_the_input_wins_over_ours_with_a_warning(clock: SetClock) -> None:
    actor = Actor(finish())
    async with acting(clock, actor, instructions="{{ today }} {{ agent }}", context=[]) as app:
        run = await app.submit("agent:guide", {"today": "never"})
        await ended(app, run)
        warned = [data.message for data in await data_of(run, e.Warned)]
    assert (actor.requests[0].instructions, warned) == (
        "never guide",
        ["the input's today stands for ours in the templates"],
    )


FEW = [{"role": "user", "text": "{{ city }}?"}, {"role": "model", "text": "Yes."}]


async def submitted(app: Retinue, given: Any, *, thread: bool) -> Any:
    if thread:
        return await app.submit("agent:guide", given)
    return app.get(await app.service.submit(Request(target="agent:guide", input=given)))


@pytest.mark.parametrize("thread", [True, False])
async def test_few_shot_turns_come_first_and_the_query_stands_for_the_input(clock: SetClock, thread: bool) -> None:
    actor = Actor("Hm.", finish())
    async with acting(clock, actor, messages=FEW, query="What of {{ city }}?") as app:
        await ended(app, await submitted(app, {"city": "Porto"}, thread=thread))
    for request in actor.requests:
        assert [text_of(message.parts) for message in request.messages][:3] == ["Porto?", "Yes.", "What of Porto?"]


@pytest.mark.parametrize("thread", [True, False])
async def test_without_a_query_the_input_is_said(clock: SetClock, thread: bool) -> None:
    actor = Actor(finish())
    async with acting(clock, actor) as app:
        await ended(app, await submitted(app, "Where to eat?", thread=thread))
    assert [message.parts for message in actor.requests[0].messages] == [(Text(text="Where to eat?"),)]


async def test_who_is_asked_nothing_is_told_to_begin(clock: SetClock) -> None:
    actor = Actor(finish())
    async with acting(clock, actor) as app:
        await ended(app, await app.submit("agent:guide"))
    assert last_said(actor.requests[0].messages) == "Begin."
