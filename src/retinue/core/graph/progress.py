"""How far the nodes of a graph are, as the journal of its run says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from retinue.core.graph.call import NodeCall
from retinue.core.graph.state import Phase
from retinue.core.outcome import Status, Waits
from retinue.core.run import Child, RunState, Ticket


@dataclass(slots=True)
class Progress:
    """One node in its newest iteration. `of` is how many items it has, where it is run for each of some."""

    node: str
    iteration: int = 1
    of: int | None = None
    running: int = 0
    done: set[int | None] = field(default_factory=set)
    failed: set[int | None] = field(default_factory=set)
    asks: bool = False
    skipped: str = ""
    begun: bool = False

    @property
    def phase(self) -> Phase:
        if self.skipped:
            return Phase.CANCELLED if self.begun else Phase.SKIPPED
        if self.asks or self.running:
            return Phase.RUNNING
        if self.of is not None and len(self.done) + len(self.failed) < self.of:
            return Phase.FAILED if self.failed else Phase.RUNNING
        if self.failed:
            return Phase.COMPLETED if self.done and self.of is not None else Phase.FAILED
        return Phase.COMPLETED if self.done else Phase.WAITING

    @property
    def left(self) -> int | None:
        """How many items have no result and do not run."""
        return None if self.of is None else self.of - len(self.done) - len(self.failed) - self.running


def progress_of(state: RunState, order: Iterable[str], past: Iterable[Child] = ()) -> dict[str, Progress]:
    """All nodes in their order; `past` are runs of an earlier run of the graph whose outputs are used again."""
    found = {name: Progress(name) for name in order}
    for child in (*past, *state.children.values()):
        if call := NodeCall.parse(child.call_id):
            _take(_newest(found, call), call, child.status, child.of)
    for ticket in state.tickets.values():
        if call := NodeCall.parse(ticket.call_id):
            _take_ticket(_newest(found, call), ticket)
    for key, why in state.skipped.items():
        name, _, iteration = key.partition("#")
        progress = _newest(found, NodeCall(name, None, int(iteration or 1)))
        if progress.iteration == int(iteration or 1):
            progress.skipped = why
    return found


def _newest(found: dict[str, Progress], call: NodeCall) -> Progress:
    """The progress of a call's node; begun anew when the call is of a later iteration."""
    progress = found.setdefault(call.node, Progress(call.node))
    if call.iteration > progress.iteration:
        progress = found[call.node] = Progress(call.node, call.iteration)
    return progress


def _take_ticket(progress: Progress, ticket: Ticket) -> None:
    progress.begun, progress.asks = True, ticket.decision is None
    if ticket.decision in ("answered", "approved") or (ticket.decision == "denied" and ticket.kind is Waits.APPROVAL):
        progress.done.add(None)
    elif ticket.decision in ("denied", "expired"):
        progress.failed.add(None)


def _take(progress: Progress, call: NodeCall, status: Status, of: int | None) -> None:
    if call.iteration != progress.iteration:
        return
    progress.begun, progress.of = True, of if of is not None else progress.of
    progress.failed.discard(call.item)  # it is tried again
    if not status.terminal:
        progress.running += 1
    elif status is Status.COMPLETED:
        progress.done.add(call.item)
    else:
        progress.failed.add(call.item)
