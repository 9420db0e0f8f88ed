"""What a graph that is run again takes from the runs before it."""

from __future__ import annotations

from collections.abc import Mapping

from retinue.core.graph.call import NodeCall
from retinue.core.graph.schedule import Schedule
from retinue.core.graph.shape import Shape
from retinue.core.outcome import Status
from retinue.core.run import Child, RunState, Ticket
from retinue.engine.past import Past


class Reuse:
    """What completed in the past is used as it is: all of it, or all that came before `again`, the node that is to be
    run again, was begun for the last time."""

    def __init__(self, past: Past, schedule: Schedule, again: str | None) -> None:
        self._past, self._schedule, self._again = past, schedule, again
        self._from = max((call.iteration for call in _calls_in(past) if call.node == again), default=1)
        self._then: Mapping[str, int] | None = None
        """Where all nodes stood when that one was begun, which is the moment up to which the past counts."""
        self._shape: Shape | None = None
        self._after: frozenset[str] = frozenset()
        self._influenced: frozenset[str] = frozenset()

    def child(self, call: NodeCall) -> Child | None:
        """The run of the past that gives a node its output."""
        found = None if self.is_fresh(call) else self._past.child(str(call))
        return found if found and found.status is Status.COMPLETED else None

    def ticket(self, call: NodeCall) -> Ticket | None:
        """What a person has answered."""
        return None if self.is_fresh(call) else self._past.ticket(str(call))

    def is_fresh(self, call: NodeCall) -> bool:
        """Whether nothing of the past counts for a call. Asked for each in the order in which they begin."""
        if self._again is None:
            return False
        if self._then is None:
            if call.node != self._again or call.iteration < self._from:
                return False
            self._then = {name: state.iteration for name, state in self._schedule.nodes.items()}
        if self._shape is not self._schedule.shape:  # nodes may have been added
            self._shape = self._schedule.shape
            self._after = frozenset(self._shape.after(self._again))
            self._influenced = self._schedule.influenced(self._again)
        then = self._then.get(call.node, 0)
        if call.node in self._after:
            return call.iteration >= then
        return call.node in self._influenced and call.iteration > then


def _calls_in(past: Past) -> list[NodeCall]:
    def said(state: RunState) -> list[NodeCall | None]:
        return [NodeCall.parse(call_id) for call_id in (*state.children, *state.ticket_of_call)]

    return [call for state in past.states for call in said(state) if call]
