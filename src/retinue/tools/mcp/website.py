"""A server that is reached over streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from retinue.core.mcp import McpServer
from retinue.tools.mcp.common import Common
from retinue.tools.mcp.oauth import let_in
from retinue.tools.mcp.watch import Watch

LONGEST_MESSAGE = 32 * 1024 * 1024
CONNECT_SECONDS = 30.0
SLACK = 30.0
"""Seconds of silence, beyond the longest call, after which a connection counts as dead."""
STREAM = "text/event-stream"


@asynccontextmanager
async def website(server: McpServer, common: Common, watch: Watch) -> AsyncGenerator[TransportStreams]:
    """The connection, as the two streams of a session. Nothing is sent before the first request."""
    assert server.url is not None

    async def seen(response: httpx2.Response) -> None:
        _note(response, watch)
        if response.is_success and not response.headers.get("content-type", "").startswith(STREAM):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream)

    async with httpx2.AsyncClient(
        headers=dict(server.headers),
        auth=let_in(server, common),
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=server.timeout + SLACK),
        event_hooks={"response": [seen]},
    ) as client:
        connected = streamable_http_client(server.url, http_client=client, max_sse_event_size=LONGEST_MESSAGE)
        async with connected as streams:
            yield streams


def _note(response: httpx2.Response, watch: Watch) -> None:
    """What a server that has begun anew says of a session is 404, as it should be, or 400."""
    request = response.request
    refused = response.status_code >= 400
    watch.refusal = f"{response.status_code} {response.reason_phrase}".strip() if refused else ""
    if request.method == "POST" and MCP_SESSION_ID in request.headers:
        watch.forgotten = response.status_code in (400, 404)


class _Bounded(httpx2.AsyncByteStream):
    """An answer that ends when it grows too long."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > LONGEST_MESSAGE:
                raise httpx2.StreamError(f"it has more than {LONGEST_MESSAGE // 2**20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
