"""An agent on the real local model: it calls a tool, and what it gives keeps to a schema."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel, Field

from retinue import Agent, Retinue, tool
from retinue.core import events as e
from retinue.core.messages import Message, Text, ToolCall, ToolResult
from retinue.models.local import LocalModel
from tests.models.asking import ask, question, said
from tests.models.asking import tool as spec
from tests.outside import data_of

PATIENCE = 120
WEATHER = {"Porto": "It rains, 14 degrees.", "Rome": "Sunshine, 27 degrees."}
LOOKUP = spec("get_weather", city={"type": "string"})


class Weather(BaseModel):
    city: str = Field(max_length=20)
    degrees: int = Field(ge=-50, le=60)


@tool(effect="read")
def get_weather(city: str) -> str:
    """The weather in a city. Ask for one city at a time."""
    return WEATHER[city]


@pytest.mark.slow
@pytest.mark.parametrize(("city", "degrees"), [("Porto", 14), ("Rome", 27)])
async def test_an_agent_calls_a_tool_and_gives_what_its_schema_says(
    smollm2: LocalModel, city: str, degrees: int
) -> None:
    instructions = "You tell the weather. Look it up with get_weather, then give it with complete_task."
    settings = {"max_tokens": 60, "tool_choice": "required"}
    teller = Agent(
        "teller", description="Tells the weather.", instructions=instructions, tools=[get_weather], output=Weather,
        model="m", settings=settings, context=[],
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE), Retinue.open("sqlite://", agents=[teller], models={"m": smollm2}) as app:
        run = await app.submit("agent:teller", f"What is the weather in {city}?")
        outcome = await run.outcome()
        calls = await data_of(run, e.ToolStarted)
    assert [call.tool for call in calls] == ["get_weather", "complete_task"]
    assert (outcome.reason, outcome.output) == ("goal", {"city": city, "degrees": degrees})


def looked_up(city: str = "Porto") -> tuple[Message | str, ...]:
    """A conversation in which it has called, and has the result."""
    call = ToolCall(call_id="1", tool="get_weather", arguments={"city": city})
    result = Message(role="tool", parts=(ToolResult(call_id="1", ok=True, result=WEATHER[city]),))
    return (f"What is the weather in {city}?", said(call), result)


@pytest.mark.slow
async def test_a_call_whose_result_it_has_is_not_made_again(smollm2: LocalModel) -> None:
    answer = await ask(smollm2, question(*looked_up(), tools=(LOOKUP,)))
    assert (answer.calls, answer.streamed("tool_args")) == ([], "")
    assert answer.text
    assert "get_weather" not in answer.text


@pytest.mark.slow
async def test_the_same_tool_is_called_for_something_else(smollm2: LocalModel) -> None:
    further = (*looked_up(), said(Text(text="It rains.")), "What is the weather in Rome?")
    assert (await ask(smollm2, question(*further, tools=(LOOKUP,)))).calls == [("get_weather", {"city": "Rome"})]
