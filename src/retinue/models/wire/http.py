"""One HTTP client for each provider: made when it is first needed, kept alive, closed with the app."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp

from retinue.models.watchdog import Watchdog
from retinue.models.wire.problems import Problems
from retinue.ports.clock import Clock

KEPT_ALIVE = 30.0
"""Shorter than most servers keep an idle connection: one that the server closes just then is found out too late."""
LAST_BYTES = 1.0
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "text/event-stream, application/json",
    "Accept-Encoding": "identity",  # what is packed comes later
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a provider is and how it is spoken to. `headers` have the key."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    proxy: str | None = None
    connect_timeout: float = 10.0
    idle_timeout: float = 120.0
    connections: int = 1000


class Reply:
    """What a server answers, as it comes. Close it: then the server stops, if it is not done already."""

    def __init__(self, client: HttpClient, response: aiohttp.ClientResponse, watchdog: Watchdog, say: Problems) -> None:
        self._client, self._response, self._watchdog, self._say = client, response, watchdog, say
        self.status, self.headers = response.status, response.headers
        self._begun = self._done = False

    def is_a(self, media_type: str) -> bool:
        return self._response.content_type == media_type

    async def more(self) -> bytes:
        """What has come since the last time, or nothing at the end."""
        self._watchdog.waits()
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            if self._watchdog.bitten:
                raise self._say.silent(self._watchdog.seconds, begun=self._begun) from None
            raise self._say.broken(f"it broke off: the connection was lost ({type(error).__name__})") from None
        self._watchdog.heard()
        self._begun = True
        return chunk

    async def whole(self, longest: int) -> bytes:
        """The rest, or its beginning if it is very long."""
        chunks, length = [], 0
        while length < longest and (chunk := await self.more()):
            chunks.append(chunk)
            length += len(chunk)
        return b"".join(chunks)[:longest]

    def done(self) -> None:
        """All that matters was read. The connection is used again once its last bytes are there."""
        self._done = True
        self._watchdog.stop()
        self._client.finish(self._response)

    def close(self) -> None:
        """Say no more. An answer that is done stays so."""
        self._watchdog.stop()
        if not self._done:
            self._response.close()


class HttpClient:
    """The connections to one provider."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self.endpoint, self._clock = endpoint, clock
        self._session: aiohttp.ClientSession | None = None
        self._finishing: dict[aiohttp.ClientResponse, asyncio.Task[None]] = {}

    async def post(self, path: str, body: bytes, idle: float | None, say: Problems) -> Reply:
        """Send, and wait until an answer begins."""
        watchdog = Watchdog(self._clock, idle or self.endpoint.idle_timeout)
        try:
            async with asyncio.timeout(None) as limit:
                watchdog.guards(limit)
                watchdog.waits()
                response = await self._send(path, body)
            watchdog.heard()
            watchdog.guards(None, response.content)
            return Reply(self, response, watchdog, say)
        except BaseException as error:
            watchdog.stop()
            if watchdog.bitten and isinstance(error, TimeoutError):
                raise say.silent(watchdog.seconds, begun=False) from None
            if isinstance(error, aiohttp.ClientError | OSError):
                raise say.unreachable(error, self.endpoint.connect_timeout) from None
            raise

    async def _send(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        try:
            return await self._once(path, body)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # Most likely a kept connection that the server closed at this very moment: that is no fault of anybody's.
            return await self._once(path, body)

    async def _once(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = self._open()
        url = self.endpoint.url + path
        return await self._session.post(url, data=body, proxy=self.endpoint.proxy, allow_redirects=False)

    def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.endpoint.connections, keepalive_timeout=KEPT_ALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={**HEADERS, **self.endpoint.headers},
            timeout=aiohttp.ClientTimeout(total=None, connect=self.endpoint.connect_timeout),
        )

    def finish(self, response: aiohttp.ClientResponse) -> None:
        """Read what little is left, so that the connection is not lost, while nobody waits for it."""
        if response.content.is_eof():
            response.release()
        else:
            self._finishing[response] = asyncio.create_task(self._finish(response))

    async def _finish(self, response: aiohttp.ClientResponse) -> None:
        try:
            async with asyncio.timeout(LAST_BYTES):
                await response.content.wait_eof()
            response.release()
        except (TimeoutError, aiohttp.ClientError):
            response.close()
        finally:
            self._finishing.pop(response, None)

    async def settled(self) -> None:
        """Return when nothing is left to be read of answers that are done."""
        await asyncio.gather(*self._finishing.values())

    async def close(self) -> None:
        """Let go of all connections."""
        finishing, self._finishing = self._finishing, {}
        for response, task in finishing.items():
            task.cancel()
            response.close()
        await asyncio.gather(*finishing.values(), return_exceptions=True)
        if self._session:
            await self._session.close()
            self._session = None
