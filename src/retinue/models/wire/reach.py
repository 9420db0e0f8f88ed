"""From settings and environment to a client: where a provider is, and with what it is spoken to."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from importlib.metadata import version
from urllib.parse import SplitResult, unquote, urlsplit

from retinue.errors import BadSettings
from retinue.models.config import ProviderConfig
from retinue.models.network import check_headers, password_of, proxy_of
from retinue.models.providers import is_openai, key_sources, url_of, url_sources
from retinue.models.wire.http import Endpoint, HttpClient
from retinue.models.wire.openai_chat import PATH, OpenAIChat
from retinue.models.wire.problems import Problems
from retinue.ports.clock import Clock
from retinue.ports.models import Takes


class Reach:
    """A provider behind OpenAI's chat completions, with one client for all its models."""

    def __init__(
        self, provider: str, config: ProviderConfig, key: str | None, environment: Mapping[str, str], clock: Clock
    ) -> None:
        self._provider, self._clock = provider, clock
        self._url_from, self._key_from = url_sources(provider), key_sources(provider)
        address = _address(url_of(provider, config, environment), self._url_from)
        self.url = _without_user(address).rstrip("/").removesuffix(PATH)
        headers = {"User-Agent": f"retinue/{version('retinue')}", **_authorization(key, address, self._url_from)}
        if is_openai(self.url):
            headers |= _account(environment)
        proxy = proxy_of(config, address)
        check_headers(provider, config)
        self._secrets = tuple(filter(None, (key, *config.headers.values(), address.password, password_of(proxy))))
        self.client = HttpClient(
            Endpoint(
                url=self.url,
                headers={**headers, **config.headers},
                proxy=proxy,
                connect_timeout=config.connect_timeout,
                idle_timeout=config.idle_timeout,
                connections=config.connections,
            ),
            clock,
        )

    def model(self, name: str, takes: Takes) -> OpenAIChat:
        say = Problems(
            f"{self._provider}:{name}",
            self.url,
            key_from=self._key_from,
            url_from=self._url_from,
            secrets=self._secrets,
            now_ms=self._clock.now_ms,
        )
        return OpenAIChat(self._provider, name, self.client, say, takes)

    async def close(self) -> None:
        await self.client.close()


def _address(given: str, url_from: str) -> SplitResult:
    try:
        address = urlsplit(given)
    except ValueError:
        address = SplitResult("", "", "", "", "")
    if address.scheme not in ("http", "https") or not address.hostname:
        raise BadSettings(where=url_from, problem="it is no address that begins with http:// or https://")
    return address


def _authorization(key: str | None, address: SplitResult, url_from: str) -> dict[str, str]:
    if address.username is None:
        return {"Authorization": f"Bearer {key}"} if key else {}
    if key:
        problem = "it has a user, and there is a key: only one of both can be sent"
        raise BadSettings(where=url_from, problem=problem)
    words = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return {"Authorization": f"Basic {b64encode(words.encode()).decode()}"}


def _without_user(address: SplitResult) -> str:
    return address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()


def _account(environment: Mapping[str, str]) -> dict[str, str]:
    """For whom OpenAI's own server is to count the call, where that is set as its packages expect it."""
    named = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    return {header: value for header, variable in named.items() if (value := environment.get(variable))}
