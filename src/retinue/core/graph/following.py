"""Nodes that are run for what another gives, item by item: one may begin as soon as the other has given it."""

from __future__ import annotations

import re

from retinue.core.graph.definition import GraphDefinition
from retinue.core.graph.expressions import mentioned
from retinue.core.graph.shape import Shape

_alone = re.compile(r"\{\{\s*(\w+)\.output\s*\}\}")


def followers(graph: GraphDefinition, shape: Shape) -> dict[str, tuple[str, ...]]:
    """For each node that is run for items, the nodes that take its results as theirs and wait for nothing else."""
    found: dict[str, list[str]] = {}
    for name in graph.nodes:
        if source := _followed(graph, shape, name):
            found.setdefault(source, []).append(name)
    return {source: tuple(names) for source, names in found.items()}


def _followed(graph: GraphDefinition, shape: Shape, name: str) -> str | None:
    """Whose items are its own; none where it must be known first how all of them ended."""
    node, place = graph.nodes[name], shape.places[name]
    said = _alone.fullmatch(node.each.strip()) if isinstance(node.each, str) else None
    if said is None or place.needs != (said[1],) or place.triggers or place.routers or node.when is not None:
        return None
    source = graph.nodes[said[1]]
    decides = source.each is None or source.again or source.spawn or source.choose
    if decides or graph.policy_of(source) == "skip_dependents" or said[1] in mentioned(node.input):
        return None
    return said[1]
