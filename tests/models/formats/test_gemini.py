"""What only Gemini says and hears."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from retinue.core.messages import File, ToolCall, ToolResult
from retinue.errors import ModelBroken, ModelBusy, ModelRefused
from retinue.ports.models import ModelSettings, OutputSpec, ToolSpec
from tests.models.asking import ask, question, said, tool
from tests.models.formats.conftest import Provider, only
from tests.models.formats.test_requests import gave, png
from tests.models.server import failing
from tests.models.servers.gemini import Gemini
from tests.models.servers.script import Calls, Format, Says, Thinks, sse

pytestmark = only("gemini")
REFUSED = {"$schema", "const", "exclusiveMinimum", "exclusiveMaximum", "title", "examples", "discriminator"}
"""Words of JSON schemas that are none of https://ai.google.dev/gemini-api/docs/structured-output."""
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"Size": {"type": "object", "properties": {"w": {"type": "number", "exclusiveMinimum": 0}}}},
    "properties": {
        "kind": {"const": "box"},
        "size": {"$ref": "#/$defs/Size"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^a"}, "uniqueItems": True},
        "either": {"oneOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["kind"],
    "additionalProperties": False,
}


@pytest.fixture
def three(provider: Provider) -> Provider:
    """The same for a model of the third generation."""
    provider.format = Gemini("gemini-3-flash-preview")
    return provider


def words(schema: Any) -> Iterator[str]:
    """The keywords of a schema and of those in it."""
    if isinstance(schema, list):
        for each in schema:
            yield from words(each)
    elif isinstance(schema, dict):
        for name, value in schema.items():
            yield name
            inner = value.values() if name in ("properties", "$defs") else [value]
            for each in inner:
                yield from words(each)


async def test_schemas_are_put_into_words_that_gemini_knows(provider: Provider) -> None:
    heard = await provider.send(question("hello", tools=(ToolSpec(name="pack", schema=SCHEMA),)))
    there = heard.tools["pack"]
    assert not set(words(there)) & REFUSED
    assert there["properties"]["kind"] == {"enum": ["box"], "type": "string"}
    assert there["properties"]["at"] == {"type": "string", "description": "Format: date-time"}
    assert there["properties"]["size"] == {"$ref": "#/$defs/Size"}


async def test_a_schema_of_an_answer_is_put_into_words_that_gemini_knows(provider: Provider) -> None:
    heard = await provider.send(question("hello", output=OutputSpec(schema=SCHEMA)))
    assert not set(words(heard.output)) & (REFUSED - {"title"})  # which is its name
    assert provider.server.asked[-1]["generationConfig"]["responseMimeType"] == "application/json"


async def test_the_second_generation_has_tools_or_a_schema_and_is_asked_in_words(provider: Provider) -> None:
    heard = await provider.send(question("hello", output=OutputSpec(schema=SCHEMA), tools=(tool("now"),)))
    assert heard.output is None
    assert '"kind"' in heard.system


async def test_the_third_generation_has_both(three: Provider) -> None:
    heard = await three.send(question("hello", output=OutputSpec(schema=SCHEMA), tools=(tool("now"),)))
    assert heard.output
    assert heard.names == ["now"]


async def test_the_third_generation_sees_images_in_results(three: Provider) -> None:
    shot = ToolResult(call_id="call_1", ok=True, result="a picture", files=(File(uri="f:1", media_type="image/png"),))
    call = ToolCall(call_id="call_1", tool="shoot", arguments={})
    heard = await three.send(question("hello", said(call), gave(shot), tools=(tool("shoot"),), files={"f:1": png()}))
    assert ("tool", ("image", "image/png", png())) in heard.turns


@pytest.mark.parametrize(("level", "budget"), [("off", 0), ("low", 2048), ("high", 24576)])
async def test_how_much_is_thought_is_a_budget(provider: Provider, level: Any, budget: int) -> None:
    heard = await provider.send(question("hello", settings=ModelSettings(thinking=level)))
    assert heard.settings["thinking"]["thinking_budget"] == budget


async def test_a_prompt_that_is_blocked_gives_an_empty_answer(provider: Provider) -> None:
    feedback = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}}
    provider.will(*sse({**feedback, "modelVersion": "gemini-2.5-flash", "responseId": "r"}))
    response = (await provider.ask()).response
    assert (response.parts, response.stop, response.usage.input_tokens) == ((), "filtered", 9)


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "LANGUAGE"])
async def test_an_answer_that_failed_is_none(provider: Provider, reason: str) -> None:
    provider.will(*sse({"candidates": [{"finishReason": reason, "index": 0}], "responseId": "r"}))
    with pytest.raises(ModelBroken, match=f"it broke off with the reason {reason}"):
        await provider.ask()


async def test_calls_without_ids_get_some_and_keep_them(provider: Provider) -> None:
    provider.says(Calls("", "now", ["{}"]), Calls("", "now", ["{}"]))
    answer = await provider.ask(tools=(tool("now"),))
    ids = [part.call_id for part in answer.response.parts if isinstance(part, ToolCall)]
    results = gave(*(ToolResult(call_id=each, ok=True, result=n) for n, each in enumerate(ids)))
    heard = await provider.send(question("hello", said(*answer.response.parts), results, tools=(tool("now"),)))
    assert len(set(ids)) == 2
    assert [call[1] for call in heard.of("call")] == [result[1] for result in heard.of("result")] == ids


async def test_the_first_call_of_somebody_else_is_excused_from_its_signature(provider: Provider) -> None:
    """Gemini refuses a call without one, and has a word for one that another model made."""
    calls = [ToolCall(call_id=f"call_{n}", tool="now", arguments={}) for n in range(2)]
    results = gave(*(ToolResult(call_id=call.call_id, ok=True) for call in calls))
    await provider.send(question("hello", said(*calls), results, tools=(tool("now"),)))
    first, second = provider.server.asked[-1]["contents"][1]["parts"]
    assert first["thoughtSignature"]
    assert "thoughtSignature" not in second


async def test_a_signature_after_the_text_goes_back_with_it(provider: Provider) -> None:
    provider.says(Thinks(["Hm."], "c2lnbmVk"), Says(["Four"]))
    answer = await provider.ask()
    heard = await provider.send(question("hello", said(*answer.response.parts), "and five?"))
    assert [what for who, what in heard.turns if who == "model"][-2:] == [("thought", "", "c2lnbmVk"), ("text", "Four")]


def trouble(status: int, name: str, *details: object) -> Any:
    error = {"code": status, "message": "no.", "status": name, "details": details}
    return failing(status, {"error": error})


async def test_a_wrong_key_is_told_as_one(provider: Provider) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    provider.server.will(trouble(400, "INVALID_ARGUMENT", info))
    with pytest.raises(ModelRefused, match=r"the key is not accepted: no \(400\). Check GEMINI_API_KEY"):
        await provider.ask()


async def test_when_to_come_back_stands_in_the_error(provider: Provider) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "14s"}
    provider.server.will(trouble(429, "RESOURCE_EXHAUSTED", info))
    with pytest.raises(ModelBusy) as caught:
        await provider.ask()
    assert (caught.value.retry_after, caught.value.no_quota) == (14, False)


async def test_what_is_used_up_for_the_day_is_not_asked_for_again(provider: Provider) -> None:
    violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
    info = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
    provider.server.will(trouble(429, "RESOURCE_EXHAUSTED", info))
    with pytest.raises(ModelBusy, match="no quota is left") as caught:
        await provider.ask()
    assert caught.value.no_quota


async def test_any_of_its_variables_holds_the_key(provider: Provider, format: Format) -> None:
    provider.says("well")
    environment = {"GOOGLE_API_KEY": "one-key", format.variable: provider.server.root}
    await ask(provider.model(environment=environment), "hello")
    assert provider.server.headers[0]["x-goog-api-key"] == "one-key"
