"""What nodes say of each other: conditions, items and inputs as expressions over inputs, outputs and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from retinue.core.declared import Key, Problem
from retinue.core.graph.definition import GraphDefinition, Node
from retinue.core.graph.shape import Shape, regions_of
from retinue.core.references import texts
from retinue.core.spelling import did_you_mean
from retinue.core.template import template
from retinue.errors import BadTemplate

GIVEN = ("today", "now", "run_id", "graph")
LONE = ("{{", "}}")


@dataclass(frozen=True, slots=True)
class Written:
    """One expression of a node: where it stands, what it says, and which names it may say beside all nodes before."""

    key: Key
    text: str
    also: frozenset[str] = frozenset()


def expressions_of(name: str, node: Node, regions: Iterable[str] = ()) -> Iterator[Written]:
    """All expressions of a node; `regions` are the nodes that may begin it again."""
    key = ("nodes", name)
    again = frozenset({"previous"}) if regions else frozenset[str]()
    item = frozenset({"item", "index"}) if node.each is not None else frozenset[str]()
    if node.when is not None:
        yield Written((*key, "when"), node.when, again)
    for part, text in texts(node.each):
        yield Written((*key, "each", *part), text, again)
    for part, text in texts(node.input):
        yield Written((*key, "input", *part), text, again | item)
    if node.human:
        yield Written((*key, "human", "title"), node.human.title, again)
    if node.again:
        yield Written((*key, "again", "when"), node.again.when, frozenset({name, "previous"}))


def check_expressions(graph: GraphDefinition, shape: Shape) -> Iterator[Problem]:
    """What is wrong with expressions: a bad template, a name that nothing has, a node that does not come before."""
    begun_again: dict[str, list[str]] = {}
    for deciding, region in regions_of(graph, shape).items():
        for name in region:
            begun_again.setdefault(name, []).append(deciding)
    for name, node in graph.nodes.items():
        before: frozenset[str] | None = None
        for one in expressions_of(name, node, begun_again.get(name, ())):
            names = _names(one)
            if isinstance(names, Problem):
                yield names
                continue
            for mentioned in names - one.also - {"input", *GIVEN}:
                before = frozenset(shape.before(name)) if before is None else before
                if mentioned not in before:
                    yield Problem(key=one.key, text=_not_before(mentioned, name, graph, one.also))
        yield from _check_conditions(name, node)
    yield from _check_output(graph)


def _not_before(mentioned: str, name: str, graph: GraphDefinition, also: frozenset[str]) -> str:
    if mentioned in graph.nodes:
        return f"{name} does not come after {mentioned}: name it under `needs`"
    known = {*graph.nodes, "input", *also, *GIVEN}
    return f"there is no node {mentioned}. {did_you_mean(mentioned, known)}"


def _check_output(graph: GraphDefinition) -> Iterator[Problem]:
    known = {*graph.nodes, "input", *GIVEN}
    for part, text in texts(graph.output):
        names = _names(Written(("output", *part), text))
        if isinstance(names, Problem):
            yield names
            continue
        for mentioned in names - known:
            text = f"there is no node {mentioned}. {did_you_mean(mentioned, known)}"
            yield Problem(key=("output", *part), text=text)


def _check_conditions(name: str, node: Node) -> Iterator[Problem]:
    """A condition that is no expression would always hold."""
    said: list[tuple[Key, object]] = [(("nodes", name, "when"), node.when), (("nodes", name, "each"), node.each)]
    if node.again:
        said.append((("nodes", name, "again", "when"), node.again.when))
    for key, text in said:
        if isinstance(text, str) and not (text.strip().startswith(LONE[0]) and text.strip().endswith(LONE[1])):
            yield Problem(key=key, text="expected one expression: {{ … }}")


def _names(one: Written) -> frozenset[str] | Problem:
    try:
        return template(one.text).names
    except BadTemplate as error:
        return Problem(key=one.key, text=f"a bad template: {error.problem}")


def mentioned(value: object) -> frozenset[str]:
    """All names that the texts of a JSON value say, also those that it could do without."""
    return frozenset(name for _, text in texts(value) for name in template(text).names)


def filled(value: Any, values: Mapping[str, object]) -> Any:
    """A JSON value with its texts filled in; a lone `{{ … }}` is what it gives, kept as JSON."""
    match value:
        case str():
            return template(value).value(values)
        case Mapping():
            return {name: filled(inner, values) for name, inner in value.items()}
        case list() | tuple():
            return [filled(inner, values) for inner in value]
        case _:
            return value


def holds(condition: str, values: Mapping[str, object]) -> bool:
    return bool(template(condition).value(values))


Lookup = Callable[[str], object]


def values_for(value: object, lookup: Lookup, nodes: Iterable[str], given: Mapping[str, object]) -> dict[str, object]:
    """What an expression is given: of the nodes, only those that it speaks of."""
    known = {*nodes}
    return {**given, **{name: lookup(name) for name in mentioned(value) if name in known and name not in given}}
