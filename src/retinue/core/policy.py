"""What an agent may do: rules over tool calls, pure.

A policy is an ordered list of rules, and the first that matches a call decides. Where none does, a `write` tool that
is not the project's own is asked for, and everything else is allowed. A child's policy is its own and its parent's at
once: the stricter of their decisions holds. What a person said for the rest of the run answers the same question when
it comes again; it softens no refusal, since a rule that denies asks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import reduce
from typing import Literal

import msgspec

from retinue.core.declared import Seconds, Written
from retinue.core.outcome import Effect
from retinue.core.tool import PROJECT, Listed

ASK_FOR_SECONDS = 7 * 86_400.0
Scalar = str | int | float | bool | None


class Action(StrEnum):
    """What becomes of a call, the mildest first."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


STRICTNESS = {action: n for n, action in enumerate(Action)}


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule: which calls it is about, and what becomes of them.

    `tool` is a pattern for the tool's name, which is `mcp:SERVER/TOOL` for a server's; `effect` limits it to tools
    that do that. `arguments` has patterns by argument (`path`, or `options.path` for one inside another): text with
    `*` and `?`, another value to be equal to, or a list of which one must match. `expires` is how long a person has
    to decide when the action is `ask`, and `at_expiry` what holds when nobody did.
    """

    tool: Written
    action: Action
    effect: Effect | None = None
    arguments: dict[str, Scalar | tuple[Scalar, ...]] = {}
    expires: Seconds = ASK_FOR_SECONDS
    at_expiry: Literal["allow", "deny"] = "deny"

    def matches(self, tool: Listed, arguments: object) -> bool:
        if self.effect is not None and self.effect is not tool.effect:
            return False
        if not fnmatchcase(tool.name, self.tool):
            return False
        return all(self._fits(list(_found(arguments, path)), wanted) for path, wanted in self.arguments.items())

    def _fits(self, values: list[object], wanted: Scalar | tuple[Scalar, ...]) -> bool:
        """Of a list, all must match for a rule that allows, and one is enough for a rule that does not."""
        patterns = wanted if isinstance(wanted, tuple) else (wanted,)
        fitting = [any(_like(value, pattern) for pattern in patterns) for value in values]
        return bool(fitting) and (all(fitting) if self.action is Action.ALLOW else any(fitting))


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a call; `rule` is the one that said so, or None where no rule was about it.

    `asking` has all the rules that want it to be asked for, None standing for the default.
    """

    action: Action
    rule: Rule | None = None
    asking: tuple[Rule | None, ...] = ()

    @property
    def expires(self) -> float:
        """How many seconds a person has, when it is to be asked for."""
        return self.rule.expires if self.rule else ASK_FOR_SECONDS

    @property
    def at_expiry(self) -> Action:
        """What holds when nobody decided in that time."""
        return Action(self.rule.at_expiry) if self.rule else Action.DENY

    @property
    def strictness(self) -> tuple[int, bool]:
        return STRICTNESS[self.action], self.action is Action.ASK and self.at_expiry is Action.DENY


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person said for the rest of the run: about one tool, whenever the same rule asks again."""

    tool: str
    action: Action
    asked_by: Rule | None = None

    def answers(self, question: Rule | None, tool: Listed, arguments: object) -> bool:
        """To be allowed, all of a list must be what the rule was about; see `Rule`."""
        if self.tool != tool.name or self.asked_by != question:
            return False
        return question is None or msgspec.structs.replace(question, action=self.action).matches(tool, arguments)


Rules = tuple[Rule, ...]


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lists of rules that all hold at once: an agent's own, its parent's, and so on up."""

    layers: tuple[Rules, ...] = ((),)
    remembered: tuple[Remembered, ...] = ()

    @classmethod
    def of(cls, own: Rules, project: Rules = ()) -> Policy:
        """An agent's: its own rules first, then the project's."""
        return cls(layers=((*own, *project),))

    def within(self, parent: Policy) -> Policy:
        """A child's, below a parent's: no call is treated more mildly than by either."""
        return Policy(
            layers=self.layers + tuple(layer for layer in parent.layers if layer not in self.layers),
            remembered=self.remembered + tuple(said for said in parent.remembered if said not in self.remembered),
        )

    def remembering(self, *said: Remembered) -> Policy:
        """With what people said since: the last word about a question counts."""
        return Policy(layers=self.layers, remembered=(*reversed(said), *self.remembered))


def decide(policy: Policy, tool: Listed, arguments: object) -> Decision:
    """What becomes of a call."""
    by_layer = [_first(rules, tool, arguments) for rules in policy.layers]
    if reduce(_stricter, by_layer).action is Action.ASK:  # what is settled without people, they do not change
        by_layer = [_answered(policy, decision, tool, arguments) for decision in by_layer]
    asking = tuple(decision.rule for decision in by_layer if decision.action is Action.ASK)
    return msgspec.structs.replace(reduce(_stricter, by_layer), asking=asking)


def _answered(policy: Policy, decision: Decision, tool: Listed, arguments: object) -> Decision:
    """The decision, or what a person said about the same question before."""
    if decision.action is not Action.ASK:
        return decision
    said = (one.action for one in policy.remembered if one.answers(decision.rule, tool, arguments))
    return msgspec.structs.replace(decision, action=next(said, Action.ASK))


def _first(rules: Rules, tool: Listed, arguments: object) -> Decision:
    for rule in rules:
        if rule.matches(tool, arguments):
            return Decision(action=rule.action, rule=rule)
    foreign = tool.effect is Effect.WRITE and tool.origin != PROJECT
    return Decision(action=Action.ASK if foreign else Action.ALLOW)


def _stricter(one: Decision, other: Decision) -> Decision:
    return other if other.strictness > one.strictness else one


_ABSENT = object()


def _found(arguments: object, path: str) -> Iterator[object]:
    """What an argument is: itself, or each item of a list."""
    if not isinstance(arguments, Mapping):
        yield _ABSENT
        return
    first, dot, rest = path.partition(".")
    if path in arguments:
        yield from _each(arguments[path])
    if dot and first in arguments:  # also when there was one with a dot in its name: neither hides the other
        for inner in _each(arguments[first]):
            yield from _found(inner, rest)
    elif path not in arguments:
        yield _ABSENT


def _each(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _each(item)
    else:
        yield value


def _like(value: object, pattern: Scalar) -> bool:
    if value is _ABSENT:
        return False
    match pattern:
        case str():
            return fnmatchcase(value if isinstance(value, str) else msgspec.json.encode(value).decode(), pattern)
        case None | bool():
            return value is pattern
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool) and value == pattern
