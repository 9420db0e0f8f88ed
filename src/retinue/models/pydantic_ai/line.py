"""The line to one provider: its package's client, made once, on an HTTP client of ours that is kept alive."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import httpx
import httpx2
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.gateway import gateway_provider

from retinue.errors import BadSettings, ExtraMissing
from retinue.models.config import ProviderConfig
from retinue.models.network import check_headers, password_of, proxy_of
from retinue.models.providers import address_of, key_sources, url_sources
from retinue.models.pydantic_ai.model import Translated
from retinue.models.pydantic_ai.transport import client_of
from retinue.models.wire.problems import Problems
from retinue.ports.clock import Clock
from retinue.ports.models import Takes

GATEWAY = "gateway"
NO_KEY = "none"
"""Packages want a key where a server wants none."""
ADDRESSES = ("base_url", "azure_endpoint", "api_base", "api_host")
"""What the packages call the address of a server."""


def knows(provider: str) -> bool:
    """Whether the package has such a provider."""
    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    except ImportError:
        return True  # it does, and needs something that is not installed
    return True


class Line:
    """A provider that Pydantic AI speaks to."""

    def __init__(
        self, provider: str, config: ProviderConfig, key: str | None, environment: Mapping[str, str], clock: Clock
    ) -> None:
        check_headers(provider, config)
        self._provider, self._config, self._key, self._clock = provider, config, key, clock
        self._address = _checked(address_of(provider, config, environment), provider)
        self._clients: dict[str, Any] = {}
        self._made: dict[str, Provider[Any]] = {}
        proxy = proxy_of(config, urlsplit(self._address or "https://any"))
        self._secrets = tuple(filter(None, (key, *config.headers.values(), password_of(proxy))))

    def model(self, name: str, takes: Takes) -> Translated:
        """One of its models. Raises `ExtraMissing` or `BadSettings` where it cannot be asked."""
        whole = f"{GATEWAY}/{name}" if self._provider == GATEWAY else f"{self._provider}:{name}"
        try:
            model = infer_model(whole, self._provider_of)
        except ImportError as error:
            raise ExtraMissing(what=f"{self._provider} ({error.name or error})", extra="providers") from None
        except (UserError, ValueError) as error:
            raise BadSettings(where=f"[providers.{self._provider}]", problem=str(error)) from None
        say = Problems(
            f"{self._provider}:{name}",
            model.base_url or self._provider,
            key_from=key_sources(self._provider),
            url_from=url_sources(self._provider),
            secrets=self._secrets,
            now_ms=self._clock.now_ms,
        )
        return Translated(self._provider, name, model, takes, say, self._clock, self._config)

    async def close(self) -> None:
        self._made.clear()
        while self._clients:
            await self._clients.popitem()[1].aclose()

    def _provider_of(self, route: str) -> Provider[Any]:
        if route not in self._made:
            self._made[route] = self._make(route)
        return self._made[route]

    def _make(self, route: str) -> Provider[Any]:
        upstream = route.removeprefix(f"{GATEWAY}/")
        kind = infer_provider_class(route)
        takes = inspect.signature(kind).parameters
        given: dict[str, Any] = {}
        if "api_key" in takes and (self._key or self._config.api_key is not None):
            given["api_key"] = self._key or NO_KEY
        if library := _library(takes.get("http_client")):
            given["http_client"] = self._client_of(library)
        named = next((name for name in ADDRESSES if name in takes), None)
        if self._address and named:
            given[named] = self._address
        made = gateway_provider(upstream, **given) if self._provider == GATEWAY else kind(**given)
        if self._address and not named:
            self._redirect(made)
        _ask_once(made.client)
        return made

    def _redirect(self, made: Provider[Any]) -> None:
        """The package that speaks OpenAI's format can be sent elsewhere after it was made."""
        if not hasattr(made.client, "base_url"):
            raise BadSettings(where=f"[providers.{self._provider}]", problem="its address cannot be set")
        made.client.base_url = self._address

    def _client_of(self, library: Any) -> Any:
        if library.__name__ not in self._clients:
            headers = {"User-Agent": f"retinue/{version('retinue')}", **self._config.headers}
            self._clients[library.__name__] = client_of(library, self._config, headers)
        return self._clients[library.__name__]


def _library(parameter: inspect.Parameter | None) -> Any:
    """The generation of the HTTP library that a package takes a client of, if it takes one."""
    kind = str(parameter.annotation) if parameter else ""
    if kind.startswith("httpx."):
        return httpx
    return httpx2 if "httpx2" in kind or "HTTPClient" in kind else None


def _ask_once(client: Any) -> None:
    """Patience is the guard's: no package asks again by itself. Others are told with each call."""
    if hasattr(client, "max_retries"):
        client.max_retries = 0
    if meta := getattr(client, "meta", None):  # of Amazon's
        service = meta.service_model.service_id.hyphenize()
        meta.events.unregister(f"needs-retry.{service}", unique_id=f"retry-config-{service}")


def _checked(address: str | None, provider: str) -> str | None:
    if address and not address.startswith(("http://", "https://")) and provider != "xai":
        raise BadSettings(where=url_sources(provider), problem="it is no address that begins with http:// or https://")
    return address
