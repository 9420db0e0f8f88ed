"""The agents of a process, from files and from Python, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from retinue.core.agent import AgentCode, AgentDefinition
from retinue.core.mcp import McpServer
from retinue.core.references import resolve
from retinue.core.spelling import did_you_mean
from retinue.errors import BadDefinition, BadTarget, UnknownTarget
from retinue.project.checks import Surroundings
from retinue.project.python import Agent
from retinue.project.servers import read_servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """An agent that can be run, and where it comes from: a file, or Python."""

    definition: AgentDefinition
    code: AgentCode = field(default_factory=AgentCode)
    file: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """Agents by name. `broken` says of those that are declared wrongly what is wrong with them."""

    declared: Mapping[str, Declared] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    surroundings: Surroundings = field(default_factory=Surroundings)
    variables: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.declared))

    def agent(self, name: str) -> AgentDefinition:
        return self._find(name).definition

    def platform(self, name: str) -> str:
        return self.agent(name).platform

    def code(self, name: str) -> AgentCode:
        return self._find(name).code

    def servers(self, definition: AgentDefinition) -> tuple[McpServer, ...]:
        entries = resolve(definition.mcp_servers, self.variables, keep=True).value
        assert isinstance(entries, Mapping)
        return tuple(read_servers(entries, ())[0].values())

    def _find(self, name: str) -> Declared:
        if found := self.declared.get(name):
            return found
        if name in self.broken:
            raise BadTarget(
                target=f"agent:{name}", problem=f"{self.broken[name].rstrip('.')}. `retinue agents check` says more."
            )
        raise UnknownTarget(target=f"agent:{name}", problem=f"no such agent. {did_you_mean(name, self.declared)}")

    def and_from_python(self, agents: Iterable[Agent]) -> Agents:
        """These and more. Raises `BadDefinition` when one names what is not there, or is there already."""
        more = {agent.name: agent for agent in agents}
        surroundings = replace(self.surroundings, agents=frozenset({*self.surroundings.agents, *more}))
        declared = dict(self.declared)
        for name, agent in more.items():
            if name in self.surroundings.agents:
                raise BadDefinition(what=f"Agent {name}", problem="the project has an agent of that name")
            declared[name] = _checked(agent, surroundings)
        return replace(self, declared=declared, surroundings=surroundings)


def _checked(agent: Agent, surroundings: Surroundings) -> Declared:
    tools, problems = surroundings.selected(agent.definition, agent.code.tools)
    problems += surroundings.check(agent.definition)
    if wrong := [str(problem) for problem in problems if not problem.warning]:
        raise BadDefinition(what=f"Agent {agent.name}", problem="; ".join(wrong))
    return Declared(definition=agent.definition, code=agent.code, tools=tools)
