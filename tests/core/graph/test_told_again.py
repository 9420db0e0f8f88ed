"""A graph that is told again what its journal says comes to where it was, wherever that is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.core.graph.actions import Ended, Recorded, Start, Stop
from retinue.core.graph.call import NodeCall
from retinue.core.graph.definition import GraphDefinition
from retinue.core.graph.schedule import Schedule
from retinue.core.graph.values import Values
from retinue.core.outcome import Failure, Reason, Status
from tests.core.graph.playing import graph

SEEN = ("phase", "iteration", "live", "run_ids", "failed")


class Told:
    """A schedule and its journal: all ends in order, also those of runs that were stopped."""

    def __init__(self, definition: GraphDefinition, recorded: Recorded | None = None) -> None:
        self.schedule = Schedule(definition, Values(None), recorded or Recorded())
        self.started: list[NodeCall] = []
        self.skipped: set[str] = set()
        self.running: list[NodeCall] = []
        self.log: list[Ended] = []
        self.now = 0
        self.rest()

    def rest(self) -> None:
        moved = True
        while moved:
            schedule = self.schedule
            schedule.values.came |= {one.run_id: one.run_id for one in schedule.arrived if one.run_id}
            for state in schedule.unloaded:
                ids = [state.run_ids.get(n) for n in range(state.size)]
                schedule.values.outputs[state.name] = state.run_ids.get(None) if state.items is None else ids
            for action in schedule.advance(self.now):
                match action:
                    case Start(call=call):
                        self.started.append(call)
                        self.running.append(call)
                    case Stop(call=call):
                        self.running.remove(call)
                        self.log.append(_end(call, self.now, Status.CANCELLED, Reason.CANCELLED))
                    case other:
                        self.skipped.add(other.key)  # type: ignore[union-attr]
            moved = schedule.unsettled

    def end(self, ended: Ended) -> None:
        self.log.append(ended)
        self.hear(ended)

    def hear(self, ended: Ended) -> None:
        self.now = ended.at
        self.rest()
        if self.schedule.waits_for(ended.call):
            self.schedule.ended(ended)
            self.running.remove(ended.call)
        self.rest()

    @property
    def recorded(self) -> Recorded:
        return Recorded(frozenset((call.node, call.iteration) for call in self.started), frozenset(self.skipped))

    def seen(self) -> object:
        return [(name, *(getattr(state, one) for one in SEEN)) for name, state in sorted(self.schedule.nodes.items())]


def _end(call: NodeCall, at: int, status: Status, reason: Reason) -> Ended:
    error = None if status is Status.COMPLETED else Failure(kind="Fails", message="it failed")
    return Ended(call=call, run_id=str(call), status=status, reason=reason, error=error, at=at)


@st.composite
def graphs(draw: st.DrawFn) -> GraphDefinition:
    nodes: dict[str, object] = {}
    for n in range(draw(st.integers(2, 7))):
        name, before = f"n{n}", sorted(nodes)
        needs = draw(st.lists(st.sampled_from(before), unique=True, max_size=2)) if before else list[str]()
        node: dict[str, object] = {"needs": needs, "late": draw(st.sampled_from(["cancel", "leave"]))}
        if bool(needs) and draw(st.booleans()):
            condition = f"{{{{ '1.1' in ({needs[0]}.output | string) }}}}"
            node |= draw(st.sampled_from([{"join": "any"}, {"when": condition}]))
        if draw(st.integers(0, 3)) == 0:
            follows = [need for need in needs if "each" in nodes[need]]  # type: ignore[operator]
            node |= {"each": f"{{{{ {follows[0]}.output }}}}" if follows else [1, 2, 3], "parallel": 2}
        if bool(needs) and draw(st.integers(0, 3)) == 0:
            condition = f"{{{{ '#1.' in ({name}.output | string) }}}}"
            node["again"] = {"when": condition, "from": draw(st.sampled_from([needs[0], name])), "at_most": 2}
        if draw(st.integers(0, 4)) == 0:
            node["retry"] = {"tries": 2, "delay": 0.01}
        nodes[name] = node
    keys = {
        "strategy": draw(st.sampled_from(["flow", "level", "sequence"])),
        "on_error": draw(st.sampled_from(["stop", "continue", "skip_dependents"])),
        "limits": {"parallel": draw(st.integers(1, 4))},
    }
    return graph(nodes, **keys)


@settings(max_examples=300)
@given(graphs(), st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 20)), max_size=30))
def test_G11_it_comes_to_where_it_was_after_any_number_of_ends(
    definition: GraphDefinition, ends: list[tuple[int, bool, int]]
) -> None:
    first = Told(definition)
    for which, fails, pause in ends:
        first.now += pause
        if not first.running:
            first.rest()
            continue
        call = first.running[which % len(first.running)]
        status, reason = (Status.FAILED, Reason.TOOL_ERROR) if fails else (Status.COMPLETED, Reason.GOAL)
        first.end(_end(call, first.now, status, reason))
    again = Told(definition, first.recorded)
    for ended in first.log:
        again.hear(ended)
    again.now = first.now
    again.rest()
    assert again.seen() == first.seen()
    assert sorted(map(str, again.started)) == sorted(map(str, first.started))
    assert bool(again.schedule.stopped) is bool(first.schedule.stopped)
