"""How a provider is reached: by settings, or else by the environment."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from retinue.errors import BadSettings, ModelRefused
from retinue.models.config import ProviderConfig
from retinue.models.wire.http import Endpoint
from retinue.models.wire.reach import Reach
from retinue.ports.models import Takes
from retinue.testing import SetClock
from tests.models.server import Server, failing
from tests.models.wire.conftest import asks, told

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)


def reach(provider: str = "openai", key: str | None = "sk-key", **config: Any) -> Reach:
    environment = config.pop("environment", {})
    return Reach(provider, ProviderConfig(**config), key, environment, SetClock())


def endpoint(**config: Any) -> Endpoint:
    return reach(**config).client.endpoint


def test_openai_is_at_its_own_address_unless_something_else_is_said() -> None:
    assert endpoint().url == "https://api.openai.com/v1"
    there = {"OPENAI_BASE_URL": "http://there.example/v1/"}
    assert endpoint(environment=there).url == "http://there.example/v1"
    assert endpoint(environment=there, base_url="https://here.example").url == "https://here.example"
    assert endpoint(provider="acme", environment=there, base_url="http://acme.example").url == "http://acme.example"


def test_an_address_that_was_copied_too_far_is_understood() -> None:
    assert endpoint(base_url="http://a.example/v1/chat/completions/").url == "http://a.example/v1"


@pytest.mark.parametrize("url", ["nonsense", "ftp://a.example", "http://", "http://[::1", "//a.example"])
def test_an_address_that_is_none_is_said_where_it_stands(url: str) -> None:
    with pytest.raises(BadSettings, match=r"OPENAI_BASE_URL, or base_url under \[providers.openai\]: it is no address"):
        reach(base_url=url)


def test_the_key_goes_into_the_header_and_other_headers_go_over_it() -> None:
    assert endpoint().headers["Authorization"] == "Bearer sk-key"
    assert "Authorization" not in endpoint(key=None).headers
    told = endpoint(headers={"Authorization": "other", "api-key": "x"}).headers
    assert (told["Authorization"], told["api-key"]) == ("other", "x")


@pytest.mark.parametrize("headers", [{"X-A": "one\ntwo"}, {"X\r\nA": "one"}, {"": "one"}, {"X-A": "ü"}])
def test_a_header_that_cannot_be_sent_is_said(headers: dict[str, str]) -> None:
    with pytest.raises(BadSettings, match=r"headers under \[providers.openai\]: .* has characters that cannot be sent"):
        reach(headers=headers)


def test_a_user_in_the_address_is_sent_as_a_header_and_named_nowhere() -> None:
    found = endpoint(key=None, base_url="http://me:w%20rd@a.example/v1")
    assert found.url == "http://a.example/v1"
    assert found.headers["Authorization"] == f"Basic {b64encode(b'me:w rd').decode()}"
    with pytest.raises(BadSettings, match="only one of both can be sent"):
        reach(base_url="http://me:word@a.example/v1")


def test_openai_itself_is_told_for_whom_it_counts() -> None:
    environment = {"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}
    headers = endpoint(environment=environment).headers
    assert (headers["OpenAI-Organization"], headers["OpenAI-Project"]) == ("org-1", "proj-1")
    assert "OpenAI-Project" not in endpoint(environment=environment, base_url="http://a.example").headers


def test_timeouts_and_connections_are_settings() -> None:
    found = endpoint(connect_timeout=1.5, idle_timeout=7, connections=3)
    assert (found.connect_timeout, found.idle_timeout, found.connections) == (1.5, 7, 3)


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({"HTTPS_PROXY": "http://p.example:1"}, "https://a.example", "http://p.example:1"),
        ({"http_proxy": "http://p.example:1"}, "http://a.example", "http://p.example:1"),
        ({"HTTP_PROXY": "http://p.example:1", "NO_PROXY": "a.example"}, "http://a.example", None),
        ({"http_proxy": "http://p.example:1"}, "http://127.0.0.1:8000/v1", None),
        ({}, "http://a.example", None),
    ],
)
def test_the_usual_variables_name_a_proxy(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], url: str, proxy: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert endpoint(base_url=url).proxy == proxy


def test_a_proxy_in_the_settings_goes_over_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://p.example:1")
    assert endpoint(base_url="http://a.example", proxy="http://q.example").proxy == "http://q.example"
    assert endpoint(base_url="http://a.example", proxy="").proxy is None
    with pytest.raises(BadSettings, match="only proxies with http:// or https://"):
        reach(proxy="socks5://q.example")


async def test_no_secret_of_the_settings_gets_into_a_message(server: Server) -> None:
    """Neither the key, nor headers, nor passwords; and the message says where each may be set."""
    found = reach("acme", base_url=server.url, headers={"X-Token": "header-secret"}, api_key="sk-key-1", key="sk-key-1")
    server.will(failing(401, {"error": "sk-key-1 and header-secret are wrong"}))
    with pytest.raises(
        ModelRefused, match=r"\*\*\* and \*\*\* are wrong \(401\). Check api_key under \[providers.acme\]"
    ):
        await told(found.model("any", Takes()), asks("hello"))
    await found.close()
