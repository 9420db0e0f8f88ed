"""Something that a server offers, as a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from retinue.core.mcp import McpServer
from retinue.core.notes import unknown
from retinue.core.outcome import Effect
from retinue.core.tool import OF_SERVER
from retinue.errors import ToolFailed
from retinue.ports.models import ToolSpec
from retinue.ports.tools import Check, ToolContext
from retinue.tools.mcp.masks import Masks
from retinue.tools.mcp.reasons import BrokenOff

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")


class Server(Protocol):
    """A declared server, as its tools know it: connected or not."""

    @property
    def declared(self) -> McpServer: ...

    @property
    def masks(self) -> Masks: ...

    async def ask(self, act: Callable[[Client], Awaitable[T]]) -> T:
        """Have it do something. Raises `ToolFailed`, in words that name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """See `retinue.ports.tools.Tool`. Cancelling a call tells the server to stop."""

    spec: ToolSpec
    server: McpServer
    effect: Effect
    run: Callable[[Mapping[str, object], ToolContext], Awaitable[object]]
    check: Check | None = None
    stops: bool = True

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def origin(self) -> str:
        return f"{OF_SERVER}{self.server.name}"

    @property
    def timeout(self) -> float:
        return self.server.timeout

    async def call(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        try:
            return await self.run(arguments, context)
        except BrokenOff as error:
            note = f". {unknown(self.name)}" if self.effect is Effect.WRITE else ""
            raise ToolFailed(f"{error}{note}") from None


def name_of(server: McpServer, offered: str) -> str:
    return f"{OF_SERVER}{server.name}/{offered}"
