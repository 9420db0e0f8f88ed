"""A graph as it is declared: a value, the same in a file, in Python and in the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec

from retinue.core.agent import in_order, lasting
from retinue.core.declared import Count, Name, Names, Positive, Seconds, Written
from retinue.core.digest import digest_of
from retinue.core.outcome import Durability, Reason
from retinue.core.policy import ASK_FOR_SECONDS

RESERVED = frozenset({"input", "item", "index", "previous", "today", "now", "run_id", "graph", "loop", "true", "false"})
RETRIED = (Reason.PROVIDER_ERROR, Reason.TOOL_ERROR, Reason.REMOTE_ERROR, Reason.TIMEOUT, Reason.LOST, Reason.INTERNAL)
"""What another try may mend. What is invalid stays so, and what a person stopped is not begun again."""
OnError = Literal["stop", "continue", "skip_dependents"]
_join = re.compile(r"(\d+) of")


def node_name(value: object) -> object:
    """A name that expressions can say."""
    if isinstance(value, str) and (not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", value) or value in RESERVED):
        raise ValueError(
            "a node's name has letters, digits and _, begins with none of the digits, and is no reserved word"
        )
    return value


def joined(value: object) -> object:
    """How many branches are waited for: all (0), any (1), `2 of`."""
    if value in ("all", "any"):
        return 0 if value == "all" else 1
    if isinstance(value, str) and (found := _join.fullmatch(value.strip())):
        value = int(found[1])
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("expected all, any, or a number of branches like `2 of`")
    return value


class Retry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often a node is tried, and what is waited in between."""

    tries: Positive = 3
    delay: Seconds = 1.0
    factor: Annotated[float, msgspec.Meta(ge=1)] = 2.0
    jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """How much of a delay is left to chance."""
    only: tuple[Reason, ...] = RETRIED

    def delay_before(self, try_: int, chance: float) -> float:
        """Seconds before a try, from the second on; `chance` is between 0 and 1."""
        return float(self.delay * self.factor ** (try_ - 2) * (1 - self.jitter * chance))


class Again(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes from `from` to this one, and all that depends on them, are run again while the condition holds."""

    when: Written
    from_: str = msgspec.field(name="from")
    at_most: Positive


class Human(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person is asked: to approve, to choose, or to fill in a form."""

    kind: Literal["approve", "choose", "form"] = "approve"
    title: str = ""
    choices: Annotated[tuple[str, ...], in_order] = ()
    schema: dict[str, Any] | None = None
    expires: Seconds = ASK_FOR_SECONDS

    @property
    def form(self) -> dict[str, Any] | None:
        """The JSON schema of the answer; an approval has none."""
        if self.kind == "choose":
            return {"type": "string", "enum": list(self.choices)}
        return self.schema if self.kind == "form" else None


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node: what it runs or asks, when, on what, and what becomes of its failure."""

    run: Written | None = None
    human: Human | None = None
    needs: Names = ()
    on: Annotated[tuple[str, ...], in_order] = ()
    join: Annotated[int, joined] = 0
    late: Literal["cancel", "leave"] = "cancel"
    when: Written | None = None
    each: Any = None
    parallel: Positive | None = None
    input: Any = None
    choose: Annotated[tuple[str, ...], in_order] = ()
    spawn: bool = False
    again: Again | None = None
    retry: Retry | None = None
    timeout: Seconds | None = None
    fallback: Written | None = None
    on_error: OnError | None = None
    cache: Annotated[Seconds | None, lasting] = None


class GraphLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much a graph may take. `spawn` and `spawn_depth` are how many nodes may be added while it runs, and how many
    of these may add more in turn."""

    parallel: Positive = 16
    max_minutes: Annotated[float, msgspec.Meta(gt=0)] | None = None
    max_cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    max_items: Positive = 100_000
    spawn: Count = 100
    spawn_depth: Count = 3
    max_depth: Count = 8
    """How deep graphs may run graphs."""


class GraphDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A graph. What is left out is not in its JSON: a key that comes with a later release changes no digest."""

    name: Name
    description: str = ""
    input: dict[str, Any] | None = None
    nodes: dict[str, Node]
    output: Any = None
    strategy: Literal["flow", "level", "sequence"] = "flow"
    limits: GraphLimits = GraphLimits()
    on_error: OnError = "stop"
    on_change: Literal["fail", "finish", "wait"] = "fail"
    durability: Durability | None = None
    export: bool = False

    @cached_property
    def digest(self) -> str:
        """The same for the same definition. The order of nodes counts: they are started in it."""
        return digest_of([list(self.nodes), self.to_json()])

    def to_json(self) -> dict[str, object]:
        encoded: dict[str, object] = msgspec.to_builtins(self)
        return encoded

    @classmethod
    def from_json(cls, declared: Mapping[str, object]) -> GraphDefinition:
        """One that was stored."""
        return msgspec.convert(declared, cls)

    def policy_of(self, node: Node) -> OnError:
        """What becomes of a failure of the node."""
        return node.on_error or self.on_error
