"""What is declared, as runners see it."""

from __future__ import annotations

from typing import Protocol

from retinue.core.agent import AgentCode, AgentDefinition
from retinue.core.graph.definition import GraphDefinition
from retinue.core.mcp import McpServer


class Graphs(Protocol):
    """The graphs of this process, by name."""

    def graph(self, name: str) -> GraphDefinition:
        """The graph as it is declared now. Raises `UnknownTarget` with the nearest names, or `BadTarget`."""


class Definitions(Protocol):
    """The agents of this process, by name."""

    def names(self) -> tuple[str, ...]:
        """Those that can be run, in order."""

    def agent(self, name: str) -> AgentDefinition:
        """The agent as it is declared now. Raises `UnknownTarget` with the nearest names, or `BadTarget`."""

    def code(self, name: str) -> AgentCode:
        """What of that agent only Python has. Raises as `agent` does."""

    def servers(self, definition: AgentDefinition) -> tuple[McpServer, ...]:
        """The servers that an agent has for itself. What is secret in them is still a reference, `${secret:NAME}`."""
