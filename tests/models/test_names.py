"""From a name to a model, or to a word on what is missing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from retinue.core.messages import Text
from retinue.errors import BadSettings, KeyMissing, ModelError, UnknownModel
from retinue.models.config import ModelsConfig, ProviderConfig, RetryConfig
from retinue.models.names import ModelNames, parted
from retinue.ports.models import Model, ModelResponse, Retry
from retinue.testing import Reply, ScriptedModel, SetClock
from tests.models.server import Reply as ServerReply
from tests.models.server import Server, failing, saying
from tests.models.wire.conftest import asks

KEY = {"OPENAI_API_KEY": "sk-key"}
Made = Callable[..., ModelNames]


@pytest.fixture
async def made(clock: SetClock) -> AsyncIterator[Made]:
    """Makes names, closed in the end; `config` is what a file would say."""
    all_made: list[ModelNames] = []

    def make(models: dict[str, Model] | None = None, environment: dict[str, str] | None = None, **config: Any) -> Any:
        read = msgspec.convert(config, ModelsConfig)
        all_made.append(ModelNames(models, read, clock, environment if environment is not None else KEY))
        return all_made[-1]

    yield make
    for names in all_made:
        await names.close()


async def text(model: Model) -> str:
    *_, response = [said async for said in model.ask(asks("hello"))]
    assert isinstance(response, ModelResponse)
    return "".join(part.text for part in response.parts if isinstance(part, Text))


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("openai:gpt-5-mini", "openai", "gpt-5-mini"),
        ("openai/gpt-5-mini", "openai", "gpt-5-mini"),
        ("OpenAI:GPT", "openai", "GPT"),
        ("openrouter/anthropic/claude", "openrouter", "anthropic/claude"),
        ("openrouter:anthropic/claude:free", "openrouter", "anthropic/claude:free"),
        ("openai/ft:gpt-4o:me", "openai", "ft:gpt-4o:me"),
        ("gateway/openai:gpt-5", "gateway", "openai:gpt-5"),
        ("test", "test", ""),
        (":x", "", "x"),
    ],
)
def test_a_name_has_two_parts(name: str, provider: str, model: str) -> None:
    assert parted(name) == (provider, model)


async def test_two_ways_to_write_it_are_one_model(made: Made) -> None:
    names = made()
    assert names.resolve("openai:gpt-5-mini") is names.resolve("openai/gpt-5-mini")
    assert names.resolve("openai/gpt-5-mini").name == "openai:gpt-5-mini"


async def test_test_is_always_there(made: Made) -> None:
    assert await text(made(environment={}).resolve("test")) == "You said: hello"


async def test_a_model_that_is_given_goes_first_and_is_itself(made: Made) -> None:
    mine, other = ScriptedModel(), ScriptedModel()
    names = made({"openai:gpt-5-mini": mine, "test": other}, environment={})
    assert names.resolve("openai/gpt-5-mini") is names.resolve("openai:gpt-5-mini") is mine
    assert names.resolve("test") is other


async def test_an_alias_stands_for_a_name_or_another_alias(made: Made) -> None:
    names = made(aliases={"fast": "openai/gpt-5-mini", "usual": "fast"})
    assert names.resolve("usual") is names.resolve("openai:gpt-5-mini")


async def test_aliases_in_a_circle_are_an_error(made: Made) -> None:
    with pytest.raises(BadSettings, match="a → b → a leads nowhere"):
        made(aliases={"a": "b", "b": "a"}).resolve("a")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("opnai:gpt-5-mini", r"did you mean openai:gpt-5-mini"),
        ("gpt-5-mini", r"did you mean openai:gpt-5-mini"),
        ("claude-opus-5", r"did you mean anthropic:claude-opus-5\?"),
        ("tset", r"did you mean test\?"),
        ("mini-model", r"did you mean my-model\?"),
        ("fats", r"did you mean fast\?"),
        ("qqq", "there is fast, my-model, test, and PROVIDER:NAME"),
        ("openai", "say which model of openai: openai:NAME"),
        ("openai:", "say which model of openai: openai:NAME"),
        ("nowhere:x", r"\[providers.nowhere\] needs a `base_url`"),
        ("", "there is fast"),
    ],
)
async def test_an_unknown_name_is_answered_with_near_ones(made: Made, name: str, advice: str) -> None:
    names = made({"my-model": ScriptedModel()}, aliases={"fast": "test"}, providers={"nowhere": {}})
    with pytest.raises(UnknownModel, match=advice):
        names.resolve(name)


async def test_a_local_model_that_is_not_here_says_how_to_get_it(made: Made, tmp_path: Path) -> None:
    names = made(environment={"RETINUE_MODELS_DIR": str(tmp_path)})
    with pytest.raises(UnknownModel, match="Run: retinue models pull smollm2"):
        names.resolve("local:smollm2")
    assert not names.describe("local:smollm2").ready


async def test_a_script_of_the_test_model_is_found_by_its_name(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETINUE_TEST_SCRIPTS", str(tmp_path))
    (tmp_path / "polite.yaml").write_text("- text: With pleasure")
    names = made()
    assert await text(names.resolve("test:polite")) == "With pleasure"
    with pytest.raises(UnknownModel, match="There is: polite"):
        names.resolve("test:plite")


@pytest.mark.parametrize("key", [{}, {"OPENAI_API_KEY": "  "}])
async def test_a_missing_key_is_named_before_anything_is_asked(made: Made, key: dict[str, str]) -> None:
    names = made(environment=key)
    with pytest.raises(KeyMissing, match=r"openai:gpt-5 needs a key: set OPENAI_API_KEY, or `api_key` under \[prov"):
        names.resolve("openai:gpt-5")


async def test_a_key_that_cannot_be_sent_is_not_shown(made: Made) -> None:
    with pytest.raises(BadSettings, match="OPENAI_API_KEY: the key has characters") as caught:
        made(environment={"OPENAI_API_KEY": "sk-one\nsk-two"}).resolve("openai:gpt-5")
    assert "sk-" not in str(caught.value)


async def test_the_key_in_the_settings_counts_and_none_may_be_needed(server: Server, made: Made) -> None:
    for given, sent in (("sk-mine", "Bearer sk-mine"), ("", None)):
        names = made(providers={"openai": {"api_key": given, "base_url": server.url}}, environment={})
        await text(names.resolve("openai:any"))
        assert server.headers[-1].get("Authorization") == sent


async def test_any_server_with_the_format_is_a_provider(server: Server, made: Made) -> None:
    names = made(providers={"my-house": {"base_url": server.url}}, environment={"MY_HOUSE_API_KEY": "sk-house"})
    assert await text(names.resolve("my-house:llama")) == "Hello there"
    assert (server.asked[0]["model"], server.headers[0]["Authorization"]) == ("llama", "Bearer sk-house")
    without = made(providers={"my-house": {"base_url": server.url}}, environment={})
    assert await text(without.resolve("my-house:llama")) == "Hello there"
    assert "Authorization" not in server.headers[1]


async def test_the_models_of_a_provider_share_its_connections(server: Server, made: Made) -> None:
    names = made(providers={"openai": {"base_url": server.url}})
    for model in ("a", "b"):
        await text(names.resolve(f"openai:{model}"))
        await asyncio.sleep(0)
    assert len(server.connections) == 1


async def test_calls_at_once_are_limited_for_all_models_of_a_provider(server: Server, made: Made) -> None:
    never = asyncio.Event()
    server.will(ServerReply([never]))
    names = made(providers={"openai": {"base_url": server.url, "concurrency": 2}})
    asking = [asyncio.create_task(text(names.resolve(f"openai:{n}"))) for n in range(3)]
    while len(server.asked) < 2:
        await asyncio.sleep(0)
    assert [health.waiting for health in names.health()] == [1, 1, 1]
    asking[0].cancel()
    await server.left.wait()
    while len(server.asked) < 3:
        await asyncio.sleep(0)
    for call in asking[1:]:
        call.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_a_fallback_is_asked_when_the_model_is_down(server: Server, made: Made) -> None:
    server.will(failing(503, {"error": "down"}))
    names = made(
        {"mine": ScriptedModel(lambda request: Reply(pieces=["here I am"]))},
        providers={"openai": {"base_url": server.url}},
        retry={"tries": 1},
        aliases={"spare": "mine"},
        fallback={"openai:any": ["openai:other", "spare"], "openai:other": ["openai:any"]},
    )
    said = [one async for one in names.resolve("openai:any").ask(asks("hello"))]
    assert [one.model for one in said if isinstance(one, Retry)] == ["openai:other", "test"]
    assert [request["model"] for request in server.asked] == ["any", "other"]


async def test_a_fallback_that_cannot_be_asked_is_said_at_once(made: Made) -> None:
    for wrong, error in (("openai:x", KeyMissing), ("opnai:x", UnknownModel)):
        names = made({"mine": ScriptedModel()}, fallback={"test": [wrong]}, environment={})
        with pytest.raises(error):
            names.resolve("test")


async def test_an_answer_of_the_server_at_a_strange_address_has_no_price(server: Server, made: Made) -> None:
    for prices, costs in ((None, False), ("openai", True)):
        names = made(providers={"openai": {"base_url": server.url, "prices": prices}})
        *_, response = [said async for said in names.resolve("openai:gpt-4o").ask(asks("hello"))]
        assert isinstance(response, ModelResponse)
        assert (response.usage.cost_usd > 0) is costs


async def test_what_a_model_takes_is_in_the_table_or_in_the_settings(made: Made) -> None:
    names = made(takes={"openai:any": {"media": ["image/*"], "output_tokens": 77}})
    assert names.resolve("openai:gpt-5").takes.takes("image/png")
    assert names.resolve("openai:any").takes.takes("image/tiff")
    assert names.resolve("openai:any").at_most(asks("hello")).output_tokens == 77
    assert not names.resolve("openai:other").takes.media


async def test_the_listing_says_what_can_be_asked(made: Made) -> None:
    names = made({"mine": ScriptedModel()}, aliases={"fast": "openai:gpt-5", "lost": "opnai:x"}, model="fast")
    listed = {one.name: one for one in names.listing()}
    assert list(listed)[:4] == ["mine", "fast", "lost", "test"]
    fast = listed["fast"]
    assert (fast.provider, fast.stands_for, fast.needs, fast.ready) == ("openai", "openai:gpt-5", KEY_NAMES, True)
    assert fast.takes
    assert fast.takes.takes("image/png")
    assert not listed["lost"].ready
    assert (listed["anthropic:…"].needs, listed["anthropic:…"].ready) == (("ANTHROPIC_API_KEY",), False)
    assert listed["openai:…"].ready
    assert listed["bedrock:…"].needs == ()
    assert not listed["ollama:…"].ready


KEY_NAMES = ("OPENAI_API_KEY",)


async def test_health_is_that_of_the_models_that_were_asked(server: Server, made: Made) -> None:
    server.will(failing(429, {"error": "slower"}, **{"Retry-After": "7"}))
    names = made(providers={"openai": {"base_url": server.url}}, retry={"tries": 1})
    names.resolve("openai:idle")
    with pytest.raises(ModelError):
        await text(names.resolve("openai:any"))
    idle, busy = names.health()
    assert (idle.calls, idle.breaker) == (0, "closed")
    assert (busy.provider, busy.model, busy.calls, busy.failures, busy.retry_after) == (
        "openai",
        "openai:any",
        1,
        1,
        7.0,
    )


async def test_a_probe_asks_one_tiny_question(server: Server, made: Made) -> None:
    names = made(providers={"openai": {"base_url": server.url}}, fallback={"openai:any": ["test"]})
    probed = await names.probe("openai:any")
    assert (probed.answered_by, probed.text, probed.error) == ("openai:served-1", "Hello there", None)
    assert probed.usage.output_tokens == 3
    assert (await names.probe("test")).answered_by == "test"


async def test_a_probe_that_fails_says_why_and_asks_once(server: Server, made: Made) -> None:
    server.will(failing(500, {"error": "down"}))
    names = made(providers={"openai": {"base_url": server.url}}, fallback={"openai:any": ["test"]})
    probed = await names.probe("openai:any")
    assert probed.error
    assert probed.error.message == "openai:any cannot be reached: down (500)"
    assert len(server.asked) == 1


async def test_closing_hangs_up(server: Server, made: Made) -> None:
    names = made(providers={"openai": {"base_url": server.url}})
    await text(names.resolve("openai:any"))
    await names.close()
    assert names.health() == []
    server.will(saying("again"))
    assert await text(names.resolve("openai:any")) == "again"


def test_what_is_not_used_is_not_loaded() -> None:
    """Naming and listing models costs no import of what asks them."""
    code = """
import sys
from retinue.models.names import ModelNames
names = ModelNames(environment={"OPENAI_API_KEY": "sk-key"})
names.listing(), names.resolve("test"), names.describe("openai:gpt-5"), names.describe("anthropic:x")
print(*{"aiohttp", "pydantic", "pydantic_ai", "genai_prices", "openai", "anthropic"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"providers": {"openai": {"api_keyy": "x"}}},
        {"providers": {"openai": {"connections": 0}}},
        {"retry": {"tries": 0}},
        {"retry": {"first_delay": -1}},
        {"breaker": {"share": 2}},
        {"fallback": {"a": "b"}},
        {"modell": "x"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, ModelsConfig)


def test_settings_have_the_promised_defaults() -> None:
    config = ModelsConfig()
    assert (config.retry.tries, config.retry.first_delay, config.retry.longest_delay) == (3, 1.0, 30.0)
    assert config.retry == RetryConfig()
    assert ProviderConfig().concurrency is None
