"""Runs graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retinue.core.graph.checking import check_graph
from retinue.core.graph.definition import GraphDefinition
from retinue.core.outcome import Durability, Outcome
from retinue.core.schema import Schema
from retinue.core.target import Target
from retinue.engine.context import RunContext
from retinue.engine.description import Capabilities, Describers, Description
from retinue.errors import BadInput, BadTarget, WrongInput
from retinue.ports.definitions import Graphs
from retinue.runners.graph.play import Play


@dataclass(frozen=True, slots=True)
class _Known:
    definition: GraphDefinition
    description: Description


class GraphRunner:
    """Runs `graph:NAME`."""

    platform = "graph"
    capabilities = Capabilities(durability=Durability.EFFECTS, tickets=True, starts_inside=True)

    def __init__(self, graphs: Graphs, targets: Describers) -> None:
        self._graphs, self._targets = graphs, targets
        self._known: dict[str, _Known] = {}

    def describe(self, target: Target) -> Description:
        return self._find(target).description

    def _find(self, target: Target) -> _Known:
        definition = self._graphs.graph(target.name)
        known = self._known.get(target.name)
        if known is None or known.definition is not definition:
            self._check(target, definition)
            known = self._known[target.name] = _Known(definition, _described(target, definition))
        return known

    def _check(self, target: Target, graph: GraphDefinition) -> None:
        """Refuse what could not run before anything does."""
        wrong = [str(problem) for problem in check_graph(graph) if not problem.warning]
        named = dict.fromkeys(name for node in graph.nodes.values() for name in (node.run, node.fallback) if name)
        if wrong:
            raise BadTarget(target=target, problem="; ".join(wrong))
        for name in named:
            other = Target.parse(name)
            try:
                if other.kind == "graph":
                    self._graphs.graph(other.name)  # graphs may run each other: nobody looks for an end here
                else:
                    self._targets.of(other).describe(other)
            except BadInput as error:
                raise BadTarget(target=target, problem=f"its node runs {name}: {error}") from error

    def can_load(self, requires: Mapping[str, object]) -> bool:
        try:
            described = self.describe(Target("graph", str(requires.get("graph"))))
        except BadInput:
            return False
        return described.requires == requires

    async def run(self, ctx: RunContext) -> Outcome:
        known = self._find(Target.parse(ctx.run.target))
        graph = known.definition
        if ctx.definition is not known.description.definition:  # it began with another one
            graph = GraphDefinition.from_json(ctx.definition)
        return await Play(ctx, graph).run()

    async def cancel(self, ctx: RunContext) -> None:
        """Its children are cancelled with it."""


def _described(target: Target, graph: GraphDefinition) -> Description:
    requires = {"platform": "graph", "graph": graph.name}
    if graph.on_change == "wait":
        requires["code"] = graph.digest
    input = Schema(graph.input)

    def accept(given: object) -> object:
        checked = input.check(given)
        if not checked.fits:
            raise WrongInput(target=str(target), problem=str(checked))
        return checked.value

    return Description(
        definition={**graph.to_json(), "order": list(graph.nodes)},
        requires=requires,
        max_cost_usd=graph.limits.max_cost_usd,
        on_change=graph.on_change,
        durability=graph.durability,
        accept=accept,
        nodes=frozenset(graph.nodes),
    )
