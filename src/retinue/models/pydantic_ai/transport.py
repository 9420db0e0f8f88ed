"""The bytes between a provider's package and its server: who waits for them, and what they are if no answer."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import httpx2

from retinue.models.config import ProviderConfig
from retinue.models.network import proxy_of
from retinue.models.watchdog import Watchdog
from retinue.models.wire.http import KEPT_ALIVE
from retinue.models.wire.problems import Problems

LONGEST_PAGE = 64 * 1024
ENDING = 64
ALWAYS = {"Accept-Encoding": "identity"}  # what is packed comes later


@dataclass(slots=True)
class Call:
    """One call of a model, as far as its bytes tell."""

    say: Problems
    watchdog: Watchdog
    sent: bool = False
    answered: bool = False
    """A server has begun to answer."""
    beginning: bytes = b""
    ending: bytes = b""
    streams: list[Heard] = field(default_factory=list)

    async def close(self) -> None:
        """Hang up. Some packages leave that to whoever collects what they forgot."""
        for stream in self.streams:
            await stream.aclose()


CALLING: ContextVar[Call | None] = ContextVar("CALLING", default=None)
"""Whose call the code below the packages is busy with: they have no words of their own to pass that on."""


class Heard(httpx.AsyncByteStream, httpx2.AsyncByteStream):
    """An answer that is listened to: bytes that give no event, like a ping, are a sign of life too.

    Some packages use one generation of the HTTP library, some the other.
    """

    def __init__(self, stream: Any, call: Call, *, text: bool) -> None:
        self._stream, self._chunks, self._call = stream, aiter(stream), call
        self._text = codecs.getincrementaldecoder("utf-8")() if text else None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk: bytes = await anext(self._chunks)
        call = self._call
        call.watchdog.waits()
        call.beginning = call.beginning or chunk[:LONGEST_PAGE]
        call.ending = (call.ending + chunk)[-ENDING:]
        self._check(chunk)
        return chunk

    def _check(self, chunk: bytes) -> None:
        """Some packages would put other characters in the place of what is none."""
        try:
            if self._text:
                self._text.decode(chunk)
        except UnicodeDecodeError as error:
            raise self._call.say.broken(f"a piece of it cannot be read ({error})") from None

    async def aclose(self) -> None:
        await self._stream.aclose()


class Transport(httpx2.AsyncBaseTransport, httpx.AsyncBaseTransport):
    """Sends for a package. The watchdog alone says how long is waited, and the settings' headers go over all others."""

    def __init__(self, open_way: Callable[[str], Any], headers: Mapping[str, str], connect_timeout: float) -> None:
        self._open_way, self._headers = open_way, {**ALWAYS, **headers}
        self._ways: dict[str, Any] = {}
        self._timeouts = {"connect": connect_timeout, "read": None, "write": None, "pool": None}

    async def handle_async_request(self, request: Any) -> Any:
        call = CALLING.get()
        request.headers.update(self._headers)
        request.extensions = {**request.extensions, "timeout": self._timeouts}
        way = self._way(f"{request.url.scheme}://{request.url.host}")
        if call is None:
            return await way.handle_async_request(request)
        call.sent = True
        response = await way.handle_async_request(request)
        call.answered = True
        call.watchdog.waits()
        text = response.status_code < 300 and "content-encoding" not in response.headers
        response.stream = Heard(response.stream, call, text=text)
        call.streams.append(response.stream)
        if 300 <= response.status_code < 400:
            await response.stream.aclose()
            raise call.say.answered(response.status_code, response.headers, b"")
        if response.status_code < 300 and response.headers.get("content-type", "").startswith("text/html"):
            raise call.say.web_page(await _beginning(response.stream))
        return response

    def _way(self, host: str) -> Any:
        """What leads there: only who is asked knows its address, and so whether a proxy does."""
        if host not in self._ways:
            self._ways[host] = self._open_way(host)
        return self._ways[host]

    async def aclose(self) -> None:
        while self._ways:
            await self._ways.popitem()[1].aclose()


async def _beginning(stream: Heard) -> bytes:
    body = b""
    try:
        async for chunk in stream:
            body += chunk
            if len(body) >= LONGEST_PAGE:
                break
    finally:
        await stream.aclose()
    return body


def client_of(library: Any, config: ProviderConfig, headers: Mapping[str, str]) -> Any:
    """A client of one generation of the HTTP library: `httpx` or `httpx2`."""
    limits = library.Limits(
        max_connections=config.connections,
        max_keepalive_connections=config.connections,
        keepalive_expiry=KEPT_ALIVE,
    )

    def open_way(host: str) -> Any:
        return library.AsyncHTTPTransport(limits=limits, proxy=proxy_of(config, urlsplit(host)))

    return library.AsyncClient(
        transport=Transport(open_way, headers, config.connect_timeout),
        timeout=library.Timeout(None, connect=config.connect_timeout),
    )
