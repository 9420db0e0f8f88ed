"""Models that answer as no model should: the run ends with an honest outcome, and the process lives."""

from __future__ import annotations

import pytest

from retinue import tool
from retinue.core import events as e
from retinue.core.messages import AnyPart, Text, Thinking, ToolCall
from retinue.core.notes import nudge
from retinue.core.outcome import Usage
from retinue.ports.models import ModelRequest, ModelResponse
from retinue.testing import Reply, ScriptedModel, SetClock
from tests.agents.acting import Actor, acting, finish, guide, last_said, results_in, told
from tests.outside import data_of, ended, outside


@tool(effect="read")
async def look_up(city: str) -> str:
    return str(await outside.act(f"{city} is a city"))


def asks(call_id: str = "", tool: str = "look_up", arguments: object = None) -> ToolCall:
    """A call as a model may make it."""
    return ToolCall(call_id=call_id, tool=tool, arguments={"city": "Porto"} if arguments is None else arguments)


def saying(*parts: AnyPart) -> Reply:
    return Reply(parts=parts)


class Empty(ScriptedModel):
    """Answers, and says nothing at all."""

    asked_with: list[ModelRequest]

    async def ask(self, request: ModelRequest):  # type: ignore[no-untyped-def]
        self.asked += 1
        yield ModelResponse(parts=(), usage=Usage(calls=1))


@pytest.mark.parametrize("part", [Text(text=""), Text(text=" \n"), Thinking(text="Let me see.")])
async def test_an_answer_without_content_is_nudged_and_not_shown_again(clock: SetClock, part: AnyPart) -> None:
    actor = Actor(saying(part), finish())
    async with acting(clock, actor) as app:
        assert (await ended(app, await app.submit("agent:guide", "Go"))).reason == "goal"
    assert [message.role for message in actor.requests[1].messages] == ["user", "user"]
    assert last_said(actor.requests[1].messages) == nudge(guide().definition)


async def test_a_model_that_never_says_anything_is_no_completion(clock: SetClock) -> None:
    async with acting(clock, Empty()) as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    assert (outcome.status, outcome.reason, outcome.partial) == ("failed", "no_completion", None)
    assert outcome.usage.calls == 3


async def test_a_name_of_ten_thousand_characters_is_refused_and_shortened(clock: SetClock) -> None:
    actor = Actor(saying(asks(tool="x" * 10_000)), finish())
    async with acting(clock, actor, tools=[look_up]) as app:
        run = await app.submit("agent:guide", "Go")
        assert (await ended(app, run)).reason == "goal"
        (refused,) = await data_of(run, e.ToolRefused)
    assert len(refused.tool) == 200
    assert str(told(actor.requests[1])[0]).startswith(f"There is no tool '{'x' * 80}…' for you now.")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('{"city": ', "The arguments are no JSON object."),
        (["Porto"], "The arguments are no JSON object."),
        (3, "The arguments are no JSON object."),
        ({}, '"city" is a required property'),
        ({"city": 3}, "city: 3 is not of type"),
        ({"city": "Porto", "mayor": "Ada"}, "mayor"),
        ({"city": None}, "city: null is not of type"),
    ],
)
async def test_arguments_that_do_not_fit_are_an_error_and_nothing_is_called(
    clock: SetClock, arguments: object, says: str
) -> None:
    actor = Actor(saying(asks("call_1", arguments=arguments)), finish())
    async with acting(clock, actor, tools=[look_up]) as app:
        assert (await ended(app, await app.submit("agent:guide", "Go"))).reason == "goal"
    (result,) = results_in(actor.requests[1])
    assert (result.ok, result.call_id, outside.done) == (False, "call_1", [])
    assert says in str(result.result)


async def test_calls_without_an_id_or_with_that_of_another_get_their_own(clock: SetClock) -> None:
    ids = ["", " ", "one", "one", "x" * 1_000, "who?"]
    calls = [asks(call_id, arguments={"city": str(n)}) for n, call_id in enumerate(ids)]
    actor = Actor(saying(*calls), saying(asks("one")), finish())
    async with acting(clock, actor, tools=[look_up]) as app:
        run = await app.submit("agent:guide", "Go")
        assert (await ended(app, run)).reason == "goal"
    assert [result.call_id for result in results_in(actor.requests[1])] == [
        *(f"{run.id}#1-{n}" for n in (0, 1)),
        "one",
        *(f"{run.id}#1-{n}" for n in (3, 4, 5)),
    ]
    assert [result.call_id for result in results_in(actor.requests[2])] == [f"{run.id}#2-0"]
    assert told(actor.requests[1]) == [f"{n} is a city" for n in range(6)]


async def test_arguments_nested_without_measure_are_an_error(clock: SetClock) -> None:
    nested: object = "x"
    for _ in range(400):
        nested = [nested]
    actor = Actor(saying(asks("call_1", arguments={"city": nested})), finish())
    async with acting(clock, actor, tools=[look_up]) as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    assert (outcome.reason, outside.done) == ("goal", [])


@pytest.mark.parametrize("part", [Text(text="\udc80"), asks(tool="\udc80"), asks(arguments={"city": "\udc80"})])
async def test_an_answer_that_cannot_be_stored_is_the_models_failure(clock: SetClock, part: AnyPart) -> None:
    async with acting(clock, Actor(saying(part)), tools=[look_up]) as app:
        run = await app.submit("agent:guide", "Go")
        outcome = await ended(app, run)
        assert (await ended(app, await app.submit("agent:guide", "Go"))).status == "failed"
    assert (outcome.status, outcome.reason) == ("failed", "provider_error")
    assert outcome.error
    assert "cannot be stored" in outcome.error.message


async def test_many_calls_in_one_turn_each_have_their_result(clock: SetClock) -> None:
    actor = Actor(saying(*(asks(f"call_{n}", arguments={"city": str(n)}) for n in range(500))), finish())
    async with acting(clock, actor, tools=[look_up]) as app:
        assert (await ended(app, await app.submit("agent:guide", "Go"))).reason == "goal"
    assert told(actor.requests[1]) == [f"{n} is a city" for n in range(500)]
