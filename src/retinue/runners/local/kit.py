"""An agent's tools as its model knows them, and what its calls are held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from retinue.core.agent import AgentCode, AgentDefinition
from retinue.core.messages import ToolCall
from retinue.core.schema import Checked, Schema
from retinue.core.tool import FINISH, names_for_models
from retinue.ports.models import ToolSpec
from retinue.ports.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """`specs` are by the names that people write, `tools` and `schemas` by those that the model says."""

    specs: Mapping[str, ToolSpec]
    tools: Mapping[str, Tool]
    schemas: Mapping[str, Schema]
    completion: Schema
    output: Schema
    output_name: str

    @classmethod
    def of(cls, agent: AgentDefinition, code: AgentCode, tools: Sequence[Tool]) -> Kit:
        names = names_for_models([FINISH, *(tool.name for tool in tools)])
        specs = {tool.name: replace(tool.spec, name=names[tool.name]) for tool in tools}
        if agent.finish == "tool":
            specs[FINISH] = _completion(agent)
        return cls(
            specs=specs,
            tools={names[tool.name]: tool for tool in tools},
            schemas={names[tool.name]: Schema(tool.spec.schema) for tool in tools},
            completion=Schema(agent.completion.arguments),
            output=code.output_of(agent),
            output_name=agent.completion.name,
        )

    def and_more(self, more: Iterable[tuple[Tool, Schema]]) -> Kit:
        """With more tools; one whose name is taken is left out."""
        added = [(tool, schema) for tool, schema in more if tool.name not in self.specs and tool.name not in self.tools]
        return replace(
            self,
            specs={**self.specs, **{tool.name: tool.spec for tool, _ in added}},
            tools={**self.tools, **{tool.name: tool for tool, _ in added}},
            schemas={**self.schemas, **{tool.name: schema for tool, schema in added}},
        )

    def named(self, offered: Iterable[str]) -> list[str]:
        """What the model calls the tools that it is offered."""
        return [self.specs[name].name for name in offered if name in self.specs]

    def arguments_of(self, call: ToolCall) -> Checked | str:
        """The arguments of a call with their defaults, or what is wrong with them."""
        if not isinstance(call.arguments, Mapping):
            return "The arguments are no JSON object."
        checked = self.schemas[call.tool].check(call.arguments)
        return checked if checked.fits else f"The arguments do not fit: {checked}."

    def completion_of(self, call: ToolCall) -> Checked | str:
        """What completes the task, with defaults and conversions applied; or what is wrong with it."""
        if not isinstance(call.arguments, Mapping):
            return f"The arguments are no JSON object: {FINISH} takes {{{self.output_name}: …}}."
        checked = self.completion.check(call.arguments)
        if checked.fits and isinstance(checked.value, Mapping):
            inner = self.output.check(checked.value[self.output_name])
            problems = tuple(replace(one, key=(self.output_name, *one.key)) for one in inner.problems)
            checked = Checked(inner.value, problems)
        return checked if checked.fits else f"This does not fit: {checked}. Correct it, and call {FINISH} again."


def _completion(agent: AgentDefinition) -> ToolSpec:
    name = agent.completion.name
    description = f"Give your answer as `{name}`, and end your work. Call it once, when the task is done."
    return ToolSpec(name=FINISH, description=description, schema=agent.completion.arguments)
