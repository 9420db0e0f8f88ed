"""What only Anthropic's messages say and hear."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.core.messages import Thinking
from retinue.errors import ModelBusy, ModelRefused, ModelUnavailable
from retinue.ports.models import ModelSettings, OutputSpec
from tests.models.asking import ask, question, said
from tests.models.formats.conftest import Provider, only
from tests.models.server import failing
from tests.models.servers.script import Script, sse

pytestmark = only("anthropic")


def trouble(status: int, kind: str, message: str) -> Any:
    return failing(status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})


async def test_thinking_that_is_hidden_goes_back_too(provider: Provider) -> None:
    """What was thought is encrypted, and nothing of it is shown."""
    first, ping, *end = provider.format.stream(Script())
    block = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "redacted_thinking", "data": "c2VjcmV0"},
    }
    provider.will(first, ping, *sse(block, {"type": "content_block_stop", "index": 0}, named=True), *end)
    answer = await provider.ask()
    assert [part.text for part in answer.response.parts if isinstance(part, Thinking)] == [""]
    heard = await provider.send(question("hello", said(*answer.response.parts), "and?"))
    assert heard.of("thought") == [("thought", "", "c2VjcmV0")]


async def test_the_answer_may_be_as_long_as_the_model_can_say(provider: Provider) -> None:
    """The format demands a limit."""
    assert (await provider.send(question("hello"))).settings["max_tokens"] == 128_000


@pytest.mark.parametrize(("level", "thinking"), [("off", None), ("low", "adaptive"), ("high", "adaptive")])
async def test_how_much_is_thought_is_told(provider: Provider, level: Any, thinking: str | None) -> None:
    heard = await provider.send(question("hello", settings=ModelSettings(thinking=level)))
    assert heard.settings.get("thinking", {}).get("type") == thinking
    if thinking:
        assert provider.server.asked[-1]["output_config"]["effort"] == level


async def test_models_that_choose_for_themselves_are_not_told_how(provider: Provider) -> None:
    """They refuse such settings; the same agent runs on other models, which take them."""
    provider.says("well")
    asked = question("hello", settings=ModelSettings(temperature=0.5, top_p=0.9))
    await ask(provider.model("claude-opus-5"), asked)
    assert not {"temperature", "top_p"} & set(provider.server.asked[-1])


async def test_an_answer_with_free_names_is_asked_for_in_words(provider: Provider) -> None:
    """By its own means it would close the object, and it would stay empty."""
    free = {"type": "object", "additionalProperties": {"type": "integer"}}
    heard = await provider.send(question("How often each?", output=OutputSpec(schema=free)))
    assert heard.output is None
    assert "additionalProperties" in heard.system


@pytest.mark.parametrize(
    ("status", "type", "message", "kind", "says"),
    [
        (400, "invalid_request_error", "Your credit balance is too low", ModelBusy, "no quota is left"),
        (400, "invalid_request_error", "prompt is too long: 9 tokens", ModelRefused, "prompt is too long"),
        (402, "billing_error", "Pay", ModelBusy, "no quota is left"),
        (403, "permission_error", "Not yours", ModelRefused, "the key does not permit it"),
        (413, "request_too_large", "Too large", ModelRefused, "Too large (413)"),
        (504, "timeout_error", "Too slow", ModelUnavailable, "Too slow (504)"),
        (529, "overloaded_error", "Overloaded", ModelUnavailable, "Overloaded (529)"),
    ],
)
async def test_its_errors(
    provider: Provider, status: int, type: str, message: str, kind: type[Exception], says: str
) -> None:
    provider.server.will(trouble(status, type, message))
    with pytest.raises(kind) as caught:
        await provider.ask()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("type", "kind"),
    [("rate_limit_error", ModelBusy), ("api_error", ModelUnavailable), ("invalid_request_error", ModelRefused)],
)
async def test_its_errors_in_the_middle_of_an_answer(provider: Provider, type: str, kind: type[Exception]) -> None:
    begun = provider.format.stream(Script())[:2]
    error = {"type": "error", "error": {"type": type, "message": "That was it"}}
    provider.will(*begun, *sse(error, named=True))
    with pytest.raises(kind, match="That was it"):
        await provider.ask()


@pytest.mark.parametrize(
    ("reason", "stop"), [("stop_sequence", "end"), ("refusal", "filtered"), ("model_context_window_exceeded", "length")]
)
async def test_why_it_stopped(provider: Provider, reason: str, stop: str) -> None:
    whole = b"".join(provider.format.stream(Script())).replace(b"end_turn", reason.encode())
    provider.will(whole)
    assert (await provider.ask()).response.stop == stop
