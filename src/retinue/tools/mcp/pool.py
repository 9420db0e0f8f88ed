"""The MCP servers of a process: shared ones connected once, private ones for one run alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from retinue.core.mcp import McpServer
from retinue.ports.clock import Clock, SystemClock
from retinue.tools.mcp.common import Common
from retinue.tools.mcp.link import Link
from retinue.tools.mcp.logs import SdkLogs
from retinue.tools.mcp.masks import Masks
from retinue.tools.toolbox import Connected

PATIENCE = 0.5
"""Seconds that a run waits for its private servers to end. Those that take longer are ended all the same, aside."""


class McpPool:
    """Where runs get the tools of MCP servers from (`Servers` of the toolbox).

    `servers` are shared by all runs: each is connected when a run first needs it, and again when it broke. `folder`
    is where programs are started that name no other.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        secrets: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        folder: Path | None = None,
    ) -> None:
        masks = Masks(secrets or {})
        self._common = Common(
            secrets=dict(secrets or {}), masks=masks, clock=clock or SystemClock(), folder=folder or Path()
        )
        self._logs = SdkLogs(masks)
        self._shared = {name: Link(server, self._common) for name, server in servers.items()}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def names(self) -> Sequence[str]:
        """Of those that are shared."""
        return tuple(self._shared)

    @asynccontextmanager
    async def connected(
        self, shared: Sequence[str] = (), private: Sequence[McpServer] = ()
    ) -> AsyncGenerator[Connected]:
        """The tools of shared servers, by name, and of a run's own, which come before shared ones of the same name.

        Servers are connected side by side. One that cannot be had is a problem, in words. What is private is
        connected for this run, seen by no other, and ended with it.
        """
        own = {server.name: Link(server, self._common) for server in private}
        links = {**{name: self._shared[name] for name in shared}, **own}
        try:
            yield await _all_of(links.values())
        finally:
            await self._end(own.values())

    async def close(self) -> None:
        """End all servers. Runs that still have some are told so at their next call."""
        await self._end(self._shared.values())
        while self._ending:
            await asyncio.wait(self._ending)
        self._logs.close()

    async def _end(self, links: Iterable[Link]) -> None:
        tasks = {task for link in links for task in link.end()}
        for task in tasks:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)


async def _all_of(links: Iterable[Link]) -> Connected:
    async with asyncio.TaskGroup() as group:
        offers = [group.create_task(link.offer()) for link in links]
    found = [offer.result() for offer in offers]
    return Connected(
        tools=[tool for tools, _ in found for tool in tools],
        problems=[problem for _, problems in found for problem in problems],
    )
