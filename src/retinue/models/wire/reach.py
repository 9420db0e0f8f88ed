"""From settings and environment to a client: where a provider is, and with what it is spoken to."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from importlib.metadata import version
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from retinue.errors import BadSettings
from retinue.models.config import ProviderConfig
from retinue.models.providers import PROVIDERS, URL_FROM, is_openai, url_of
from retinue.models.wire.http import Endpoint, HttpClient
from retinue.models.wire.openai_chat import PATH, OpenAIChat
from retinue.models.wire.problems import Problems
from retinue.ports.clock import Clock
from retinue.ports.models import Takes

HERE = ("localhost", "127.0.0.1", "::1")


class Reach:
    """A provider behind OpenAI's chat completions, with one client for all its models."""

    def __init__(
        self, provider: str, config: ProviderConfig, key: str | None, environment: Mapping[str, str], clock: Clock
    ) -> None:
        self._provider, self._clock = provider, clock
        settings = f"base_url under [providers.{provider}]"
        variable = URL_FROM.get(provider)
        self._url_from = f"{variable}, or {settings}" if variable else settings
        keys = known.keys if (known := PROVIDERS.get(provider)) else ()
        self._key_from = " or ".join((*keys, f"api_key under [providers.{provider}]"))
        address = _address(url_of(provider, config, environment), self._url_from)
        self.url = _without_user(address).rstrip("/").removesuffix(PATH)
        headers = {"User-Agent": f"retinue/{version('retinue')}", **_authorization(key, address, self._url_from)}
        if is_openai(self.url):
            headers |= _account(environment)
        proxy = _proxy(config, address)
        _check_headers(provider, config)
        self._secrets = tuple(filter(None, (key, *config.headers.values(), address.password, _password(proxy))))
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


def _check_headers(provider: str, config: ProviderConfig) -> None:
    for name, value in config.headers.items():
        if not (name and name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
            where = f"headers under [providers.{provider}]"
            raise BadSettings(where=where, problem=f"{name!r} has characters that cannot be sent")


def _account(environment: Mapping[str, str]) -> dict[str, str]:
    """For whom OpenAI's own server is to count the call, where that is set as its packages expect it."""
    named = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    return {header: value for header, variable in named.items() if (value := environment.get(variable))}


def _proxy(config: ProviderConfig, address: SplitResult) -> str | None:
    """The proxy that is named, or that of the environment; no proxy leads to this machine."""
    proxy = config.proxy
    if proxy is None:
        host = address.hostname or ""
        if host in HERE or proxy_bypass(host):
            return None
        proxy = getproxies().get(address.scheme)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise BadSettings(where="proxy", problem="only proxies with http:// or https:// can be used")
    return proxy or None


def _password(url: str | None) -> str | None:
    return urlsplit(url).password if url else None
