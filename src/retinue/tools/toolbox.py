"""Everything that agents can call, put together for each run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from retinue.core.agent import AgentCode, AgentDefinition
from retinue.core.briefing import Skill
from retinue.core.mcp import McpServer
from retinue.core.tool import ALL, BUILT_IN, FINISH, OF_SERVER, Listed, ToolEntry, select, servers_meant
from retinue.files.config import FilesConfig
from retinue.ports.definitions import Definitions
from retinue.ports.store import RunRow
from retinue.ports.threads import Threads
from retinue.ports.tools import Tool, Toolbox
from retinue.tools.builtin.catalog import NAMES, implied, tools_of
from retinue.tools.builtin.context import brief
from retinue.tools.builtin.workspace import Workspaces
from retinue.tools.functions import FunctionTool

NEEDS_NOTHING = ("date",)
"""Of `context`, what the run itself knows."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The tools of servers that were asked for, and what is wrong with those that could not be had."""

    tools: Sequence[Tool] = ()
    problems: Sequence[str] = ()


class Servers(Protocol):
    """MCP servers: the project's, which runs share, and those of one agent."""

    @property
    def names(self) -> Sequence[str]:
        """The project's."""

    def connected(
        self, shared: Sequence[str], private: Sequence[McpServer]
    ) -> AbstractAsyncContextManager[Connected]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectParts:
    """What of a project its agents can use."""

    folder: Path = field(default_factory=Path)
    tools: Mapping[str, object] = field(default_factory=dict)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    files: FilesConfig = field(default_factory=FilesConfig)


class AgentTools:
    """Where runs get their tools from (the port `Tools`)."""

    def __init__(
        self, definitions: Definitions, project: ProjectParts, workspaces: Workspaces, servers: Servers | None = None
    ) -> None:
        self._definitions, self._project, self._workspaces = definitions, project, workspaces
        self._servers = servers
        self._threads = Threads()
        self._own: dict[object, Tool] = {}
        self._plain: dict[str, Toolbox] = {}

    @asynccontextmanager
    async def open(self, definition: AgentDefinition, code: AgentCode, run: RunRow) -> AsyncIterator[Toolbox]:
        if plain := self._plain.get(definition.digest):
            yield plain
            return
        async with AsyncExitStack() as closing:
            connected, asked = Connected(), False
            if self._servers:
                private = self._definitions.servers(definition)
                shared = servers_meant(definition.tools, self._servers.names)
                if asked := bool(private or shared):
                    connected = await closing.enter_async_context(self._servers.connected(shared, private))
            box = await self._box(definition, code, run, connected)
            if not asked and not box.briefing and all(tool.origin != BUILT_IN for tool in box.tools):
                self._plain[definition.digest] = box  # it is the same for each run
            yield box

    async def _box(self, definition: AgentDefinition, code: AgentCode, run: RunRow, connected: Connected) -> Toolbox:
        said = definition.tools if definition.tools is not None else (ALL,)
        objects = {pattern: self._in_threads(tool) for pattern, tool in code.tools.items()}
        patterns = [objects[pattern].name if pattern in objects else pattern for pattern in said]
        known = {tool.name: tool for tool in (*self._project_tools(), *objects.values(), *connected.tools)}
        available: list[Listed] = [*known.values(), *(ToolEntry(name, BUILT_IN) for name in NAMES if name not in known)]
        chosen = select(
            (*patterns, *implied(definition.context)),
            available,
            private=definition.mcp_servers,
            pending=self._silent(connected),
        )
        problems = [*connected.problems, *chosen.problems]
        if FINISH in chosen.names:
            problems.append(f"a tool cannot be called {FINISH}: that name is taken. It is left out.")
        names = [name for name in chosen.names if name != FINISH]
        workspace = self._workspaces.of(run.root_id, _source(run))
        if any(name not in known for name in names):
            await workspace.begin()
            built_in = tools_of(workspace, self._project.skills, self._project.files)
            known = {**{tool.name: tool for tool in built_in}, **known}
        briefing = ""
        if any(name not in NEEDS_NOTHING for name in definition.context):
            briefing = await brief(
                definition.context,
                project=self._project.folder,
                skills=self._project.skills,
                workspace=workspace,
                tools=names,
            )
        return Toolbox(tools=tuple(known[name] for name in names), briefing=briefing, problems=tuple(problems))

    def _silent(self, connected: Connected) -> list[str]:
        """Servers of the project with no tool here. Why one is missing was said where it was asked."""
        heard = {tool.origin for tool in connected.tools}
        return [name for name in (self._servers.names if self._servers else ()) if f"{OF_SERVER}{name}" not in heard]

    def _project_tools(self) -> Iterator[Tool]:
        return (self._in_threads(tool) for tool in self._project.tools.values())

    def _in_threads(self, tool: object) -> Tool:
        """A tool that blocks does so in threads that all runs share."""
        if tool not in self._own:
            own: Any = tool
            self._own[tool] = own.within(self._threads) if isinstance(tool, FunctionTool) else own
        return self._own[tool]


def _source(run: RunRow) -> str | None:
    """The run whose workspace a tree goes on with."""
    return run.source_run_id if run.id == run.root_id and run.source_seq != 0 else None
