"""Which tools an agent gets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from retinue.core.outcome import Effect
from retinue.core.spelling import did_you_mean

ALL = "*"
OF_SERVER = "mcp:"
ALL_OF_SERVERS = f"{OF_SERVER}{ALL}"
PROJECT, BUILT_IN, CLIENT = "project", "builtin", "client"
FINISH = "complete_task"
"""Always there, and never subject to policy: with it an agent gives its answer."""
LONGEST_NAME = 64
_strange = re.compile(r"[^A-Za-z0-9_-]")


class Listed(Protocol):
    """A tool, as those see it who choose among tools and judge their calls."""

    @property
    def name(self) -> str:
        """As people write it in definitions and rules: `lookup`, `mcp:SERVER/TOOL`."""

    @property
    def origin(self) -> str:
        """`project`, `builtin`, `client`, or `mcp:SERVER`."""

    @property
    def effect(self) -> Effect: ...


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool of which no more is known than what a list says."""

    name: str
    origin: str = PROJECT
    effect: Effect = Effect.WRITE


@dataclass(frozen=True, slots=True)
class Selection:
    """The tools that were meant, by name and in order, and what could not be made out."""

    names: tuple[str, ...]
    problems: tuple[str, ...] = ()


def select(
    patterns: Iterable[str] | None,
    available: Collection[Listed],
    *,
    private: Collection[str] = (),
    pending: Collection[str] = (),
    agents: Collection[str] = (),
) -> Selection:
    """The tools that `patterns` mean: names, `*`, `mcp:*`, `mcp:SERVER/*`, `mcp:SERVER/TOOL`.

    None, like `*`, is all of the project's: its functions and its servers' tools. Built-in tools are named. Of the
    agent's own servers (`private`) everything is meant unless something of theirs is named. `pending` are servers
    that have not said yet which tools they have: what is said of theirs is believed. `agents` are names that
    somebody may take for tools.
    """
    said = set(patterns if patterns is not None else (ALL,))
    wanted = said | {f"{OF_SERVER}{server}/{ALL}" for server in private if not _names(said, server)}
    chosen: set[str] = set()
    problems: list[str] = []
    for pattern in sorted(wanted):
        found = [tool.name for tool in available if _means(pattern, tool)]
        chosen.update(found)
        if not found and not _may_be_empty(pattern, {*pending, *private}):
            problems.append(_unknown(pattern, available, {*pending, *private}, agents))
    return Selection(tuple(sorted(chosen)), tuple(problems))


def servers_meant(patterns: Iterable[str] | None, servers: Iterable[str]) -> list[str]:
    """Of the project's servers, those that `patterns` may mean a tool of."""
    said = set(patterns if patterns is not None else (ALL,))
    if said & {ALL, ALL_OF_SERVERS}:
        return list(servers)
    named = {_server(pattern) for pattern in said if pattern.startswith(OF_SERVER)}
    return [server for server in servers if server in named]


def names_for_models(names: Iterable[str]) -> dict[str, str]:
    """Names that every provider takes, for tools by name: letters, digits, `_` and `-`, 64 at most, each once."""
    given: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(names, key=lambda name: (_plain(name) != name, name)):
        plain = _plain(name)
        if plain in taken or len(plain) > LONGEST_NAME:
            plain = f"{plain[: LONGEST_NAME - 9]}_{sha256(name.encode()).hexdigest()[:8]}"
        given[name] = plain
        taken.add(plain)
    return given


def _plain(name: str) -> str:
    return _strange.sub("_", name.removeprefix(OF_SERVER).replace("/", "__"))


def _names(patterns: Iterable[str], server: str) -> bool:
    return any(pattern.startswith(f"{OF_SERVER}{server}/") for pattern in patterns)


def _means(pattern: str, tool: Listed) -> bool:
    of_server = tool.origin.startswith(OF_SERVER)
    if pattern == ALL:
        return of_server or tool.origin == PROJECT
    if pattern == ALL_OF_SERVERS:
        return of_server
    return pattern == tool.name or (of_server and pattern == f"{tool.origin}/{ALL}")


def _may_be_empty(pattern: str, pending: Collection[str]) -> bool:
    """All of nothing is nothing; and who has not said yet what there is, may have it."""
    return pattern in (ALL, ALL_OF_SERVERS) or (pattern.startswith(OF_SERVER) and _server(pattern) in pending)


def _server(pattern: str) -> str:
    return pattern.removeprefix(OF_SERVER).partition("/")[0]


def _unknown(pattern: str, available: Collection[Listed], pending: Collection[str], agents: Collection[str]) -> str:
    if not pattern.startswith(OF_SERVER):
        if pattern in agents:
            return f"{pattern} is an agent, not a tool: name it under `agents`"
        names = {tool.name for tool in available if not tool.origin.startswith(OF_SERVER)}
        return f"there is no tool {pattern}. {did_you_mean(pattern, names)}"
    servers = {tool.origin.removeprefix(OF_SERVER) for tool in available if tool.origin.startswith(OF_SERVER)}
    server, slash, name = pattern.removeprefix(OF_SERVER).partition("/")
    if not slash:
        return f"{pattern} says no tool: write mcp:*, mcp:SERVER/* or mcp:SERVER/TOOL"
    if server not in servers:
        return f"there is no MCP server {server}. {did_you_mean(server, servers | set(pending))}"
    theirs = {tool.name for tool in available if tool.origin == f"{OF_SERVER}{server}"}
    return f"the MCP server {server} has no tool {name}. {did_you_mean(pattern, theirs)}"
