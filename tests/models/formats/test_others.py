"""Providers whose formats are like one of these: that they are reached, asked once, and translated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from retinue.errors import BadSettings, ModelBusy, ModelUnavailable
from retinue.testing import SetClock
from tests.models.asking import ask, question, tool
from tests.models.formats.conftest import Provider
from tests.models.server import Server
from tests.models.servers.openai_chat import OpenAIChat
from tests.models.servers.script import Calls, Says

PLACES = {
    "groq": ("/openai/v1/chat/completions", ""),
    "deepseek": ("/v1/chat/completions", "/v1"),
    "openrouter": ("/v1/chat/completions", "/v1"),
    "ollama": ("/v1/chat/completions", "/v1"),
    "vllm": ("/v1/chat/completions", "/v1"),
    "litellm": ("/v1/chat/completions", "/v1"),
    "together": ("/v1/chat/completions", "/v1"),
}
"""Where they are asked, and what the address of a server of one's own is followed by."""


@pytest.fixture(params=PLACES)
async def other(request: pytest.FixtureRequest, server: Server, clock: SetClock) -> AsyncIterator[Provider]:
    speaks = OpenAIChat(request.param)
    speaks.path, speaks.base = PLACES[request.param]
    speaks.model = "openai/any"
    made = Provider(speaks, server, clock)
    yield made
    await made.close()


def there(other: Provider) -> dict[str, Any]:
    settings = {"base_url": other.server.root + other.format.base, "api_key": "sk-key-of-it"}
    return {"providers": {other.format.provider: settings}}


async def test_text_and_calls_come(other: Provider) -> None:
    other.says(Says(["Let me ", "see."]), Calls("callabcde", "weather", ['{"city":', '"Paris"}']))
    asked = question("hello", tools=(tool("weather", city={"type": "string"}),), instructions="Be brief.")
    answer = await ask(other.model(**there(other)), asked)
    assert (answer.text, answer.streamed()) == ("Let me see.", "Let me see.")
    assert answer.calls == [("weather", {"city": "Paris"})]
    assert other.server.paths == [other.format.path]
    assert other.server.headers[0]["Authorization"] == "Bearer sk-key-of-it"
    assert other.server.asked[0]["messages"][0]["content"] == "Be brief."


@pytest.mark.parametrize(("status", "kind"), [(429, ModelBusy), (500, ModelUnavailable), (503, ModelUnavailable)])
async def test_none_is_asked_again(other: Provider, status: int, kind: type[Exception]) -> None:
    other.server.will(other.format.trouble(status, "not now"))
    with pytest.raises(kind, match="not now"):
        await ask(other.model(**there(other)), "hello")
    assert len(other.server.asked) == 1


@pytest.mark.parametrize(("provider", "model"), [("mistral", "any"), ("bedrock", "amazon.nova-lite-v1:0")])
async def test_who_has_a_format_of_its_own_is_not_asked_again_either(
    server: Server, clock: SetClock, monkeypatch: pytest.MonkeyPatch, provider: str, model: str
) -> None:
    """Amazon's package has more patience than the others."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "a-key")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    server.will(OpenAIChat(provider).trouble(503, "not now"))
    made = Provider(OpenAIChat(provider), server, clock)
    config = {provider: {"base_url": server.root}}
    with pytest.raises(ModelUnavailable):
        await ask(made.model(model, environment={"MISTRAL_API_KEY": "a-key"}, providers=config), "hello")
    assert len(server.asked) == 1
    await made.close()


async def test_a_provider_whose_address_cannot_be_set_says_so(server: Server, clock: SetClock) -> None:
    cohere = Provider(OpenAIChat("cohere"), server, clock)
    config = {"cohere": {"base_url": server.root, "api_key": "key"}}
    with pytest.raises(BadSettings, match=r"\[providers.cohere\]: its address cannot be set"):
        cohere.names(providers=config).resolve("cohere:command-a")
    await cohere.close()


async def test_a_gateway_leads_to_models_of_others(server: Server, clock: SetClock) -> None:
    gateway = Provider(OpenAIChat("gateway"), server, clock)
    gateway.says("well")
    config = {"gateway": {"base_url": server.root, "api_key": "pylf_v1_us_key"}}
    model = gateway.names(providers=config).resolve("gateway/openai-chat:gpt-4o")
    assert (await ask(model, "hello")).text == "well"
    assert server.headers[0]["Authorization"] == "Bearer pylf_v1_us_key"
    await gateway.close()
