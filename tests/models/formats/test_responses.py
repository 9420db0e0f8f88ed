"""What only OpenAI's Responses say and hear."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.core.messages import Text
from retinue.errors import ModelBusy, ModelError, ModelRefused, ModelUnavailable
from retinue.ports.models import ModelSettings, OutputSpec
from tests.models.asking import question, said
from tests.models.formats.conftest import Provider, only
from tests.models.server import failing
from tests.models.servers.openai_responses import _response
from tests.models.servers.script import Says, Script, Thinks, sse

pytestmark = only("responses")


async def test_the_history_is_ours_and_is_not_kept_there(provider: Provider) -> None:
    heard = await provider.send(question("hello"))
    assert heard.settings["store"] is False
    assert provider.server.asked[-1]["include"] == ["reasoning.encrypted_content"]
    assert "previous_response_id" not in provider.server.asked[-1]


async def test_what_was_not_kept_there_goes_back_whole(provider: Provider) -> None:
    """Thinking encrypted, text as text, and nothing by its id alone."""
    provider.says(Thinks(["Hm."], "c2lnbmVk"), Says(["Four"]))
    answer = await provider.ask()
    heard = await provider.send(question("hello", said(*answer.response.parts), "and five?"))
    assert heard.of("thought") == [("thought", "Hm.", "c2lnbmVk")]
    assert ("model", ("text", "Four")) in heard.turns
    assert "item_reference" not in str(provider.server.asked[-1])


@pytest.mark.parametrize(("level", "effort"), [("off", "none"), ("low", "low"), ("high", "high")])
async def test_how_much_is_thought_is_told(provider: Provider, level: Any, effort: str) -> None:
    heard = await provider.send(question("hello", settings=ModelSettings(thinking=level)))
    assert heard.settings["reasoning"] == {"effort": effort}


async def test_a_model_that_thinks_is_not_told_how_to_choose(provider: Provider) -> None:
    asked = question("hello", settings=ModelSettings(thinking="low", temperature=0.5, top_p=0.9))
    assert not {"temperature", "top_p"} & set((await provider.send(asked)).settings)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {}, "required": [], "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, False),
    ],
)
async def test_a_schema_is_strict_where_it_can_be(provider: Provider, schema: dict[str, Any], strict: bool) -> None:
    await provider.send(question("hello", output=OutputSpec(schema=schema)))
    assert bool(provider.server.asked[-1]["text"]["format"]["strict"]) is strict


@pytest.mark.parametrize(
    ("code", "kind"),
    [("rate_limit_exceeded", ModelBusy), ("server_error", ModelUnavailable), ("invalid_prompt", ModelRefused)],
)
async def test_an_answer_that_failed(provider: Provider, code: str, kind: type[ModelError]) -> None:
    begun = provider.format.stream(Script())[:1]
    failed = _response("failed", error={"code": code, "message": "that was it"})
    provider.will(*begun, *sse({"type": "response.failed", "sequence_number": 1, "response": failed}, named=True))
    with pytest.raises(kind, match="that was it"):
        await provider.ask()


async def test_no_quota_is_not_asked_for_again(provider: Provider) -> None:
    error = {"message": "You exceeded your quota.", "type": "insufficient_quota", "code": "insufficient_quota"}
    provider.server.will(failing(429, {"error": error}))
    with pytest.raises(ModelBusy, match="no quota is left") as caught:
        await provider.ask()
    assert caught.value.no_quota


async def test_a_refusal_is_told_and_filtered(provider: Provider) -> None:
    created, done = provider.format.stream(Script())
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    message = {"id": "msg_0", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {**where, "type": "response.refusal.delta", "delta": "I will not."},
        {**where, "type": "response.refusal.done", "refusal": "I will not."},
    ]
    numbered = [{**event, "sequence_number": n} for n, event in enumerate(events, 1)]
    provider.will(created, *sse(*numbered, named=True), done)
    response = (await provider.ask()).response
    assert response.stop == "filtered"
    assert response.parts == (Text(text="I will not."),)
