"""MCP servers whose package is loaded when one is first wanted: most runs want none, and it takes long to load."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from retinue.core.mcp import McpServer
from retinue.errors import ExtraMissing
from retinue.ports.clock import Clock
from retinue.tools.toolbox import Connected

if TYPE_CHECKING:
    from retinue.tools.mcp.pool import McpPool


class LateServers:
    """The servers of a project, and those of its agents (`Servers` of the toolbox)."""

    def __init__(
        self, servers: Mapping[str, McpServer], secrets: Mapping[str, str], clock: Clock, folder: Path
    ) -> None:
        self._servers, self._secrets, self._clock, self._folder = servers, secrets, clock, folder
        self._pool: McpPool | None = None

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._servers)

    @asynccontextmanager
    async def connected(self, shared: Sequence[str], private: Sequence[McpServer]) -> AsyncGenerator[Connected]:
        try:
            pool = self._loaded()
        except ImportError:
            names = ", ".join([*shared, *(server.name for server in private)])
            yield Connected(problems=[str(ExtraMissing(what=f"MCP ({names})", extra="mcp"))])
            return
        async with pool.connected(shared, private) as found:
            yield found

    def _loaded(self) -> McpPool:
        if self._pool is None:
            from retinue.tools.mcp.pool import McpPool  # see above

            self._pool = McpPool(self._servers, self._secrets, self._clock, self._folder)
        return self._pool

    async def close(self) -> None:
        if self._pool:
            await self._pool.close()
