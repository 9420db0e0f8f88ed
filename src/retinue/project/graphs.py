"""Graphs: `graphs/*.yaml`, `Graph(...)` in Python, and the trees that agents with `children` are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from retinue.core.agent import AgentDefinition
from retinue.core.declared import Problem, has_errors, read
from retinue.core.graph.checking import check_graph
from retinue.core.graph.definition import GraphDefinition, Node
from retinue.core.spelling import did_you_mean
from retinue.core.target import Target
from retinue.errors import BadDefinition, BadTarget, UnknownTarget
from retinue.project.documents import Document, yaml_document

Table = Mapping[str, Any]


class GraphKeys(TypedDict, total=False):
    """What a graph may declare. The keys are those of a file in `graphs/`."""

    description: str
    input: Table
    nodes: Mapping[str, Table]
    output: object
    strategy: Literal["flow", "level", "sequence"]
    limits: Table
    on_error: Literal["stop", "continue", "skip_dependents"]
    on_change: Literal["fail", "finish", "wait"]
    durability: Literal["effects", "restart"]
    export: bool


class Graph:
    """Targets that run one after the other, and side by side. Wrong keys are `BadDefinition`, all at once."""

    def __init__(self, name: str, **keys: Unpack[GraphKeys]) -> None:
        definition, problems = declare_graph({"name": name, **keys}, strict=True)
        if definition is None:
            wrong = [str(problem) for problem in problems if not problem.warning]
            raise BadDefinition(what=f"Graph {name}", problem="; ".join(wrong))
        self.problems, self.definition = tuple(problems), definition

    @property
    def name(self) -> str:
        return self.definition.name

    def __repr__(self) -> str:
        return f"<graph {self.name}>"


def declare_graph(declared: object, *, strict: bool = False) -> tuple[GraphDefinition | None, list[Problem]]:
    """The graph, or nothing when something is wrong with it; and everything that is odd."""
    graph, problems = read(GraphDefinition, declared, strict=strict)
    if graph is None or has_errors(problems):
        return None, problems
    problems += check_graph(graph)
    return (None if has_errors(problems) else graph), problems


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFile:
    """A file, the graph that it declares (nothing when it is declared wrongly), and all that is wrong or odd."""

    file: str
    name: str
    definition: GraphDefinition | None
    document: Document | None
    problems: tuple[Problem, ...]

    def placed(self, problem: Problem) -> Problem:
        """A problem of one of its keys, at its line."""
        return self.document.placed(problem) if self.document else replace(problem, file=self.file)


def read_graph(file: str, text: str) -> GraphFile:
    """The graph that a file declares. `file` stands in the problems."""
    name = re.sub(r"\.ya?ml$", "", file.rpartition("/")[2])
    document = yaml_document(file, text)
    if isinstance(document, Problem):
        return GraphFile(file=file, name=name, definition=None, document=None, problems=(document,))
    if isinstance(document.value, Mapping) and isinstance(said := document.value.get("name"), str):
        name = said
    definition, found = declare_graph(document.value)
    problems = [*document.problems, *map(document.placed, found)]
    return GraphFile(
        file=file,
        name=name,
        definition=None if document.problems else definition,
        document=document,
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
    )


def unknown_targets(graph: GraphDefinition, agents: Collection[str], graphs: Collection[str]) -> Iterator[Problem]:
    """Agents and graphs that its nodes run and that nobody has declared."""
    known = {"agent": agents, "graph": {*graphs, *agents}}
    for name, node in graph.nodes.items():
        for key, said in (("run", node.run), ("fallback", node.fallback)):
            target = Target.parse(said) if said else None
            if target and target.kind in known and target.name not in known[target.kind]:
                text = f"there is no {target}. {did_you_mean(target.name, known[target.kind])}"
                yield Problem(key=("nodes", name, key), text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredGraph:
    """A graph that can be run, and the file that it comes from."""

    definition: GraphDefinition
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """Graphs by name. `broken` says of those that are declared wrongly what is wrong with them."""

    declared: Mapping[str, DeclaredGraph] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.declared))

    def graph(self, name: str) -> GraphDefinition:
        if found := self.declared.get(name):
            return found.definition
        if name in self.broken:
            problem = f"{self.broken[name].rstrip('.')}. `retinue graphs check` says more."
            raise BadTarget(target=f"graph:{name}", problem=problem)
        raise UnknownTarget(target=f"graph:{name}", problem=f"no such graph. {did_you_mean(name, self.declared)}")

    def and_more(self, graphs: Iterable[Graph], agents: Iterable[AgentDefinition]) -> Graphs:
        """These, those of Python, and the trees of agents. Raises `BadDefinition` for a name that is taken. A tree that
        cannot be one is broken, and hides no other."""
        declared, broken = dict(self.declared), dict(self.broken)
        for graph in graphs:
            if graph.name in declared or graph.name in self.broken:
                raise BadDefinition(what=f"Graph {graph.name}", problem="there is a graph of that name")
            declared[graph.name] = DeclaredGraph(definition=graph.definition)
        by_name = {agent.name: agent for agent in agents}
        for agent in by_name.values():
            if agent.children and agent.name not in declared and agent.name not in self.broken:
                try:
                    declared[agent.name] = DeclaredGraph(definition=tree_of(agent, by_name))
                except BadDefinition as error:
                    broken[agent.name] = str(error)
        return replace(self, declared=declared, broken=broken)


def tree_of(root: AgentDefinition, agents: Mapping[str, AgentDefinition]) -> GraphDefinition:
    """The graph that an agent is with its children, theirs and so on: what a parent gives reaches its children."""
    nodes: dict[str, Node] = {}
    ahead: list[tuple[AgentDefinition, str]] = [(root, "")]
    while ahead:
        agent, parent = ahead.pop(0)
        name = re.sub(r"\W", "_", agent.name)
        if name in nodes:
            raise BadDefinition(what=f"Agent {root.name}", problem=f"{agent.name} stands twice in its tree")
        nodes[name] = Node(run=f"agent:{agent.name}", needs=(parent,) if parent else ())
        for child in agent.children:
            if child not in agents:
                problem = f"there is no agent {child}. {did_you_mean(child, agents)}"
                raise BadDefinition(what=f"Agent {agent.name}", problem=problem)
            ahead.append((agents[child], name))
    return msgspec.structs.replace(GraphDefinition(name=root.name, nodes=nodes), description=root.description)
