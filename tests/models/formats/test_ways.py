"""How a provider is reached, whatever its format: by settings, or else by the environment; with one client."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from retinue.errors import BadSettings, ModelRefused, ModelUnavailable
from tests.models.asking import ask, question
from tests.models.formats.conftest import KEY, Provider, without
from tests.models.server import Reply
from tests.models.servers.script import Says, Script

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)


def at(provider: Provider, url: str = "", **config: Any) -> dict[str, Any]:
    """Settings that lead there."""
    named = {"base_url": url or provider.server.root + provider.format.base, "api_key": "sk-other-key", **config}
    return {"providers": {provider.format.provider: named}}


async def test_settings_lead_to_a_server_and_go_over_the_environment(provider: Provider) -> None:
    provider.says("well")
    there = {provider.format.key: KEY, provider.format.variable: "http://127.0.0.1:9"}
    assert (await ask(provider.model(environment=there, **at(provider)), "hello")).text == "well"
    assert "sk-other-key" in str(dict(provider.server.headers[0]))


async def test_a_slash_at_the_end_of_an_address_is_no_matter(provider: Provider) -> None:
    provider.says("well")
    model = provider.model(**at(provider, provider.server.root + provider.format.base + "/"))
    assert (await ask(model, "hello")).text == "well"
    assert provider.server.paths[0].startswith(provider.format.path)


async def test_a_server_that_asks_for_no_key_gets_none_of_ours(provider: Provider) -> None:
    provider.says("well")
    assert (await ask(provider.model(environment={}, **at(provider, api_key="")), "hello")).text == "well"


async def test_headers_of_the_settings_go_over_all_others(provider: Provider) -> None:
    provider.says("well")
    model = provider.model(**at(provider, headers={"X-Team": "blue", "User-Agent": "ours"}))
    await ask(model, "hello")
    (headers,) = provider.server.headers
    assert (headers["X-Team"], headers["User-Agent"]) == ("blue", "ours")


async def test_a_header_that_cannot_be_sent_is_said(provider: Provider) -> None:
    with pytest.raises(BadSettings, match="has characters that cannot be sent"):
        provider.model(**at(provider, headers={"X-Team": "ü"}))


@pytest.mark.parametrize("url", ["nonsense", "ftp://there.example"])
async def test_an_address_that_is_none_is_said_where_it_stands(provider: Provider, url: str) -> None:
    with pytest.raises(BadSettings, match="it is no address that begins with http:// or https://"):
        provider.model(**at(provider, url))


@without("chat, by hand")  # it reads the last bytes while nobody waits, which its own tests wait for
async def test_one_connection_is_kept_alive_for_all_models_of_a_provider(provider: Provider) -> None:
    provider.says("well")
    names = provider.names(**at(provider))
    for name in (provider.format.model, provider.format.model, "another"):
        await ask(names.resolve(f"{provider.format.provider}:{name}"), "hello")
    assert len(provider.server.connections) == 1


async def test_many_are_asked_at_once(provider: Provider) -> None:
    provider.says("well")
    model = provider.model()
    answers = await asyncio.gather(*(ask(model, f"question {n}") for n in range(20)))
    assert [answer.text for answer in answers] == ["well"] * 20


async def test_after_closing_a_new_client_is_made(provider: Provider) -> None:
    provider.says("well")
    names = provider.names(**at(provider))
    name = f"{provider.format.provider}:{provider.format.model}"
    for _ in range(2):
        assert (await ask(names.resolve(name), "hello")).text == "well"
        await names.close()
    assert len(provider.server.connections) == 2


async def test_the_proxy_of_the_settings_is_used(provider: Provider) -> None:
    """It is asked for what is elsewhere; here it is no proxy, and its answer comes back."""
    provider.says("well")
    model = provider.model(**at(provider, f"http://there.example{provider.format.base}", proxy=provider.server.root))
    assert (await ask(model, "hello")).text == "well"
    assert provider.server.headers[0]["Host"] == "there.example"


async def test_the_usual_variables_name_a_proxy_and_what_needs_none(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.says("well")
    monkeypatch.setenv("http_proxy", provider.server.root)
    monkeypatch.setenv("no_proxy", "no-such-host.invalid")
    there = at(provider, f"http://there.example{provider.format.base}")
    assert (await ask(provider.model(**there), "hello")).text == "well"
    with pytest.raises(ModelUnavailable, match="is not known"):
        await ask(provider.model(**at(provider, "http://no-such-host.invalid")), "hello")


async def test_a_proxy_that_is_not_there(provider: Provider) -> None:
    model = provider.model(**at(provider, "https://there.example", proxy="http://me:sk-secret-word@127.0.0.1:9"))
    with pytest.raises(ModelUnavailable, match=r"proxy|nothing listens") as caught:
        await ask(model, "hello")
    assert "sk-secret-word" not in str(caught.value)


async def test_a_host_that_nobody_knows(provider: Provider) -> None:
    with pytest.raises(ModelUnavailable, match=r"the host no-such-host\.invalid is not known"):
        await ask(provider.model(**at(provider, "http://no-such-host.invalid")), "hello")


async def test_a_server_without_tls(provider: Provider) -> None:
    url = provider.server.root.replace("http:", "https:")
    with pytest.raises(ModelUnavailable, match="no secure connection"):
        await ask(provider.model(**at(provider, url)), "hello")


async def test_a_certificate_that_nobody_vouches_for(provider: Provider, certificate: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    listening = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(ModelUnavailable, match=r"the certificate of 127\.0\.0\.1 is not trusted"):
            await ask(provider.model(**at(provider, f"https://127.0.0.1:{port}")), "hello")


async def test_an_answer_that_is_read_slowly_is_none_that_is_slow(provider: Provider) -> None:
    events = provider.format.stream(Script([Says(["Once ", "upon ", "a time"])]))
    provider.server.will(Reply(events))
    said = provider.model().ask(question("hello"))
    await anext(said)
    for _ in range(10):
        provider.clock.advance(100)
    assert [each async for each in said][-1].stop == "end"  # type: ignore[union-attr]


async def test_an_unknown_model_is_refused_by_who_would_know_it(provider: Provider) -> None:
    provider.server.will(provider.format.trouble(404, "no such model"))
    with pytest.raises(ModelRefused, match="no such model"):
        await ask(provider.model("no-such-model"), "hello")
