"""What an agent can call: Python functions, tools of MCP servers, what comes with Retinue, and what a client has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from retinue.core.agent import AgentCode, AgentDefinition
from retinue.core.outcome import Effect
from retinue.ports.models import ToolSpec
from retinue.ports.store import RunRow


@dataclass(frozen=True, slots=True)
class Done:
    """What a `check` gives when the call did take effect."""

    result: object = None


Check = Callable[[str], Awaitable[Done | None]]
"""Asks the outside world by idempotency key whether a call took effect: `Done`, or None when it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Bytes that a tool gives: an image, a recording, a document."""

    data: bytes
    media_type: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """A result that is more than a value: texts and bytes, in order."""

    parts: tuple[str | Blob, ...]


class ToolContext(Protocol):
    """What a tool may know and do beside its arguments."""

    @property
    def run_id(self) -> str: ...

    @property
    def call_id(self) -> str: ...

    @property
    def idempotency_key(self) -> str:
        """The same for every try of this call, also after a crash."""

    @property
    def deadline(self) -> int | None:
        """When the run is stopped, in milliseconds since 1970."""

    def progress(self, message: str = "", *, done: float | None = None, of: float | None = None) -> None:
        """Let people who watch see how far it is. Nothing of it is kept."""

    async def ask(self, question: str, schema: Mapping[str, object] | None = None) -> object:
        """Ask a person. Ask before anything takes effect: the run may wait for days, and then the tool is called again
        from the top, and this gives the answer at once."""

    async def artifact(self, data: bytes, media_type: str, name: str = "") -> str:
        """Keep a file as a result of the run; give its URI."""


class Tool(Protocol):
    """One tool, ready to be called.

    `spec.name` is the name as people write it in definitions and rules: `lookup`, `mcp:SERVER/TOOL`.
    """

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def name(self) -> str:
        """That of its spec."""

    @property
    def origin(self) -> str:
        """`project`, `builtin`, `client`, or `mcp:SERVER`."""

    @property
    def effect(self) -> Effect: ...

    @property
    def timeout(self) -> float | None:
        """Seconds that a call may take; None leaves it to the agent."""

    @property
    def check(self) -> Check | None: ...

    @property
    def stops(self) -> bool:
        """Whether cancelling a call stops it. Of a function in a thread it does not: the call is given up at once, what
        it does goes on, and its result is lost. Who wants that result waits."""

    async def call(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        """A JSON value, or `Content`. Raises `ToolFailed` with words for the model; whatever else it raises is told
        by its kind and first line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """The tools of one run, and what its agent is told beside its instructions.

    `problems` says what could not be had: a server that does not answer.
    """

    tools: Sequence[Tool] = ()
    briefing: str = ""
    problems: Sequence[str] = ()


class Workspaces(Protocol):
    """The folders that trees of runs work in."""

    async def forget(self, root_run_id: str) -> None:
        """Delete what a tree left. Of one that left nothing, nothing is deleted."""


class Tools(Protocol):
    """Where runs get their tools from."""

    def open(self, definition: AgentDefinition, code: AgentCode, run: RunRow) -> AbstractAsyncContextManager[Toolbox]:
        """All that the agent has, connected; what was opened for this run alone is closed at the end."""
