"""How a run of an agent ends: with a valid answer, or after a last turn."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field, field_validator

from retinue import tool
from retinue.core import events as e
from retinue.core.messages import ToolCall, text_of
from retinue.testing import Reply, SetClock, call
from tests.agents.acting import Actor, acting, finish, last_said, results_in, told
from tests.outside import data_of, ended, outside, types_of


@tool(effect="read")
async def look_up(city: str) -> str:
    return str(await outside.act(f"{city} is a city"))


async def test_L8_a_tool_call_and_the_answer(clock: SetClock) -> None:
    actor = Actor(call("look_up", city="Porto"), finish("Porto is fine"))
    async with acting(clock, actor, tools=[look_up]) as app:
        run = await app.submit("agent:guide", "Go")
        outcome = await ended(app, run)
        types = await types_of(run)
    assert (outcome.status, outcome.reason, outcome.output) == ("completed", "goal", "Porto is fine")
    assert (len(actor.requests), outcome.usage.calls, outcome.recovered) == (2, 2, False)
    assert " ".join(types) == (
        "run.queued run.started turn.started model.responded tool.started tool.finished "
        "turn.started model.responded tool.started tool.finished run.finished"
    )


@pytest.mark.parametrize(
    "arguments", [{}, {"result": ""}, {"result": " \n"}, {"result": None}, {"result": "a", "text": "b"}, "done", None]
)
async def test_L9_a_blank_or_missing_result_is_an_error_and_a_corrected_call_finishes(
    clock: SetClock, arguments: object
) -> None:
    actor = Actor(ToolCall(call_id="", tool="complete_task", arguments=arguments), finish("there"))
    async with acting(clock, actor) as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    (result,) = results_in(actor.requests[1])
    assert (outcome.output, result.ok) == ("there", False)
    assert "result" in str(result.result) or "text" in str(result.result)


class Stop(BaseModel):
    city: str = Field(min_length=3)
    days: int = 2


class Trip(BaseModel):
    title: str = Field(min_length=5)
    stops: list[Stop]
    back: Trip | None = None

    @field_validator("title")
    @classmethod
    def is_no_shouting(cls, title: str) -> str:
        if title.isupper():
            raise ValueError("do not shout")
        return title.strip()


async def test_L10_each_violation_is_fed_back_with_its_path_and_a_corrected_call_finishes(clock: SetClock) -> None:
    stops = [{"city": "Porto"}]
    actor = Actor(
        finish({"title": "Go", "stops": [{"city": "P"}]}),
        finish({"title": "PORTO", "stops": stops}),
        finish({"title": " Porto ", "stops": stops}),
    )
    async with acting(clock, actor, output=Trip) as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    (short,), (loud,) = told(actor.requests[1]), told(actor.requests[2])
    assert "result.title: " in str(short)
    assert "result.stops[0].city: " in str(short)
    assert str(loud) == "This does not fit: result.title: do not shout. Correct it, and call complete_task again."
    assert outcome.output == {"title": "Porto", "stops": [{"city": "Porto", "days": 2}], "back": None}


async def test_L11_the_first_of_two_answers_wins(clock: SetClock) -> None:
    actor = Actor([finish(" "), finish("first"), finish("second")])
    async with acting(clock, actor) as app:
        run = await app.submit("agent:guide", "Go")
        outcome = await ended(app, run)
        refused = [data.why for data in await data_of(run, e.ToolRefused)]
    assert outcome.output == "first"
    assert refused[1] == "complete_task was called before in this turn, and that one counts."
    assert "result" in refused[0]


async def test_L12_calls_beside_the_answer_run_first(clock: SetClock) -> None:
    actor = Actor([call("look_up", city="Porto"), finish(), call("look_up", city="Faro")])
    async with acting(clock, actor, tools=[look_up]) as app:
        run = await app.submit("agent:guide", "Go")
        outcome = await ended(app, run)
        results = [data.result for data in await data_of(run, e.ToolFinished)]
    assert (outcome.reason, outside.done) == ("goal", ["Porto is a city", "Faro is a city"])
    assert results == ["Porto is a city", "Faro is a city", "done"]


async def test_L22_silence_is_nudged_once_and_then_the_last_turn_can_finish(clock: SetClock) -> None:
    actor = Actor("I think.", "I think more.", finish("thought"))
    async with acting(clock, actor, tools=[look_up]) as app:
        run = await app.submit("agent:guide", "Go")
        outcome = await ended(app, run)
        types = await types_of(run)
    assert (outcome.status, outcome.reason, outcome.recovered) == ("completed", "no_completion", True)
    assert outcome.output == "thought"
    assert last_said(actor.requests[1].messages).startswith("Nobody reads what you say besides: call a tool")
    assert "This is your last turn." in last_said(actor.requests[2].messages)
    assert [spec.name for spec in actor.requests[2].tools] == ["complete_task"]
    assert (types.count("limit.reached"), types.count("recovery.started"), types[-2]) == (1, 1, "recovery.finished")


async def test_L23_a_last_turn_that_fails_leaves_the_reason_and_the_text(clock: SetClock) -> None:
    working = Reply(pieces=["Looking."], calls=[call("look_up", city="Porto")])
    actor = Actor(working, working, "Sorry, no.")
    async with acting(clock, actor, tools=[look_up], limits={"max_turns": 2}) as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    assert (outcome.status, outcome.reason, len(actor.requests)) == ("failed", "max_turns", 3)
    assert (outcome.output, outcome.partial, outcome.recovered) == (None, "Sorry, no.", False)
    assert outcome.usage.calls == 3


async def test_L24_the_message_of_the_last_turn_holds_the_pending_results(clock: SetClock) -> None:
    actor = Actor([call("look_up", city="Porto"), call("look_up", city="Faro")], finish())
    async with acting(clock, actor, tools=[look_up], limits={"max_turns": 1}) as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    said = last_said(actor.requests[1].messages)
    assert "- look_up: Porto is a city\n- look_up: Faro is a city" in said
    assert "You have used all the turns" in said
    assert (outcome.reason, outcome.recovered) == ("max_turns", True)


async def test_no_other_tool_is_called_in_the_last_turn(clock: SetClock) -> None:
    actor = Actor(call("look_up", city="Porto"), call("look_up", city="Faro"))
    async with acting(clock, actor, tools=[look_up], limits={"max_turns": 1}) as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    assert (outcome.status, outside.done) == ("failed", ["Porto is a city"])


async def test_L44_with_finish_text_a_turn_without_calls_is_the_answer(clock: SetClock) -> None:
    actor = Actor(call("look_up", city="Porto"), "Porto it is.")
    async with acting(clock, actor, tools=[look_up], finish="text") as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    assert (outcome.status, outcome.reason, outcome.output) == ("completed", "goal", "Porto it is.")
    assert [[spec.name for spec in request.tools] for request in actor.requests] == [["look_up"], ["look_up"]]


async def test_with_finish_text_a_call_to_complete_is_refused_and_silence_is_nudged(clock: SetClock) -> None:
    actor = Actor(finish("so"), "", "Porto.")
    async with acting(clock, actor, finish="text") as app:
        outcome = await ended(app, await app.submit("agent:guide", "Go"))
    assert "There is no tool 'complete_task'" in str(told(actor.requests[1])[0])
    assert text_of(actor.requests[2].messages[-1].parts) == "Your answer was empty. Say your answer."
    assert outcome.output == "Porto."
