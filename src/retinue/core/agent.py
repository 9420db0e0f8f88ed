"""An agent as it is declared: a value, the same in a file, in Python and in the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec

from retinue.core.declared import Count, Key, Name, Names, Positive, Problem, Seconds, Written
from retinue.core.digest import digest_of
from retinue.core.messages import Message, Text
from retinue.core.outcome import Durability
from retinue.core.policy import Rule
from retinue.core.schema import Convert, Schema, as_part
from retinue.core.tool import ALL

LOCAL = "local"
PLATFORM_KEYS: dict[str, tuple[str, ...]] = {
    LOCAL: (),
    "a2a": ("card",),
    "vertex": ("resource",),
    "adk": ("entrypoint", "config"),
}
"""The platforms that come with Retinue, and the keys of which each needs one."""


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent has to give in the end: the one argument of `complete_task`, by name and JSON schema."""

    schema: dict[str, Any]
    name: Name = "result"

    @property
    def arguments(self) -> dict[str, object]:
        """The JSON schema of the arguments of `complete_task`."""
        inner, definitions = as_part(self.schema, f"#/properties/{self.name}")
        return {
            "type": "object",
            "properties": {self.name: inner},
            "required": [self.name],
            "additionalProperties": False,
            **definitions,
        }


SOME_TEXT = Output(schema={"type": "string", "pattern": r"\S"})


class AgentLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much an agent may take. Times are seconds where they do not say minutes; null is without limit."""

    max_turns: Positive | None = 30
    max_minutes: Annotated[float, msgspec.Meta(gt=0)] | None = 10.0
    grace_seconds: Seconds = 60.0
    turn_timeout: Seconds = 120.0
    idle_timeout: Seconds = 60.0
    max_tool_calls: Positive | None = None
    max_tokens: Positive | None = None
    max_cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    max_depth: Count = 3
    max_children: Count = 50


class AgentRetry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often a model is asked again, and after how many seconds."""

    tries: Positive = 3
    first_delay: Seconds = 1.0
    longest_delay: Seconds = 30.0


def turns(value: object) -> object:
    """Few-shot turns; `text: …` is short for one text part."""
    if not isinstance(value, list | tuple):
        return value
    return [_turn(turn) for turn in value]


def _turn(turn: object) -> object:
    if not isinstance(turn, Mapping) or "text" not in turn or "parts" in turn:
        return turn
    return {name: said for name, said in turn.items() if name != "text"} | {
        "parts": [{"kind": "text", "text": turn["text"]}]
    }


def lasting(value: object) -> object:
    """A length of time, or that there is none: `off`."""
    return None if value is False or value == "off" else value


def in_order(value: object) -> object:
    """A list, or one text; each entry once, where it came first."""
    said = [value] if isinstance(value, str) else value
    return (
        list(dict.fromkeys(said)) if isinstance(said, list | tuple) and all(isinstance(s, str) for s in said) else said
    )


class AgentDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """An agent as declared. Sets of names are sorted, so that the same agent has the same digest however it is written.

    What is left out is not in its JSON: a key that comes with a later release changes no digest.
    """

    name: Name
    description: str = ""
    platform: str = LOCAL
    card: str | dict[str, Any] | None = None
    resource: Written | None = None
    entrypoint: Written | None = None
    config: Written | None = None
    model: Written | None = None
    settings: dict[str, Any] = {}
    instructions: str = ""
    messages: Annotated[tuple[Message, ...], turns] = ()
    query: Written | None = None
    input: dict[str, Any] | None = None
    output: Output | None = None
    tools: Names | None = None
    agents: Names = ()
    children: Annotated[tuple[str, ...], in_order] = ()
    """Agents that come after it in the tree that `graph:NAME` is then."""
    mcp_servers: dict[str, dict[str, Any]] = {}
    limits: AgentLimits = AgentLimits()
    policy: tuple[Rule, ...] = ()
    context: Annotated[tuple[str, ...], in_order] = ("date",)
    memory: Literal["answers", "transcripts"] = "answers"
    finish: Literal["tool", "text"] = "tool"
    on_unknown: Literal["tell", "ask", "retry", "fail"] = "tell"
    steps: Count = 1
    fallback_models: Annotated[tuple[str, ...], in_order] = ()
    retry: AgentRetry | None = None
    when_done: Literal["wait", "detach", "cancel"] = "wait"
    on_change: Literal["fail", "finish", "wait"] = "fail"
    export: bool = False
    durability: Durability | None = None
    cache: Annotated[Seconds | None, lasting] = None
    input_type: str = ""
    output_type: str = ""

    @property
    def completion(self) -> Output:
        """What it has to give, also when it does not say."""
        return self.output or SOME_TEXT

    @cached_property
    def digest(self) -> str:
        """The same for the same definition."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, object]:
        encoded: dict[str, object] = msgspec.to_builtins(self)
        return encoded

    @classmethod
    def from_json(cls, declared: Mapping[str, object]) -> AgentDefinition:
        """One that was stored. Keys of a later release are passed over."""
        return msgspec.convert(declared, cls)

    def templates(self) -> Iterator[tuple[Key, str]]:
        """Every template in it, with its key."""
        yield ("instructions",), self.instructions
        for n, message in enumerate(self.messages):
            for m, part in enumerate(message.parts):
                if isinstance(part, Text):
                    yield ("messages", n, "parts", m, "text"), part.text
        if self.query is not None:
            yield ("query",), self.query


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCode:
    """What of an agent only Python has.

    `tools` are those that were given as objects or by path, by what the definition says of each; `input` and
    `output` the second layer of its types; `digests` those of all the code that it depends on, by tool or type.
    """

    tools: Mapping[str, object] = field(default_factory=dict)
    input: Convert | None = None
    output: Convert | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    def wanted(self, definition: AgentDefinition) -> tuple[object, ...]:
        """What the agent's tools are: patterns, and the tools themselves in the place of their names and paths."""
        patterns = definition.tools if definition.tools is not None else (ALL,)
        objects = {id(tool): tool for said, tool in self.tools.items() if said in patterns}
        return (*(pattern for pattern in patterns if pattern not in self.tools), *objects.values())

    def input_of(self, definition: AgentDefinition) -> Schema:
        """The rule for the agent's input."""
        return Schema(definition.input, self.input)

    def output_of(self, definition: AgentDefinition) -> Schema:
        """The rule for what the agent gives: the value of the one argument of `complete_task`."""
        return Schema(definition.completion.schema, self.output)


def check_agent(agent: AgentDefinition) -> Iterator[Problem]:
    """What is wrong with a definition beside its single values."""
    if agent.platform == LOCAL and not agent.instructions.strip() and not agent.messages:
        text = "there are neither instructions (the text below the keys) nor messages"
        yield Problem(key=("messages",), text=text)
    yield from _check_platform(agent)
    if agent.name in agent.agents:
        yield Problem(key=("agents",), text=f"{agent.name} names itself: an agent does not delegate to itself")
    if agent.finish == "text" and agent.output:
        text = "with `finish: text` the answer is text as it comes: nobody asks for this output"
        yield Problem(key=("output",), text=text, warning=True)
    for n, message in enumerate(agent.messages):
        if not message.parts:
            yield Problem(key=("messages", n), text="it says nothing: give it `text` or `parts`")


def _check_platform(agent: AgentDefinition) -> Iterator[Problem]:
    needs = PLATFORM_KEYS.get(agent.platform, ())
    if needs and all(getattr(agent, key) is None for key in needs):
        yield Problem(key=("platform",), text=f"an agent on {agent.platform} needs the key {' or '.join(needs)}")
    for platform, keys in PLATFORM_KEYS.items():
        for key in keys:
            if key not in needs and getattr(agent, key) is not None and agent.platform in PLATFORM_KEYS:
                text = f"it is for agents on {platform}; this one is on {agent.platform}"
                yield Problem(key=(key,), text=text, warning=True)
