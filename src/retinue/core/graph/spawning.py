"""Nodes that a running node adds to its graph: `{"nodes": {...}}` in its output."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from retinue.core.declared import has_errors, read
from retinue.core.graph.checking import check_graph
from retinue.core.graph.definition import GraphDefinition, Node, node_name
from retinue.core.target import Target
from retinue.errors import BadDefinition


@dataclass(frozen=True, slots=True)
class Spawned:
    """By whom a node was added, and how deep."""

    source: str
    depth: int


def spawned_nodes(
    graph: GraphDefinition, source: str, output: object, depth: int, mine: Collection[str] = (), *, so_far: int = 0
) -> dict[str, Node]:
    """Those that a node adds; `mine` are those that it added before. Raises `BadDefinition` for what cannot be added,
    and for more than is allowed."""
    said = output.get("nodes") if isinstance(output, Mapping) else None
    if not said:
        return {}
    if not isinstance(said, Mapping):
        raise BadDefinition(what=source, problem="`nodes` in its output are a table of nodes by name")
    if depth > graph.limits.spawn_depth:
        raise BadDefinition(what=source, problem=f"nodes may be added {graph.limits.spawn_depth} deep, and no deeper")
    if so_far + len({*map(str, said)} - {*mine}) > graph.limits.spawn:
        raise BadDefinition(what=source, problem=f"{graph.limits.spawn} nodes may be added to this graph, and no more")
    nodes: dict[str, Node] = {}
    for name, declared in said.items():
        node, problems = read(Node, declared, key=("nodes", str(name)), strict=True)
        if node is None or has_errors(problems):
            raise BadDefinition(what=source, problem="; ".join(map(str, problems)))
        if name in graph.nodes and name not in mine:
            raise BadDefinition(what=source, problem=f"the graph has a node {name}")
        nodes[str(node_name_of(source, name))] = node
    wrong = [problem for problem in check_graph(with_more(graph, nodes, source, ())) if not problem.warning]
    if wrong:
        raise BadDefinition(what=source, problem="; ".join(map(str, wrong)))
    _check_functions(graph, source, nodes)
    return nodes


def _check_functions(graph: GraphDefinition, source: str, nodes: Mapping[str, Node]) -> None:
    """What a model says may name agents, not any code that can be imported here."""
    known = set(_targets(graph.nodes))
    for target in _targets(nodes):
        if target not in known and Target.parse(target).kind == "function":
            raise BadDefinition(what=source, problem=f"no node of the graph runs {target}, so none that is added may")


def _targets(nodes: Mapping[str, Node]) -> Iterator[str]:
    return (target for node in nodes.values() for target in (node.run, node.fallback) if target)


def node_name_of(source: str, name: object) -> object:
    try:
        return node_name(name)
    except ValueError as error:
        raise BadDefinition(what=source, problem=f"{name!r}: {error}") from None


def with_more(graph: GraphDefinition, more: Mapping[str, Node], source: str, waiting: Iterable[str]) -> GraphDefinition:
    """The graph with nodes that one of its own has added: they come after it, and what waits for it waits for them."""
    replace = msgspec.structs.replace
    nodes = dict(graph.nodes)
    for name in waiting:
        if not nodes[name].on:
            nodes[name] = replace(nodes[name], needs=tuple(sorted({*nodes[name].needs, *more})))
    for name, node in more.items():
        nodes[name] = node if node.on else replace(node, needs=tuple(sorted({*node.needs, source})))
    return replace(graph, nodes=nodes)
