"""What follows from how the nodes of a graph hang together: order, levels, regions, cycles.

Nothing here recurses: a chain of ten thousand nodes is a graph like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from retinue.core.declared import Problem
from retinue.core.graph.definition import GraphDefinition, Node
from retinue.core.spelling import did_you_mean


@dataclass(frozen=True, slots=True)
class Trigger:
    """`on: NODE.finished`, `NODE.failed` or `NODE.output.FIELD`: what of which node."""

    node: str
    event: str
    field: str = ""

    @classmethod
    def parse(cls, text: str) -> Trigger:
        """Raises `ValueError` for what is none."""
        node, _, event = text.partition(".")
        event, _, name = event.partition(".")
        if event in ("finished", "failed") and not name:
            return cls(node, event)
        if event == "output" and name:
            return cls(node, event, name)
        raise ValueError(f"expected NODE.finished, NODE.failed or NODE.output.FIELD, got {text[:60]!r}")


@dataclass(slots=True)
class Place:
    """Where a node stands among the others. `routers` are those of its needs that choose whether it runs."""

    index: int
    needs: tuple[str, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    routers: tuple[str, ...] = ()
    dependents: list[str] = field(default_factory=list)
    depth: int = 0
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """All places, by node, in the order of declaration."""

    places: Mapping[str, Place]

    def after(self, node: str) -> list[str]:
        """A node and all that depends on it, in the order of declaration."""
        found, ahead = {node}, [node]
        while ahead:
            for dependent in self.places[ahead.pop()].dependents:
                if dependent not in found:
                    found.add(dependent)
                    ahead.append(dependent)
        return sorted(found, key=lambda name: self.places[name].index)

    def before(self, node: str) -> set[str]:
        """All that a node depends on."""
        found: set[str] = set()
        ahead = [node]
        while ahead:
            for need in self.places[ahead.pop()].needs:
                if need not in found:
                    found.add(need)
                    ahead.append(need)
        return found

    @property
    def roots(self) -> list[str]:
        return [name for name, place in self.places.items() if not place.needs]

    @property
    def sinks(self) -> list[str]:
        return [name for name, place in self.places.items() if not place.dependents]


def shape_of(nodes: Mapping[str, Node]) -> tuple[Shape, list[Problem]]:
    """The shape, and what is wrong with it. With problems, it is of the part that makes sense."""
    problems: list[Problem] = []
    places = {name: Place(n) for n, name in enumerate(nodes)}
    routers = _routers(nodes, problems)
    for name, node in nodes.items():
        place = places[name]
        place.triggers = tuple(_triggers(name, node, problems))
        place.routers = tuple(routers.get(name, ()))
        said = dict.fromkeys((*node.needs, *(trigger.node for trigger in place.triggers), *place.routers))
        place.needs = tuple(need for need in said if _is_there(name, need, nodes, problems))
    for name, place in places.items():
        for need in place.needs:
            places[need].dependents.append(name)
    shape = Shape(places)
    _rank(shape, problems)
    return shape, problems


def check_shape(graph: GraphDefinition, shape: Shape) -> Iterator[Problem]:
    """What is wrong with loops, joins and the like, once names and order are right."""
    for name, node in graph.nodes.items():
        key = ("nodes", name)
        if node.needs and node.on:
            yield Problem(key=(*key, "on"), text="`on` stands in the place of `needs`: say one of them")
        if node.join > len(shape.places[name].needs):
            text = f"it waits for {node.join} branches and has {len(shape.places[name].needs)}"
            yield Problem(key=(*key, "join"), text=text)
        if node.again and node.again.from_ not in graph.nodes:
            text = f"there is no node {node.again.from_}. {did_you_mean(node.again.from_, graph.nodes)}"
            yield Problem(key=(*key, "again", "from"), text=text)
        elif node.again and node.again.from_ not in shape.before(name) | {name}:
            yield Problem(key=(*key, "again", "from"), text=f"{name} does not depend on {node.again.from_}")


def regions_of(graph: GraphDefinition, shape: Shape) -> dict[str, list[str]]:
    """For each node that may begin others again: which these are."""
    return {
        name: shape.after(node.again.from_)
        for name, node in graph.nodes.items()
        if node.again and node.again.from_ in shape.places
    }


def _routers(nodes: Mapping[str, Node], problems: list[Problem]) -> dict[str, list[str]]:
    """Who chooses whether a node runs."""
    routers: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for chosen in node.choose:
            if chosen in nodes:
                routers.setdefault(chosen, []).append(name)
            else:
                text = f"there is no node {chosen}. {did_you_mean(chosen, nodes)}"
                problems.append(Problem(key=("nodes", name, "choose"), text=text))
    return routers


def _triggers(name: str, node: Node, problems: list[Problem]) -> Iterator[Trigger]:
    for n, said in enumerate(node.on):
        try:
            yield Trigger.parse(said)
        except ValueError as error:
            problems.append(Problem(key=("nodes", name, "on", n), text=str(error)))


def _is_there(name: str, need: str, nodes: Mapping[str, Node], problems: list[Problem]) -> bool:
    if need not in nodes:
        text = f"there is no node {need}. {did_you_mean(need, {*nodes} - {name})}"
        problems.append(Problem(key=("nodes", name, "on" if nodes[name].on else "needs"), text=text))
    return need in nodes


def _rank(shape: Shape, problems: list[Problem]) -> None:
    """Put the nodes in order, ties by declaration, and say how deep each is. What is left over is in a circle."""
    places = shape.places
    open_needs = {name: len(place.needs) for name, place in places.items()}
    ready = [(place.index, name) for name, place in places.items() if not place.needs]
    heapify(ready)
    rank = 0
    while ready:
        _, name = heappop(ready)
        place, rank = places[name], rank + 1
        place.rank = rank
        for dependent in place.dependents:
            places[dependent].depth = max(places[dependent].depth, place.depth + 1)
            open_needs[dependent] -= 1
            if not open_needs[dependent]:
                heappush(ready, (places[dependent].index, dependent))
    if left := [name for name, count in open_needs.items() if count]:
        circle = _circle(places, left)
        text = f"it is in a circle: {' → '.join(circle)}. A loop is said with `again`."
        problems.append(Problem(key=("nodes", circle[0], "needs"), text=text))


def _circle(places: Mapping[str, Place], left: Iterable[str]) -> list[str]:
    """A way along the needs that comes back to where it was."""
    among = set(left)
    at = min(among, key=lambda name: places[name].index)
    passed: dict[str, int] = {}
    way: list[str] = []
    while at not in passed:
        passed[at] = len(way)
        way.append(at)
        at = next(need for need in places[at].needs if need in among)
    circle = way[passed[at] :]
    return [*reversed(circle), circle[-1]]
