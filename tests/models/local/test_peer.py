"""OpenAI's wire format, as a real model behind somebody else's server speaks it: llama.cpp's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from retinue import Retinue
from retinue.core.messages import Data, Message, Text, ToolCall, ToolResult
from retinue.errors import ModelRefused
from retinue.models.config import ModelsConfig, ProviderConfig
from retinue.models.names import ModelNames
from retinue.ports.models import Model, ModelSettings, OutputSpec
from retinue.settings import Settings
from tests.beside import beside
from tests.models.asking import ask, question, said, tool
from tests.models.peer import Peer, peer

WEATHER = tool("get_weather", city={"type": "string"})
STARS = {
    "type": "object",
    "properties": {"stars": {"type": "integer"}},
    "required": ["stars"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def served(smollm2_file: Path) -> Iterator[Peer]:
    with beside(peer(smollm2_file)) as served:
        yield served


def providers(served: Peer, key: str) -> dict[str, ProviderConfig]:
    return {"peer": ProviderConfig(base_url=served.base_url, api_key=key)}


@pytest.fixture
async def names(served: Peer) -> AsyncIterator[ModelNames]:
    names = ModelNames(config=ModelsConfig(providers=providers(served, served.key)))
    yield names
    await names.close()


@pytest.fixture
def model(names: ModelNames) -> Model:
    return names.resolve("peer:smollm2")


def short(**settings: object) -> ModelSettings:
    return ModelSettings(**{"max_tokens": 24, "temperature": 0.0, **settings})  # type: ignore[arg-type]


async def test_it_streams_an_answer_and_counts_what_it_used(model: Model) -> None:
    answer = await ask(model, question("What is the capital of Japan?", settings=short()))
    assert "Tokyo" in answer.text
    assert answer.text == answer.streamed()
    assert len(answer.pieces) > 3
    usage = answer.response.usage
    assert (usage.calls, usage.estimated, answer.response.stop) == (1, False, "end")
    assert usage.input_tokens > 10
    assert usage.output_tokens >= len(answer.pieces)


async def test_it_stops_where_it_is_told_to(model: Model) -> None:
    cut = await ask(model, question("Tell me a long story.", settings=short(max_tokens=5)))
    assert (cut.response.stop, cut.response.usage.output_tokens) == ("length", 5)
    stopped = await ask(model, question("Count: one two three", settings=short(stop=(" ",))))
    assert (stopped.response.stop, " " in stopped.text) == ("end", False)


async def test_it_keeps_to_a_schema(model: Model) -> None:
    request = question("I love it! How many stars?", output=OutputSpec(schema=STARS), settings=short(max_tokens=60))
    (part,) = (await ask(model, request)).response.parts
    assert isinstance(part, Data)
    assert isinstance(part.data, dict)
    assert isinstance(part.data["stars"], int)


async def test_it_reads_instructions_tools_calls_and_their_results(model: Model) -> None:
    call = ToolCall(call_id="call_1", tool="get_weather", arguments={"city": "Porto"})
    result = Message(
        role="tool", parts=(ToolResult(call_id="call_1", ok=True, result={"sky": "rain", "wind": "none"}),)
    )
    growing = [
        question("Weather?", settings=short(max_tokens=2)),
        question("Weather?", settings=short(max_tokens=2), instructions="You know the weather of every city."),
        question("Weather?", settings=short(max_tokens=2), tools=(WEATHER,)),
        question("Weather?", said(call), result, settings=short(max_tokens=2), tools=(WEATHER,)),
    ]
    read = [(await ask(model, request)).response.usage.input_tokens for request in growing]
    assert read[0] < read[1] < read[2] < read[3]


async def test_what_it_refuses_is_said_in_its_words(model: Model, served: Peer) -> None:
    with pytest.raises(ModelRefused, match="exceeds the available context size"):
        await ask(model, question("word " * 9000))
    others = ModelNames(config=ModelsConfig(providers=providers(served, "wrong")))
    with pytest.raises(ModelRefused, match=r"Invalid API Key \(401\)\. Check api_key under \[providers\.peer\]"):
        await ask(others.resolve("peer:smollm2"), "hello")
    await others.close()


async def tokens_said(served: Peer) -> float:
    """How many tokens it has made since it started."""
    url = served.base_url.removesuffix("/v1") + "/metrics"
    headers = {"Authorization": f"Bearer {served.key}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as response:
        text = await response.text()
    return float(text.partition("\nllamacpp:tokens_predicted_total ")[2].split()[0])


async def test_an_answer_that_is_left_is_stopped_at_the_server(model: Model, served: Peer) -> None:
    before = await tokens_said(served)
    for _ in range(2):  # it gives two answers at once: others would have to wait for the end of both
        answer = model.ask(
            question("Tell me a very long story.", settings=short(max_tokens=900, extra={"ignore_eos": True}))
        )
        await anext(answer)
        await answer.aclose()
    for _ in range(3):
        assert (await ask(model, question("Hi", settings=short(max_tokens=3)))).text
    assert await tokens_said(served) - before < 900


async def test_it_answers_in_a_thread(served: Peer) -> None:
    settings = Settings(providers=providers(served, served.key))
    async with Retinue.open("sqlite://", settings=settings) as app:
        run = await app.submit("model:peer:smollm2", "What is the capital of Japan? Answer in one sentence.")
        outcome, row = await run.outcome(), await run.row()
        assert (outcome.status, "Tokyo" in str(outcome.output)) == ("completed", True)
        (_, answer) = await app.service.threads.branch(row.thread_id or "")
        assert answer.parts == (Text(text=str(outcome.output)),)
