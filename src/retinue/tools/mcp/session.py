"""One connection to a server, from its start to its end."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.types import (
    CONNECTION_CLOSED,
    Implementation,
    PromptListChangedNotification,
    ToolListChangedNotification,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from retinue.core.mcp import McpServer
from retinue.tools.mcp.common import Common
from retinue.tools.mcp.offer import offer_of
from retinue.tools.mcp.program import program
from retinue.tools.mcp.reasons import reason_of, short
from retinue.tools.mcp.tool import Server, ServerTool
from retinue.tools.mcp.watch import Watch
from retinue.tools.mcp.website import website

END_SECONDS = 5.0
"""How long taking leave of a server may take, besides ending its process."""
CHANGED = (ToolListChangedNotification, PromptListChangedNotification)
BROKEN = ("Connection closed", "SSE stream")
"""How the SDK begins what it says of a connection that is gone. The code alone is used by servers for other things."""


class Session:
    """A server that is connected. Its task holds the connection: the SDK's task groups have to be left by who entered
    them. Everybody else only uses `client`."""

    def __init__(self, server: McpServer, common: Common) -> None:
        self._server, self._common = server, common
        self._watch = Watch(server.name, common.masks, self.end)
        self._over = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._client: Client | None = None
        self.why = ""
        """Why it came to an end, if nobody wanted it to."""
        self.outdated = True
        """Whether it may list others than it did last. One that does not tell of changes always may."""
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # In a context of its own: what the run that happens to come first has in its context is not for others.
        self.task = asyncio.create_task(self._live(), name=f"MCP server {server.name}", context=contextvars.Context())

    @property
    def alive(self) -> bool:
        return self._client is not None and not self._over.is_set()

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    async def ready(self) -> str:
        """Wait until it is connected, or why it is not."""
        await asyncio.wait({self._ready, self.task}, return_when=asyncio.FIRST_COMPLETED)
        return "" if self.alive else self.why or "it was closed"

    def end(self, why: str = "") -> None:
        """Let it come to its end; `task` is done then."""
        self.why = self.why or why
        self._over.set()
        if self._client is None:
            self._scope.cancel()

    async def over_for(self, seconds: float) -> str:
        """Why it has ended, for who was told by the connection that it has."""
        await asyncio.wait({self.task}, timeout=seconds)
        return self.why

    @staticmethod
    def is_broken(error: Exception) -> bool:
        """Whether a call failed because the connection did."""
        return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED and error.message.startswith(BROKEN)

    def is_forgotten(self, error: Exception) -> bool:
        """Whether a call was refused because the server has begun anew."""
        return isinstance(error, MCPError) and self._watch.forgotten

    def reason(self, error: Exception) -> str:
        """Why a call failed."""
        return f"{self._words(error)}{self._watch.refused()}"

    def _words(self, error: Exception) -> str:
        return short(self._common.masks.hide(reason_of(error)))

    async def offer(self, server: Server) -> tuple[list[ServerTool], list[str]]:
        """See `offer_of`; `server` is who the tools ask when they are called."""
        self.outdated = not self._tells()
        try:
            return await offer_of(server, self.client)
        except BaseException:
            self.outdated = True
            raise

    def _tells(self) -> bool:
        """Whether it says unasked when its lists change."""
        can = self.client.server_capabilities
        if self.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return False
        return all(one is None or one.list_changed for one in (can.tools, can.prompts))

    async def _live(self) -> None:
        try:
            with self._scope:
                await self._connected()
        except Exception as error:  # whatever a server or the SDK does: it is the end of this connection alone
            self.end(f"{self._words(error)}{self._watch.remarks()}")
        finally:
            self._over.set()

    async def _connected(self) -> None:
        timer = self._common.clock.call_later(self._server.start_timeout, self._too_late)
        try:
            async with Client(
                self._transport(),
                client_info=Implementation(name="retinue", version=version("retinue")),
                message_handler=self._told,
            ) as client:
                timer.cancel()
                self._client = client
                self._ready.set_result(None)
                await self._over.wait()
                self._scope.deadline = anyio.current_time() + END_SECONDS
        finally:
            timer.cancel()

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        if self._server.command is not None:
            return program(self._server, self._common.folder, self._watch)
        return website(self._server, self._common, self._watch)

    def _too_late(self) -> None:
        self.end(f"it was not ready within {self._server.start_timeout:g} s{self._watch.remarks()}")

    async def _told(self, message: IncomingMessage) -> None:
        if isinstance(message, CHANGED):
            self.outdated = True
