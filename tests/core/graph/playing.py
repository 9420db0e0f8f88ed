"""A graph played through without an engine: each run ends as the test says, in the order that it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from retinue.core.declared import has_errors, read
from retinue.core.graph.actions import Answered, AskPerson, Ended, Recorded, Skip, Start, Stop
from retinue.core.graph.checking import check_graph
from retinue.core.graph.definition import GraphDefinition
from retinue.core.graph.schedule import Schedule
from retinue.core.graph.state import NodeState
from retinue.core.graph.values import Values
from retinue.core.outcome import Failure, Reason, Status


class Fails(Exception):
    """A run of a node fails."""

    def __init__(self, reason: Reason = Reason.TOOL_ERROR) -> None:
        self.reason = reason


Work = Callable[[str, object], object]


def graph(nodes: Mapping[str, Any], **more: Any) -> GraphDefinition:
    said = {
        name: node if "human" in node or "run" in node else {"run": "model:test", **node}
        for name, node in nodes.items()
    }
    made, problems = read(GraphDefinition, {"name": "g", "nodes": said, **more}, strict=True)
    problems += check_graph(made) if made else []
    assert made is not None
    assert not has_errors(problems), [str(problem) for problem in problems]
    return made


@dataclass
class Play:
    """Plays a graph. `started` are the calls in the order in which they were started, `most` how many ran at once."""

    graph: GraphDefinition
    work: Work = lambda call, given: call
    input: object = None
    last_first: bool = False
    recorded: Recorded = field(default_factory=Recorded)
    only: frozenset[str] | None = None
    outputs: dict[str, object] = field(default_factory=dict)
    now: int = 0

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.graph, Values(self.input, outputs=dict(self.outputs)), self.recorded, self.only)
        self.started: list[str] = []
        self.given: dict[str, object] = {}
        self.targets: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.stopped: list[str] = []
        self.asked: list[AskPerson] = []
        self.running: list[Start] = []
        self.results: dict[str, object] = {}
        self.most = 0

    def act(self) -> None:
        """Do all that is to be done now."""
        self._do()
        while self.schedule.unsettled:
            self.load()
            self._do()

    def _do(self) -> None:
        for action in self.schedule.advance(self.now):
            match action:
                case Start():
                    self.running.append(action)
                    self.started.append(str(action.call))
                    self.given[str(action.call)] = action.input
                    self.targets[str(action.call)] = action.target
                case AskPerson():
                    self.asked.append(action)
                case Skip(key=key, why=why):
                    self.skipped[key] = why
                case Stop(call=call):
                    self.stopped.append(str(call))
                    self.running = [one for one in self.running if one.call != call]
        self.most = max(self.most, len(self.running))

    def end_one(self) -> None:
        """Let one run end."""
        one = self.running.pop(-1 if self.last_first else 0)
        call_id = str(one.call)
        try:
            self.results[call_id] = self.work(call_id, one.input)
            status, reason, error = Status.COMPLETED, Reason.GOAL, None
        except Fails as failed:
            status, reason, error = Status.FAILED, failed.reason, Failure(kind="Fails", message=f"{call_id} failed")
        ended = Ended(call=one.call, run_id=call_id, status=status, reason=reason, error=error, at=self.now)
        self.schedule.ended(ended)
        self.load()

    def answer(self, value: object = None, decision: str = "answered") -> None:
        asked = self.asked.pop(0)
        self.schedule.answered(Answered(call=asked.call, decision=decision, value=value))
        self.load()

    def load(self) -> None:
        came = [one.run_id for one in self.schedule.arrived if one.run_id]
        self.schedule.values.came |= {run_id: self.results[run_id] for run_id in came}
        for state in self.schedule.unloaded:
            self.schedule.values.outputs[state.name] = self.output(state)

    def output(self, state: NodeState) -> object:
        if state.items is None:
            return self.results.get(state.run_ids.get(None, ""))
        return [self.results.get(state.run_ids.get(n, "")) for n in range(state.size)]

    def to_end(self) -> Play:
        """Until nothing is left to do, or only people and clocks are waited for."""
        self.act()
        while self.running or self.schedule.next_due is not None:
            if self.running:
                self.end_one()
            else:
                self.now = self.schedule.next_due or self.now
            self.act()
        return self

    @property
    def phases(self) -> dict[str, str]:
        return {name: state.phase.value for name, state in self.schedule.nodes.items()}
