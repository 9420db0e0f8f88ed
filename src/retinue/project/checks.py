"""What can only be said of an agent beside all the others: whether what it names is there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from retinue.core.agent import AgentDefinition
from retinue.core.declared import Problem
from retinue.core.spelling import did_you_mean, nearest
from retinue.core.tool import ToolEntry, select

SKILLS, SKILL = "skills", "SKILL.md"
CONTEXTS = ("date", "environment", SKILLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What there is for agents to name. `agents` are all that somebody declared, also those with mistakes."""

    tools: tuple[ToolEntry, ...] = ()
    servers: Collection[str] = ()
    agents: Collection[str] = ()
    folder: Path = field(default_factory=Path)

    def selected(self, agent: AgentDefinition, also: Collection[str] = ()) -> tuple[tuple[str, ...], list[Problem]]:
        """The tools of an agent as far as they are known before a server is connected. `also` are its own."""
        tools = (*self.tools, *map(ToolEntry, also))
        selection = select(agent.tools, tools, private=agent.mcp_servers, pending=self.servers, agents=self.agents)
        return selection.names, [Problem(key=("tools",), text=text) for text in selection.problems]

    def check(self, agent: AgentDefinition) -> Iterator[Problem]:
        for other in agent.agents:
            if other != agent.name and other not in self.agents:
                text = f"there is no agent {other}. {did_you_mean(other, {*self.agents} - {agent.name})}"
                yield Problem(key=("agents",), text=text)
        for child in agent.children:
            if child == agent.name or child not in self.agents:
                text = f"there is no other agent {child}. {did_you_mean(child, {*self.agents} - {agent.name})}"
                yield Problem(key=("children",), text=text)
        for name in sorted({*agent.mcp_servers} & {*self.servers}):
            text = f"the project has a server {name} too; this agent sees its own"
            yield Problem(key=("mcp_servers", name), text=text, warning=True)
        for n, context in enumerate(agent.context):
            if context == SKILLS and not any((self.folder / SKILLS).glob(f"*/{SKILL}")):
                text = f"the project has no skills: write {SKILLS}/NAME/{SKILL}"
                yield Problem(key=("context", n), text=text, warning=True)
            if context not in CONTEXTS and (problem := self._wrong_file(context)):
                yield Problem(key=("context", n), text=problem)

    def _wrong_file(self, context: str) -> str:
        path = (self.folder / context).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            return f"{context} is outside the project"
        if not path.is_file():
            near = f". {did_you_mean(context, CONTEXTS)}" if nearest(context, CONTEXTS) else ""
            return f"{context} is none of {', '.join(CONTEXTS)}, and there is no such file{near}"
        return ""
