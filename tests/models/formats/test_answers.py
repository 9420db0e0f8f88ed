"""What a provider says, whatever its format."""

from __future__ import annotations

import asyncio
import json

import pytest

from retinue.core.messages import Data, Text, Thinking, ToolCall
from retinue.ports.models import OutputSpec, Piece
from tests.models.asking import kinds_of, question, tool
from tests.models.formats.conftest import Provider, without
from tests.models.servers.script import Calls, Says, Script, Thinks, Used

LONDON, PARIS = (
    Calls("call_1", "weather", ['{"ci', 'ty": "Lon', 'don"}']),
    Calls("call_2", "weather", ['{"city":"Paris"}']),
)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


async def test_text_is_told_as_it_comes_and_then_as_a_whole(provider: Provider) -> None:
    provider.says(Says(["Grüß ", "Gott, 世", "界 🌍"]))
    answer = await provider.ask()
    assert answer.text == answer.streamed() == "Grüß Gott, 世界 🌍"
    assert answer.response.stop == "end"


async def test_a_piece_is_told_before_the_next_is_said(provider: Provider) -> None:
    events = provider.format.stream(Script([Says(["one", "two"])]))
    where, go_on = next(n for n, event in enumerate(events) if b"two" in event), asyncio.Event()
    provider.will(*events[:where], go_on, *events[where:])
    said = provider.model().ask(question("hello"))
    assert await anext(said) == Piece("one")
    go_on.set()
    assert [each.text async for each in said if isinstance(each, Piece)] == ["two"]


async def test_several_calls_in_one_answer_with_arguments_in_pieces(provider: Provider) -> None:
    provider.says("Let me see.", LONDON, PARIS)
    answer = await provider.ask(tools=(tool("weather", city={"type": "string"}),))
    assert answer.calls == [("weather", {"city": "London"}), ("weather", {"city": "Paris"})]
    assert answer.text == "Let me see."
    assert answer.response.stop == "tool_calls"
    streamed = answer.streamed("tool_args").replace(" ", "")
    assert streamed == '{"city":"London"}{"city":"Paris"}'


async def test_calls_have_the_ids_that_the_provider_gave(provider: Provider) -> None:
    provider.says(LONDON, PARIS)
    answer = await provider.ask(tools=(tool("weather"),))
    assert [part.call_id for part in answer.response.parts if isinstance(part, ToolCall)] == ["call_1", "call_2"]


async def test_a_call_without_arguments_has_none(provider: Provider) -> None:
    provider.says(Calls("call_1", "now", ["{}"]))
    assert (await provider.ask(tools=(tool("now"),))).calls == [("now", {})]


async def test_a_call_with_an_endless_name_comes_as_it_is(provider: Provider) -> None:
    provider.says(Calls("call_1", "x" * 10_000, ["{}"]))
    assert (await provider.ask(tools=(tool("now"),))).calls == [("x" * 10_000, {})]


async def test_thinking_is_told_apart_from_text(provider: Provider) -> None:
    provider.says(Thinks(["Hm, ", "so."]), Says(["Four"]))
    answer = await provider.ask()
    assert (answer.streamed("thinking"), answer.streamed()) == ("Hm, so.", "Four")
    assert kinds_of(answer.response.parts) == ["Thinking", "Text"]


async def test_only_thinking_is_an_answer_too(provider: Provider) -> None:
    provider.says(Thinks(["Hm."]))
    answer = await provider.ask()
    assert [part.text for part in answer.response.parts if isinstance(part, Thinking)] == ["Hm."]
    assert (answer.text, answer.response.stop) == ("", "end")


async def test_an_answer_without_any_content_is_one(provider: Provider) -> None:
    provider.says()
    response = (await provider.ask()).response
    assert (response.parts, response.stop) == ((), "end")


async def test_what_was_used_is_counted_as_the_provider_counts(provider: Provider) -> None:
    provider.says("Four", used=Used(input=100, cached=40, output=20, thought=8))
    usage = (await provider.ask()).response.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 100, 20)
    assert (usage.cached_tokens, usage.thinking_tokens, usage.estimated) == (40, 8, False)


async def test_what_it_costs_is_known_where_the_seller_is(provider: Provider) -> None:
    provider.says("Four")
    seller = provider.format.provider.partition("-")[0]
    priced = provider.model(providers={provider.format.provider: {"prices": seller}})
    *_, response = [said async for said in priced.ask(question("hello"))]
    assert response.usage.cost_usd > 0  # type: ignore[union-attr]
    assert (await provider.ask()).response.usage.cost_usd == 0  # nobody knows who is at that address


@pytest.mark.parametrize("stop", ["length", "filtered"])
async def test_an_answer_that_was_cut_short_says_so(provider: Provider, stop: str) -> None:
    provider.says("Once upon", stop=stop)
    answer = await provider.ask()
    assert (answer.text, answer.response.stop) == ("Once upon", stop)


async def test_the_answer_says_who_gave_it(provider: Provider) -> None:
    provider.says("Four")
    assert (await provider.ask()).response.model.startswith(f"{provider.format.provider}:")


async def test_a_value_that_was_asked_for_is_data(provider: Provider) -> None:
    provider.says(Says(['{"name": "Ada", ', '"age": 36}']))
    answer = await provider.ask(output=OutputSpec(schema=PERSON))
    assert answer.response.parts == (Data(data={"name": "Ada", "age": 36}, provider=answer.response.parts[0].provider),)
    assert json.loads(json.dumps(provider.heard.output))["required"] == ["name", "age"]


@without("chat, by hand")  # who is asked so is held to the schema
async def test_a_value_in_a_fence_is_one(provider: Provider) -> None:
    provider.says('```json\n{"name": "Ada", "age": 36}\n```')
    answer = await provider.ask(output=OutputSpec(schema=PERSON))
    assert [part.data for part in answer.response.parts if isinstance(part, Data)] == [{"name": "Ada", "age": 36}]


async def test_what_is_no_value_stays_text(provider: Provider) -> None:
    provider.says("I cannot say.")
    answer = await provider.ask(output=OutputSpec(schema=PERSON))
    assert [part.text for part in answer.response.parts if isinstance(part, Text)] == ["I cannot say."]


async def test_a_call_where_a_value_was_asked_for_is_a_call(provider: Provider) -> None:
    provider.says("{}", LONDON)
    answer = await provider.ask(output=OutputSpec(schema=PERSON), tools=(tool("weather"),))
    assert kinds_of(answer.response.parts) == ["Text", "ToolCall"]


async def test_all_of_an_answer_at_once_is_no_different(provider: Provider) -> None:
    provider.will(b"".join(provider.format.stream(Script([Thinks(["Hm."]), Says(["Fo", "ur"]), LONDON]))))
    answer = await provider.ask(tools=(tool("weather"),))
    assert (answer.streamed("thinking"), answer.streamed()) == ("Hm.", "Four")
    assert answer.calls == [("weather", {"city": "London"})]


async def test_bytes_may_be_cut_anywhere(provider: Provider) -> None:
    whole = b"".join(provider.format.stream(Script([Says(["Grüß ", "Gott 🌍"])])))
    provider.will(*(whole[at : at + 1] for at in range(len(whole))))
    assert (await provider.ask()).streamed() == "Grüß Gott 🌍"
