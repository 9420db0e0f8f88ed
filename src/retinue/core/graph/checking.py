"""What is wrong with a graph, before anything of it runs."""

from __future__ import annotations

from collections.abc import Iterator

from retinue.core.declared import Problem
from retinue.core.graph.definition import GraphDefinition, Node, node_name
from retinue.core.graph.expressions import check_expressions
from retinue.core.graph.shape import check_shape, shape_of
from retinue.core.schema import says_nothing, wrong_schema
from retinue.core.target import Target
from retinue.errors import BadInput


def check_graph(graph: GraphDefinition) -> Iterator[Problem]:
    """Everything that can be seen in the graph alone."""
    if not graph.nodes:
        yield Problem(key=("nodes",), text="it has none")
    if graph.input is not None and (wrong := wrong_schema(graph.input)):
        yield Problem(key=("input",), text=f"it is no JSON schema: {wrong}")
    elif graph.input and says_nothing(graph.input):
        text = "no key of it is one of JSON Schema, so it asks for nothing. Do they belong under `properties`?"
        yield Problem(key=("input",), text=text, warning=True)
    for name, node in graph.nodes.items():
        try:
            node_name(name)
        except ValueError as error:
            yield Problem(key=("nodes", name), text=str(error))
        for problem in _check_node(node):
            yield Problem(key=("nodes", name, *problem.key), text=problem.text, warning=problem.warning)
    shape, problems = shape_of(graph.nodes)
    yield from problems
    if not problems:
        yield from check_shape(graph, shape)
        yield from check_expressions(graph, shape)


def _check_node(node: Node) -> Iterator[Problem]:
    if (node.run is None) == (node.human is None):
        yield Problem(text="it needs either `run` (a target) or `human` (what a person is asked)")
    for key, target in (("run", node.run), ("fallback", node.fallback)):
        if target is not None and (wrong := _wrong_target(target)):
            yield Problem(key=(key,), text=wrong)
    if node.human:
        for key in ("each", "retry", "fallback", "timeout", "spawn", "cache"):
            if getattr(node, key):
                yield Problem(key=(key,), text="it is for nodes that run something; a person is asked once")
        if node.human.kind == "choose" and not node.human.choices:
            yield Problem(key=("human", "choices"), text="there is nothing to choose from")
        if node.human.schema is not None and (wrong := wrong_schema(node.human.schema)):
            yield Problem(key=("human", "schema"), text=f"it is no JSON schema: {wrong}")
        if node.human.kind == "form" and node.human.schema is None:
            yield Problem(key=("human", "schema"), text="a form needs the JSON schema of what is filled in")
    if node.parallel is not None and node.each is None:
        yield Problem(key=("parallel",), text="it is for nodes with `each`", warning=True)


def _wrong_target(target: str) -> str:
    if "{{" in target:
        return "a target is fixed; choose between nodes with `choose` or `when`"
    try:
        Target.parse(target)
    except BadInput as error:
        return str(error)
    return ""
