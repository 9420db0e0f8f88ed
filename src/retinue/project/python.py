"""Agents that are declared in Python: `Agent(...)`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from retinue.core.agent import AgentCode
from retinue.core.declared import Problem
from retinue.core.messages import Message
from retinue.core.schema import Checked, Convert
from retinue.errors import BadDefinition
from retinue.ports.code import digest_of
from retinue.project.declare import declare

Table = Mapping[str, Any]


class AgentKeys(TypedDict, total=False):
    """What an agent may declare. The keys are those of a file in `agents/`."""

    description: str
    platform: str
    card: str | Table
    resource: str
    entrypoint: str
    config: str
    model: str
    settings: Table
    instructions: str
    messages: Sequence[Message | Table]
    query: str
    input: Table | type
    output: Table | type
    tools: Sequence[object]
    agents: Sequence[str]
    children: Sequence[str]
    mcp_servers: Mapping[str, Table]
    limits: Table
    policy: Sequence[Table]
    context: Sequence[str]
    memory: Literal["answers", "transcripts"]
    finish: Literal["tool", "text"]
    on_unknown: Literal["tell", "ask", "retry", "fail"]
    steps: int
    fallback_models: Sequence[str]
    retry: Table
    when_done: Literal["wait", "detach", "cancel"]
    on_change: Literal["fail", "finish", "wait"]
    export: bool
    durability: Literal["effects", "restart"]
    cache: float | str


class Agent:
    """An agent: what it is told, what it may use, what it has to give. Wrong keys are `BadDefinition`, all at once.

    `tools` are names or tools themselves; `input` and `output` JSON schemas or Pydantic models. `output` may also be
    `{"name": …, "schema": …}`, with the name that the model is to give its answer by.
    """

    def __init__(self, name: str, **keys: Unpack[AgentKeys]) -> None:
        taken = _Taken()
        declared = taken.plain({"name": name, **keys})
        definition, problems = declare(declared, strict=True)
        if definition is None or taken.problems:
            wrong = [str(problem) for problem in (*taken.problems, *problems) if not problem.warning]
            raise BadDefinition(what=f"Agent {name}", problem="; ".join(wrong))
        self.problems = tuple(problems)
        self.definition = msgspec.structs.replace(definition, **taken.types)
        self.code = AgentCode(
            tools=taken.tools,
            input=taken.converts.get("input"),
            output=taken.converts.get("output"),
            digests=taken.digests,
        )

    @property
    def name(self) -> str:
        return self.definition.name

    def __repr__(self) -> str:
        return f"<agent {self.name}>"


class _Taken:
    """What is taken out of an agent's keys because only Python has it."""

    def __init__(self) -> None:
        self.tools: dict[str, object] = {}
        self.types: dict[str, str] = {}
        self.converts: dict[str, Convert] = {}
        self.digests: dict[str, str] = {}
        self.problems: list[Problem] = []

    def plain(self, keys: dict[str, Any]) -> dict[str, object]:
        """The keys as a file would have them."""
        said = {name: value for name, value in keys.items() if value is not None}
        if "tools" in said:
            said["tools"] = self._names(said["tools"])
        if "input" in said:
            said["input"] = self._schema("input", said["input"])
        if is_model(said.get("output")):
            said["output"] = {"schema": said["output"]}
        if isinstance(output := said.get("output"), Mapping) and "schema" in output:
            said["output"] = {**output, "schema": self._schema("output", output["schema"])}
        plain: dict[str, object] = {}
        for name, value in said.items():
            try:
                plain[name] = msgspec.to_builtins(value)
            except TypeError:
                self.problems.append(
                    Problem(key=(name,), text=f"a {type(value).__name__} cannot be part of a definition")
                )
        return plain

    def _names(self, tools: object) -> object:
        if isinstance(tools, str) or not isinstance(tools, Sequence):
            return tools
        return [tool if isinstance(tool, str) else self._tool(n, tool) for n, tool in enumerate(tools)]

    def _tool(self, place: int, tool: object) -> str:
        name = name_of_tool(tool)
        if name is None:
            what = getattr(tool, "__name__", None) or type(tool).__name__
            self.problems.append(Problem(key=("tools", place), text=f"{what} is no tool: put @tool above it"))
            return ""
        if self.tools.setdefault(name, tool) is not tool:
            self.problems.append(Problem(key=("tools", place), text=f"there are two tools named {name}"))
        self.digests[name] = digest_of_tool(tool)
        return name

    def _schema(self, key: str, given: object) -> object:
        if not is_model(given):
            return given
        model: Any = given
        path = f"{model.__module__}:{model.__qualname__}"
        self.types[f"{key}_type"] = path
        self.converts[key] = _conversion(model)
        file = getattr(sys.modules.get(model.__module__), "__file__", None) or ""
        self.digests[path] = digest_of(file) if file.endswith(".py") and Path(file).exists() else ""
        return model.model_json_schema()


def name_of_tool(value: object) -> str | None:
    """The name of a tool; nothing when it is none."""
    name = getattr(getattr(value, "spec", None), "name", None)
    return name if isinstance(name, str) and not isinstance(value, type) else None


def digest_of_tool(tool: object) -> str:
    return str(getattr(tool, "digest", ""))


def is_model(value: object) -> bool:
    """Whether it is a Pydantic model. Pydantic is not loaded to find out: who has one has loaded it."""
    return isinstance(value, type) and hasattr(value, "model_json_schema") and hasattr(value, "model_validate_json")


def _conversion(model: Any) -> Convert:
    def convert(value: object) -> Checked:
        try:
            made = model.model_validate_json(msgspec.json.encode(value))
        except ValueError as error:
            if not hasattr(error, "errors"):
                raise
            return Checked(value, tuple(_problem(one) for one in error.errors()))
        return Checked(made.model_dump(mode="json", by_alias=True))

    return convert


def _problem(error: Mapping[str, Any]) -> Problem:
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return Problem(key=tuple(error["loc"]), text=text)
