"""A declared server, with at most one connection to it, which is made when it is needed and again when it broke."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from retinue.core.mcp import McpServer
from retinue.errors import ExtraMissing, ToolFailed
from retinue.ports.tools import Tool
from retinue.tools.mcp.common import Common
from retinue.tools.mcp.filled import filled
from retinue.tools.mcp.reasons import BrokenOff
from retinue.tools.mcp.waiting import at_most

if TYPE_CHECKING:
    from mcp import Client

    from retinue.tools.mcp.session import Session

T = TypeVar("T")
Offer = tuple[Sequence[Tool], Sequence[str]]
PATIENCE = 3.5
"""Seconds for which a call waits for a server that just failed to be tried again: twice, after one and two seconds."""
LONGEST_DELAY = 60.0
MOMENT = 1.0


class _Forgotten(ToolFailed):
    """{message}"""  # nothing was done: the call can be made again in a new session


class Link:
    """Nobody connects twice at once; who fails is left alone for a while, longer each time."""

    def __init__(self, server: McpServer, common: Common) -> None:
        self.declared, self.masks, self.clock = server, common.masks, common.clock
        self._common = common
        self._lock = asyncio.Lock()
        self._session: Session | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures, self._not_before, self._problem = 0, 0, ""
        self._closed = False
        self._offer: Offer | None = None

    @property
    def name(self) -> str:
        return self.declared.name

    async def ask(self, act: Callable[[Client], Awaitable[T]]) -> T:
        """Have the server do something. Raises `ToolFailed`, in words that name the server."""
        try:
            return await self._asked(act)
        except _Forgotten:
            return await self._asked(act)

    async def _asked(self, act: Callable[[Client], Awaitable[T]]) -> T:
        session = await self.session(PATIENCE)
        try:
            return await act(session.client)
        except Exception as error:  # around a call: whatever comes of it is told to the model
            raise await self._failed(session, error) from None

    async def _failed(self, session: Session, error: Exception) -> ToolFailed:
        if session.is_forgotten(error):
            session.end()
            return _Forgotten(f"The MCP server {self.name} does not know the session that it has just begun")
        if session.is_broken(error):
            why = await session.over_for(MOMENT) or session.reason(error)
            return BrokenOff(f"The MCP server {self.name} broke off during the call: {why}")
        return ToolFailed(f"The MCP server {self.name} failed: {session.reason(error)}")

    async def offer(self) -> Offer:
        """Its tools, and what cannot be had of them and why."""
        try:
            try:
                return await self._listed()
            except (_Forgotten, BrokenOff):  # that it had ended was noticed only now
                return await self._listed()
        except ToolFailed as error:
            return (), [str(error)]

    async def _listed(self) -> Offer:
        """What it listed before, if it would have told of a change."""
        session = await self.session()
        if self._offer is not None and not session.outdated:
            return self._offer
        try:
            with at_most(self._common.clock, self.declared.start_timeout):
                self._offer = await session.offer(self)
        except TimeoutError:
            seconds = self.declared.start_timeout
            raise ToolFailed(f"The MCP server {self.name} did not say within {seconds:g} s what it offers") from None
        except Exception as error:  # around a call: what a server lists may be anything
            raise await self._failed(session, error) from None
        return self._offer

    async def session(self, patience: float = 0.0) -> Session:
        """The connection. Raises `ToolFailed` when there is none, and none can be had within the time."""
        async with self._lock:
            while self._session is None or not self._session.alive:
                if self._closed:
                    raise ToolFailed(f"The MCP server {self.name} was closed")
                wait = max(0.0, (self._not_before - self._common.clock.now_ms()) / 1000)
                if wait > patience:
                    raise ToolFailed(self._problem)
                patience -= wait
                await self._common.clock.sleep(wait)
                self._session = await self._connect()
            return self._session

    async def _connect(self) -> Session | None:
        problem = ""
        try:
            session = await self._begin()
        except (ToolFailed, ExtraMissing) as error:
            problem = str(error)
        else:
            why = await self._ready(session)
            if not why:
                self._failures = 0
                return session
            problem = f"The MCP server {self.name} cannot be had: {why}"
        self._failures += 1
        self._problem = problem
        delay = min(LONGEST_DELAY, 2.0 ** (self._failures - 1))
        self._not_before = self._common.clock.now_ms() + round(delay * 1000)
        return None

    @staticmethod
    async def _ready(session: Session) -> str:
        try:
            return await session.ready()
        except asyncio.CancelledError:
            session.end()
            raise

    async def _begin(self) -> Session:
        """Importing the SDK takes a second, so it is done aside, where it is needed first."""
        server = filled(self.declared, self._common.secrets)
        make = await asyncio.to_thread(_session_class)
        session = self._session = make(server, self._common)
        self._tasks.add(session.task)
        session.task.add_done_callback(self._tasks.discard)
        if self._closed:
            session.end()
        return session

    def end(self) -> set[asyncio.Task[None]]:
        """Never connect again, and end what there is; give what is to be waited for."""
        self._closed = True
        if self._session is not None:
            self._session.end()
        return set(self._tasks)


def _session_class() -> type[Session]:
    try:
        from retinue.tools.mcp.session import Session
    except ImportError as error:
        raise ExtraMissing(what="An MCP server", extra="mcp") from error
    return Session
