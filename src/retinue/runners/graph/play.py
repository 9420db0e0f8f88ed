"""One attempt at a graph: what the schedule wants is done, and what comes of it is told to the schedule.

A run that is resumed begins with a schedule that knows nothing, and is told again what the journal says. Starting
a child that there is changes nothing, so the schedule comes to where it was without anything being done twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import assert_never

from retinue.core import events as e
from retinue.core.graph.actions import Action, Answered, AskPerson, Ended, Recorded, Skip, Start, Stop
from retinue.core.graph.call import NodeCall
from retinue.core.graph.definition import GraphDefinition
from retinue.core.graph.schedule import Schedule
from retinue.core.graph.shape import shape_of
from retinue.core.graph.state import NodeState
from retinue.core.graph.values import Values
from retinue.core.outcome import Failure, Outcome, Reason, Status, Waits
from retinue.core.run import Child, Ticket
from retinue.engine.context import RunContext, failure_of
from retinue.engine.submit import Request
from retinue.errors import BadInput

MAX_MINUTES = "max_minutes"


class Play:
    """Plays a graph to its end."""

    def __init__(self, ctx: RunContext, graph: GraphDefinition) -> None:
        self._ctx, self._graph = ctx, graph
        queued = ctx.state.queued
        assert queued
        entry, again = queued.at_node, queued.again_at
        given, outputs = _given_before(ctx, graph, entry)
        values = Values(given, _given(ctx, graph), outputs)
        shape, _ = shape_of(graph.nodes)
        self._fresh = frozenset(shape.after(again) if again else ())
        only = frozenset(shape.after(entry)) if entry else None
        self._schedule = Schedule(graph, values, _recorded(ctx, entry), only)
        self._heard = 0
        self._early: dict[str, int] = {}
        """Ends of children that the schedule does not wait for yet, with their times: it is being told again."""
        self._of: dict[str, int] = {}

    async def run(self) -> Outcome:
        ctx, schedule = self._ctx, self._schedule
        if ctx.run.depth > self._graph.limits.max_depth:
            message = f"graphs run graphs {self._graph.limits.max_depth} deep here, and no deeper"
            return Outcome.failed(Reason.INVALID, "TooDeep", message)
        if ctx.state.limit == MAX_MINUTES:  # it was being stopped
            return await self._stop_all()
        while True:
            await ctx.pass_gate("a node")
            await self._load()
            await self._do(schedule.advance(ctx.clock.now_ms()))
            if await self._hear() or schedule.unsettled:
                continue
            if schedule.done and not ctx.state.open_children:
                return self._outcome()
            if self._is_late():
                return await self._stop_all()
            await self._wait()

    # Doing

    async def _do(self, actions: Sequence[Action]) -> None:
        starts: list[Start] = []
        opened: list[e.TicketOpened] = []
        for action in actions:
            match action:
                case Start():
                    starts.append(action)
                case AskPerson():
                    opened += self._ticket(action)
                case Skip(key=key, why=why):
                    if key not in self._ctx.state.skipped:
                        self._ctx.note(e.NodeSkipped(node=key, why=why))
                case Stop(call=call):
                    await self._stop(str(call))
                case other:
                    assert_never(other)
        if opened:
            await self._ctx.open_tickets(*opened)
        await self._start(starts)

    async def _start(self, starts: Sequence[Start]) -> None:
        """All that is new in one commit; of what there is already, hear what came of it."""
        self._of = {str(start.call): start.of for start in starts if start.of is not None}
        ready: list[tuple[str, Request]] = []
        fresh: list[tuple[str, Request]] = []
        for start in starts:
            call_id, is_fresh = str(start.call), start.call.node in self._fresh
            child = self._ctx.state.children.get(call_id) if is_fresh else self._ctx.child_of(call_id)
            if child is None:
                minutes = start.timeout / 60 if start.timeout else None
                request = Request(target=start.target, input=start.input, max_minutes=minutes)
                (fresh if is_fresh else ready).append((call_id, request))
            elif call_id in self._early or call_id not in self._ctx.state.children:
                await self._tell(start.call, child, self._early.pop(call_id, self._ctx.clock.now_ms()))
        await self._start_all(ready, fresh=False)
        await self._start_all(fresh, fresh=True)

    async def _start_all(self, requests: list[tuple[str, Request]], *, fresh: bool) -> None:
        """Together; when one of them is refused, one by one, so that each is refused for itself."""
        if not requests:
            return
        try:
            async with self._ctx.entered("a node"):
                await self._ctx.start_children(requests, fresh=fresh, of=self._of)
        except BadInput as error:
            if len(requests) == 1:
                self._refused(requests[0][0], error)
                return
            for request in requests:
                await self._start_all([request], fresh=fresh)

    def _refused(self, call_id: str, error: BadInput) -> None:
        call = NodeCall.parse(call_id)
        assert call
        failed = Ended(call=call, run_id="", status=Status.FAILED, reason=Reason.INVALID, error=failure_of(error))
        self._schedule.ended(failed)

    def _ticket(self, asked: AskPerson) -> list[e.TicketOpened]:
        call_id, human = str(asked.call), asked.human
        ticket = self._ctx.state.ticket_of_call.get(call_id) or self._past_ticket(asked.call)
        if ticket is None:
            kind = Waits.APPROVAL if human.kind == "approve" else Waits.INPUT
            return [self._ctx.ticket(call_id, kind, asked.title, schema=human.form, expires_in=human.expires)]
        if ticket.decision is not None:
            self._answered(asked.call, ticket)
        return []

    def _past_ticket(self, call: NodeCall) -> Ticket | None:
        return None if call.node in self._fresh else self._ctx.past.ticket(str(call))

    async def _stop(self, call_id: str) -> None:
        """Nobody waits for it any more."""
        if ticket := self._ctx.state.ticket_of_call.get(call_id):
            if ticket.decision is None:
                self._ctx.note(e.TicketClosed(ticket_id=ticket.ticket_id, decision="void"))
            return
        await self._ctx.cancel_child(call_id, "its graph does not wait for it any more")

    # Hearing

    async def _hear(self) -> bool:
        """Tell the schedule what has ended since. Whether there was anything."""
        settled, before = self._ctx.state.settled, self._heard
        while self._heard < len(settled):
            call_id, at = settled[self._heard]
            self._heard += 1
            if call := NodeCall.parse(call_id):
                await self._heard_of(call, call_id, at)
        return self._heard > before

    async def _heard_of(self, call: NodeCall, call_id: str, at: int) -> None:
        state = self._ctx.state
        if not self._schedule.waits_for(call):
            self._early[call_id] = at
        elif child := state.children.get(call_id):
            await self._tell(call, child, at)
        elif ticket := state.ticket_of_call.get(call_id):
            self._answered(call, ticket)

    async def _tell(self, call: NodeCall, child: Child, at: int) -> None:
        error = None
        if child.status is not Status.COMPLETED:
            ended = await self._ctx.outcomes([child.run_id])
            error = ended[child.run_id].error if child.run_id in ended else None
        assert child.reason
        self._schedule.ended(
            Ended(call=call, run_id=child.run_id, status=child.status, reason=child.reason, error=error, at=at)
        )

    def _answered(self, call: NodeCall, ticket: Ticket) -> None:
        decision = ticket.decision or "void"
        self._schedule.answered(Answered(call=call, decision=decision, value=ticket.value, message=ticket.message))

    async def _load(self) -> None:
        """Read what nodes gave that somebody will ask for."""
        for state in self._schedule.unloaded:
            if not state.node.human:
                self._schedule.values.outputs[state.name] = await self._output(state)

    async def _output(self, state: NodeState) -> object:
        ended = await self._ctx.outcomes(list(state.run_ids.values()))
        outputs = {item: ended[run_id].output for item, run_id in state.run_ids.items() if run_id in ended}
        return outputs.get(None) if state.items is None else [outputs.get(n) for n in range(state.size)]

    # Waiting

    async def _wait(self) -> None:
        ctx, schedule = self._ctx, self._schedule
        waits: dict[Waits, int | None] = {}
        if ctx.state.open_children:
            waits[Waits.CHILDREN] = None
        for ticket in ctx.state.open_tickets.values():
            waits[ticket.kind] = None
        due = min((at for at in (schedule.next_due, self._ends) if at is not None), default=None)
        timer = None
        if due is not None:
            waits[Waits.TIMER] = due
            timer = ctx.clock.call_later(max(0, due - ctx.clock.now_ms()) / 1000, ctx.gate.stir)
        try:
            await ctx.gate.block_for("its nodes", waits, in_memory=True)
        finally:
            if timer:
                timer.cancel()

    @property
    def _ends(self) -> int | None:
        """When its time is over. The time in which only people were waited for does not count."""
        minutes, state = self._graph.limits.max_minutes, self._ctx.state
        if minutes is None or (self._schedule.asking and not self._schedule.live):
            return None
        return state.started_at + state.asked_ms + int(minutes * 60_000)

    def _is_late(self) -> bool:
        return self._ends is not None and self._ctx.clock.now_ms() >= self._ends

    async def _stop_all(self) -> Outcome:
        if self._ctx.state.limit != MAX_MINUTES:
            self._ctx.note(e.LimitReached(reason=Reason.TIMEOUT, limit=MAX_MINUTES))
        for call_id in list(self._ctx.state.open_children):
            await self._ctx.cancel_child(call_id, "the time of its graph is over")
        while self._ctx.state.open_children:
            await self._ctx.gate.block("its nodes", Waits.CHILDREN, in_memory=True)
        message = f"it ran for {self._graph.limits.max_minutes:g} minutes"
        failure = Failure(kind="timeout", message=message)
        return Outcome(status=Status.TIMED_OUT, reason=Reason.TIMEOUT, error=failure, partial=self._partial())

    # The end

    def _outcome(self) -> Outcome:
        schedule = self._schedule
        if failed := schedule.stopped:
            why = failed.error.message if failed.error else ""
            error = Failure(kind="NodeFailed", message=f"the node {failed.key} failed: {why}")
            reason = failed.reason or Reason.INTERNAL
            return Outcome(status=Status.FAILED, reason=reason, error=error, partial=self._partial())
        try:
            return Outcome.completed(schedule.values.result())
        except BadInput as error:
            failure = replace(failure_of(error), message=f"its output cannot be made: {error}")
            return Outcome(status=Status.FAILED, reason=Reason.INVALID, error=failure, partial=self._partial())

    def _partial(self) -> object:
        """What there is of its output."""
        return self._schedule.values.sinks() or None


def _given(ctx: RunContext, graph: GraphDefinition) -> dict[str, object]:
    """What every expression is given."""
    asked = datetime.fromtimestamp(ctx.run.created_at / 1000, UTC)
    return {
        "today": asked.date().isoformat(),
        "now": asked.isoformat(timespec="seconds"),
        "graph": graph.name,
        "run_id": ctx.run.id,
    }


def _given_before(ctx: RunContext, graph: GraphDefinition, entry: str | None) -> tuple[object, dict[str, object]]:
    """The graph's input; and where it is started inside, the outputs of nodes, which then stand among its keys."""
    if entry is None or not isinstance(ctx.input, Mapping):
        return ctx.input, {}
    outputs = {name: value for name, value in ctx.input.items() if name in graph.nodes}
    rest = {name: value for name, value in ctx.input.items() if name not in graph.nodes}
    return (rest["input"] if set(rest) == {"input"} else rest), outputs


def _recorded(ctx: RunContext, entry: str | None) -> Recorded:
    calls = (*ctx.state.children, *ctx.state.ticket_of_call)
    begun = {(call.node, call.iteration) for call in map(NodeCall.parse, calls) if call}
    if entry:
        begun.add((entry, 1))
    return Recorded(frozenset(begun), frozenset(ctx.state.skipped))
