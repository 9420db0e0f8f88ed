"""One attempt at a graph: what the schedule wants is done, and what comes of it is told to the schedule.

A run that is resumed begins with a schedule that knows nothing, and is told again what the journal says, in its order.
So the schedule comes to where it was; what it wants on the way and there is already is not done twice.
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
from retinue.runners.graph.reuse import Reuse

MAX_MINUTES = "max_minutes"


class Play:
    """Plays a graph to its end."""

    def __init__(self, ctx: RunContext, graph: GraphDefinition) -> None:
        self._ctx, self._graph = ctx, graph
        queued = ctx.state.queued
        assert queued
        entry = queued.at_node
        given, outputs = _given_before(ctx, graph, entry)
        values = Values(given, _given(ctx, graph), outputs)
        only = frozenset(shape_of(graph.nodes)[0].after(entry)) if entry else None
        self._schedule = Schedule(graph, values, _recorded(ctx, entry), only)
        self._reuse = Reuse(ctx.past, self._schedule, queued.again_at)
        self._heard = 0
        self._early: dict[str, int] = {}
        """Ends that the schedule does not wait for, with their times."""
        self._starts: dict[str, Start] = {}
        self._asks: dict[str, AskPerson] = {}
        self._stops: list[str] = []

    async def run(self) -> Outcome:
        ctx, schedule = self._ctx, self._schedule
        if ctx.run.depth > self._graph.limits.max_depth:
            message = f"graphs run graphs {self._graph.limits.max_depth} deep here, and no deeper"
            return Outcome.failed(Reason.INVALID, "TooDeep", message)
        await self._advance(ctx.state.started_at)
        if ctx.state.limit == MAX_MINUTES:  # it was being stopped
            await self._hear()
            return await self._stop_all()
        while True:
            await ctx.pass_gate("a node")
            await self._hear()
            await self._advance(ctx.clock.now_ms())
            await self._do()
            if schedule.unsettled or self._heard < len(ctx.state.settled):
                continue
            if schedule.done and not ctx.state.open_children:
                return self._outcome()
            if self._is_late():
                return await self._stop_all()
            await self._wait()

    # Hearing

    async def _hear(self) -> None:
        """Tell the schedule what has ended since, one after the other and each at its time, so that it comes to the
        same whenever it is told."""
        settled = self._ctx.state.settled
        while self._heard < len(settled):
            call_id, at = settled[self._heard]
            self._heard += 1
            due = self._schedule.next_due
            if due is not None and due <= at:
                await self._advance(at)
            call = NodeCall.parse(call_id)
            if call and self._schedule.waits_for(call):
                await self._tell(call, at)
            elif call:
                self._early[call_id] = at
            await self._advance(at)

    async def _advance(self, now: int) -> None:
        """Let the schedule come to rest. What it wants is kept until all is heard: it may want it no more by then."""
        moved = True
        while moved:
            await self._load()
            moved = False
            for action in self._schedule.advance(now):
                moved |= await self._plan(action)
            moved |= self._schedule.unsettled

    async def _plan(self, action: Action) -> bool:
        """Keep what is to be done; tell at once what has come of it already. Whether anything has."""
        ctx = self._ctx
        match action:
            case Start(call=call) | AskPerson(call=call):
                call_id = str(call)
                if call_id in self._early:
                    await self._tell(call, self._early.pop(call_id))
                    return True
                if call_id in ctx.state.children or call_id in ctx.state.ticket_of_call:
                    return False
                if isinstance(action, Start):
                    if child := self._reuse.child(call):
                        await self._tell_end(call, child, ctx.clock.now_ms())
                        return True
                    self._starts[call_id] = action
                else:
                    if ticket := self._reuse.ticket(call):
                        self._tell_answer(call, ticket)
                        return True
                    self._asks[call_id] = action
            case Skip(key=key, why=why):
                if key not in ctx.state.skipped:
                    ctx.note(e.NodeSkipped(node=key, why=why))
            case Stop(call=call):
                if not (self._starts.pop(str(call), None) or self._asks.pop(str(call), None)):
                    self._stops.append(str(call))
            case other:
                assert_never(other)
        return False

    async def _tell(self, call: NodeCall, at: int) -> None:
        state, call_id = self._ctx.state, str(call)
        if child := state.children.get(call_id):
            await self._tell_end(call, child, at)
        else:
            self._tell_answer(call, state.ticket_of_call[call_id])

    async def _tell_end(self, call: NodeCall, child: Child, at: int) -> None:
        error = None
        if child.status is not Status.COMPLETED:
            ended = await self._ctx.outcomes([child.run_id])
            error = ended[child.run_id].error if child.run_id in ended else None
        assert child.reason
        self._schedule.ended(
            Ended(call=call, run_id=child.run_id, status=child.status, reason=child.reason, error=error, at=at)
        )

    def _tell_answer(self, call: NodeCall, ticket: Ticket) -> None:
        decision = ticket.decision or "void"
        self._schedule.answered(Answered(call=call, decision=decision, value=ticket.value, message=ticket.message))

    async def _load(self) -> None:
        """Read what nodes gave that somebody will ask for."""
        if came := [one.run_id for one in self._schedule.arrived if one.run_id]:
            ended = await self._ctx.outcomes(came)
            self._schedule.values.came |= {run_id: ended[run_id].output for run_id in came if run_id in ended}
        for state in self._schedule.unloaded:
            if not state.node.human:
                self._schedule.values.outputs[state.name] = await self._output(state)

    async def _output(self, state: NodeState) -> object:
        ended = await self._ctx.outcomes(list(state.run_ids.values()))
        outputs = {item: ended[run_id].output for item, run_id in state.run_ids.items() if run_id in ended}
        return outputs.get(None) if state.items is None else [outputs.get(n) for n in range(state.size)]

    # Doing

    async def _do(self) -> None:
        """What nobody waits for is stopped; what is new begins, all in one commit."""
        while self._stops:
            await self._stop(self._stops.pop())
        if self._asks:
            await self._ctx.open_tickets(*(self._ticket(asked) for asked in self._asks.values()))
            self._asks.clear()
        if self._starts:
            starts, self._starts = list(self._starts.values()), {}
            for fresh in (False, True):
                await self._start([one for one in starts if self._reuse.is_fresh(one.call) is fresh], fresh=fresh)

    async def _start(self, starts: Sequence[Start], *, fresh: bool) -> None:
        """Together; when one of them is refused, one by one, so that each is refused for itself."""
        if not starts:
            return
        of = {str(start.call): start.of for start in starts if start.of is not None}
        try:
            async with self._ctx.entered("a node"):
                requests = [(str(start.call), self._request(start, fresh=fresh)) for start in starts]
                await self._ctx.start_children(requests, fresh=fresh, of=of)
        except BadInput as error:
            if len(starts) == 1:
                self._refused(starts[0].call, error)
                return
            for start in starts:
                await self._start([start], fresh=fresh)

    @staticmethod
    def _request(start: Start, *, fresh: bool) -> Request:
        minutes = start.timeout / 60 if start.timeout else None
        cache = 0.0 if fresh and start.cache is not None else start.cache  # it is to be run again
        return Request(target=start.target, input=start.input, max_minutes=minutes, cache=cache)

    def _refused(self, call: NodeCall, error: BadInput) -> None:
        failed = Ended(call=call, run_id="", status=Status.FAILED, reason=Reason.INVALID, error=failure_of(error))
        self._schedule.ended(failed)

    def _ticket(self, asked: AskPerson) -> e.TicketOpened:
        human = asked.human
        kind = Waits.APPROVAL if human.kind == "approve" else Waits.INPUT
        return self._ctx.ticket(str(asked.call), kind, asked.title, schema=human.form, expires_in=human.expires)

    async def _stop(self, call_id: str) -> None:
        """Nobody waits for it any more."""
        if ticket := self._ctx.state.ticket_of_call.get(call_id):
            if ticket.decision is None:
                self._ctx.note(e.TicketClosed(ticket_id=ticket.ticket_id, decision="void"))
            return
        await self._ctx.cancel_child(call_id, "its graph does not wait for it any more")

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
