"""What the nodes of a running graph can see of each other, and what their expressions make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from retinue.core.graph.definition import GraphDefinition
from retinue.core.graph.expressions import filled, holds, mentioned
from retinue.core.graph.shape import Shape, Trigger
from retinue.core.graph.state import NodeState, Phase
from retinue.core.references import texts
from retinue.errors import BadInput

PREVIOUS = "previous"
Names = frozenset[str]


@dataclass
class Values:
    """The graph's input, what is given to every expression, and the outputs of nodes as far as somebody asks for them.

    Names mean the newest iteration.
    """

    input: object
    given: Mapping[str, object] = field(default_factory=dict)
    outputs: dict[str, object] = field(default_factory=dict)
    came: dict[str, object] = field(default_factory=dict)
    """Outputs of single runs, which are items of another node."""
    rounds: dict[str, int] = field(default_factory=dict)
    """How often each node has begun others again."""

    def know(self, graph: GraphDefinition, shape: Shape, nodes: Mapping[str, NodeState]) -> None:
        """Which graph this is, also after nodes were added to it."""
        self._graph, self._shape, self._nodes = graph, shape, nodes
        self._wanted = _wanted(graph, shape)

    def wants(self, state: NodeState) -> bool:
        """Whether somebody will ask for what the node gave."""
        return state.name in self._wanted

    def lacks(self, state: NodeState) -> bool:
        """Whether somebody will ask for what it gave, and it was not read: nobody did when it ended."""
        return state.phase is Phase.COMPLETED and self._is_unread(state) and self.wants(state)

    def _is_unread(self, state: NodeState) -> bool:
        return not state.node.human and state.name not in self.outputs

    def forget(self, state: NodeState) -> None:
        """It is begun again: names mean its newest iteration."""
        self.outputs.pop(state.name, None)

    def output_of(self, state: NodeState) -> object:
        return state.answer if state.node.human else self.outputs.get(state.name)

    def view(self, name: str) -> dict[str, object]:
        """A node, as expressions see it."""
        state = self._nodes[name]
        done = state.phase is Phase.COMPLETED
        error = None
        if state.error and state.phase is Phase.FAILED:
            error = {"kind": state.error.kind, "message": state.error.message, "reason": state.reason}
        return {
            "output": self.output_of(state) if done else None,
            "status": state.phase.value,
            "error": error,
            "errors": {str(item): failure.message for item, failure in state.failed.items() if item is not None},
            "iteration": state.iteration,
        }

    def _for(self, value: object, state: NodeState | None = None) -> dict[str, object]:
        """Of the nodes, only those that are spoken of."""
        said: dict[str, object] = {"input": self.input, **self.given}
        if state and state.previous is not None:
            said[PREVIOUS] = state.previous
        for name in mentioned(value):
            if name in self._nodes:
                said[name] = self.view(name)
        return said

    # What nodes say

    def condition_holds(self, state: NodeState) -> bool:
        condition = state.node.when
        return condition is None or holds(condition, self._for(condition, state))

    def repeats(self, state: NodeState) -> bool:
        assert state.node.again
        return holds(state.node.again.when, self._for(state.node.again.when, state))

    def items_of(self, state: NodeState) -> list[object] | None:
        """What a node is run for, one by one; nothing for a node that is run once."""
        if state.node.each is None:
            return None
        items = filled(state.node.each, self._for(state.node.each, state))
        if not isinstance(items, list):
            raise BadInput(problem=f"`each` of {state.name} gave {_kind(items)}, not a list")
        if len(items) > (most := self._graph.limits.max_items):
            raise BadInput(
                problem=f"`each` of {state.name} gave {len(items):,} items, and {most:,} are allowed", line=0
            )
        return items

    def input_of(self, state: NodeState, item: int | None) -> object:
        """What one run of a node is given."""
        own = {} if item is None or state.items is None else {"item": state.items[item], "index": item}
        if state.node.input is not None:
            return filled(state.node.input, {**self._for(state.node.input, state), **own})
        if own:
            return own["item"]
        needs = [name for name in state.place.needs if self._nodes[name].phase is Phase.COMPLETED]
        if len(state.place.needs) == 1 and needs:
            return self.output_of(self._nodes[needs[0]])
        if not state.place.needs:
            return self.input
        return {**{name: self.output_of(self._nodes[name]) for name in needs}, "input": self.input}

    def title_of(self, state: NodeState) -> str:
        assert state.node.human
        title = state.node.human.title
        return str(filled(title, self._for(title, state))) or state.name

    def chosen(self, state: NodeState) -> frozenset[str]:
        """The nodes that a router's output names."""
        said = self.output_of(state)
        if isinstance(said, Mapping) and "choose" in said:
            said = said["choose"]
        names = [said.strip()] if isinstance(said, str) else said
        if not isinstance(names, list) or not all(name in state.node.choose for name in names):
            choices = ", ".join(state.node.choose)
            raise BadInput(problem=f"{state.name} chose {str(said)[:80]!r}, which is none of {choices}")
        return frozenset(names)

    def happened(self, trigger: Trigger, source: NodeState) -> bool:
        if trigger.node != source.name:
            return False
        match trigger.event:
            case "finished":
                return source.phase is Phase.COMPLETED
            case "failed":
                return source.phase is Phase.FAILED
            case _:
                output = self.output_of(source)
                return isinstance(output, Mapping) and bool(output.get(trigger.field))

    # Loops

    def round_of(self, deciding: NodeState, region: Iterable[str]) -> None:
        """A node begins others again; loops inside of that begin to count anew."""
        rounds = self.rounds.get(deciding.name, 0) + 1
        for name in region:
            self.rounds.pop(name, None)
        self.rounds[deciding.name] = rounds

    def previous(self, state: NodeState, deciding: NodeState) -> dict[str, object]:
        """What a node gave last, and what the one said that begins it again."""
        return {"output": self.view(state.name)["output"], deciding.name: self.view(deciding.name)}

    # The end

    def result(self) -> object:
        """What the graph gives: what it says itself, or the outputs of its sinks by name."""
        if self._graph.output is not None:
            return filled(self._graph.output, self._for(self._graph.output))
        return self.sinks()

    def sinks(self) -> dict[str, object]:
        done = (self._nodes[name] for name in self._shape.sinks)
        return {
            state.name: self.output_of(state)
            for state in done
            if state.phase is Phase.COMPLETED and not self._is_unread(state)
        }


def _wanted(graph: GraphDefinition, shape: Shape) -> Names:
    """The nodes whose outputs somebody will ask for. What nobody asks for stays where it is."""
    names = set(mentioned(graph.output)) if graph.output is not None else set(shape.sinks)
    begins_again = any(node.again for node in graph.nodes.values())
    for name, node in graph.nodes.items():
        for text in (node.when, node.each, node.input, node.again.when if node.again else None):
            if text is not None and any(True for _ in texts(text)):
                names |= mentioned(text)
        if node.human:
            names |= mentioned(node.human.title)
        if node.input is None and node.each is None and not node.human:
            names.update(shape.places[name].needs)
        names.update(trigger.node for trigger in shape.places[name].triggers if trigger.event == "output")
        if node.choose or node.spawn:
            names.add(name)
    if begins_again and PREVIOUS in names:
        names.update(graph.nodes)
    return frozenset(names)


def _kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case str():
            return "text"
        case Mapping():
            return "an object"
        case _:
            return type(value).__name__
