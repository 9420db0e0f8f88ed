"""The calls of one turn: all are checked before any runs, then they run in their order, and each has one result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from retinue.core import events as e
from retinue.core import notes
from retinue.core.agent import AgentDefinition
from retinue.core.approval import EXPIRED, Verdict, settle
from retinue.core.loop import lost, order_of
from retinue.core.messages import ToolCall
from retinue.core.outcome import Effect, Failure, Waits
from retinue.core.policy import Action, Decision, Policy, decide
from retinue.core.run import Ticket, asker_of
from retinue.core.tool import CLIENT, FINISH
from retinue.engine.alarm import Alarm
from retinue.engine.context import RunContext
from retinue.runners.local.delegation import DelegationTool
from retinue.runners.local.interrupted import Interrupted
from retinue.runners.local.invocation import Asks, invoke
from retinue.runners.local.kit import Kit
from retinue.runners.local.ready import Ready, started

LONGEST_SHOWN, MOST_LISTED = 80, 100
OVER = "It was not called: the time of the run was over."


class Calls:
    """Performs the calls of a run's answers."""

    def __init__(self, ctx: RunContext, agent: AgentDefinition, kit: Kit, policy: Policy, alarm: Alarm) -> None:
        self._ctx, self._agent, self._kit, self._alarm = ctx, agent, kit, alarm
        self.policy = _remembering(ctx, kit, policy)

    @property
    def _interrupted(self) -> Interrupted:
        """Made when it is needed: kept, it and this would hold each other, and all of the attempt with them."""
        return Interrupted(self._ctx, self._agent, self._allowed_again)

    async def perform(self, calls: Sequence[ToolCall], offered: Sequence[str]) -> None:
        """Give each call its one result, unless the run cannot go on. What completes the task comes last."""
        ready: list[Ready] = []
        for call in calls:
            if call.tool == FINISH and FINISH in offered:
                continue
            match self._judge(call, offered):
                case str() as why:
                    self._refuse(call, why)
                case one:
                    ready.append(one)
        await self._open_tickets(ready)
        await self._run(ready)
        for call in calls:
            if call.tool == FINISH and FINISH in offered and not self._cannot_go_on():
                self._complete(call)

    def _cannot_go_on(self) -> bool:
        return lost(self._ctx.state, self._agent) is not None

    def _refuse(self, call: ToolCall, why: str) -> None:
        """It is not called; or not again, when it was under way and cannot be called any more."""
        if begun := self._ctx.state.open_calls.get(call.call_id):
            unknown = self._interrupted.is_unknown(begun)
            error = Failure(kind="refused", message=f"{why} {notes.unknown(begun.tool)}" if unknown else why)
            self._ctx.note(e.ToolFinished(call_id=call.call_id, ok=False, error=error, unknown=unknown))
            return
        tool = self._kit.tools.get(call.tool)
        name = tool.name if tool else call.tool
        self._ctx.note(e.ToolRefused(call_id=call.call_id, tool=name, why=why, turn=self._ctx.state.turn or None))

    def _complete(self, call: ToolCall) -> None:
        """The first valid one wins."""
        ctx = self._ctx
        if any(said.ok and ctx.state.asked[said.call_id].tool == FINISH for said in ctx.state.results.values()):
            self._refuse(call, f"{FINISH} was called before in this turn, and that one counts.")
            return
        match self._kit.completion_of(call):
            case str() as why:
                self._refuse(call, why)
            case checked:
                begun = started(ctx.state, call, FINISH, call.arguments, Effect.READ)
                ctx.note(begun, e.ToolFinished(call_id=call.call_id, ok=True, result=checked.value))

    # Judging

    def _judge(self, call: ToolCall, offered: Sequence[str]) -> Ready | str:
        tool = self._kit.tools.get(call.tool)
        if tool is None or tool.name not in offered:
            return f"There is no tool {shown(call.tool)} for you now. You have: {_listed(self._kit.named(offered))}."
        checked = self._kit.arguments_of(call)
        if isinstance(checked, str):
            return checked
        assert isinstance(checked.value, Mapping)
        ready = Ready(call, tool, checked.value)
        if self._has_ticket(call.call_id):
            return replace(ready, decision=Decision(action=Action.ASK))
        decision = decide(self.policy, tool, checked.value)
        match decision.action:
            case Action.ALLOW if tool.origin != CLIENT:
                return ready
            case Action.DENY:
                return notes.refused(_denied_by(decision))
            case Action.ASK if call.call_id in self._ctx.state.calls:
                return ready  # it was allowed before it was interrupted
            case Action.ALLOW | Action.ASK:
                return replace(ready, decision=decision)

    async def _open_tickets(self, ready: Sequence[Ready]) -> None:
        """All at once: a person sees everything that a turn wants."""
        opened = [self._ticket(one) for one in ready if one.decision and not self._has_ticket(one.call.call_id)]
        if opened:
            await self._ctx.open_tickets(*opened)

    def _has_ticket(self, call_id: str) -> bool:
        return call_id in self._ctx.state.ticket_of_call or self._ctx.past.ticket(call_id) is not None

    def _ticket(self, one: Ready) -> e.TicketOpened:
        assert one.decision
        by_client = one.tool.origin == CLIENT
        return self._ctx.ticket(
            one.call.call_id,
            Waits.CLIENT_TOOL if by_client else Waits.APPROVAL,
            one.tool.spec.description.partition("\n")[0],
            tool=one.tool.name,
            schema=None if by_client else dict(one.tool.spec.schema),
            arguments=dict(one.arguments),
            expires_in=one.decision.expires,
        )

    # Running

    async def _run(self, ready: Sequence[Ready]) -> None:
        if len(ready) == 1:
            await self._one(ready[0])
            return
        order = order_of(one.tool.effect for one in ready)
        over = [asyncio.Event() for _ in ready]

        async def in_turn(place: int) -> None:
            for before in order[place]:
                await over[before].wait()
            await self._one(ready[place])
            over[place].set()

        async with asyncio.TaskGroup() as tasks:
            for place in range(len(ready)):
                tasks.create_task(in_turn(place))

    async def _one(self, one: Ready) -> None:
        """A call, once people allow it, until it has its result."""
        if self._cannot_go_on():
            return
        if one.decision:
            ticket = await self._ctx.decided(one.call.call_id)
            if one.tool.origin == CLIENT:
                self._answered_by_client(one, ticket)
                return
            verdict = self._settled(one, ticket)
            self.policy = self.policy.remembering(*verdict.remembered)
            allowed = self._allowed(one, verdict)
            if allowed is None:
                return
            one = allowed
        await self._answered(one.call.call_id)
        while asks := await self._call(one):
            await self._ctx.open_tickets(asks.ticket)
            await self._answered(one.call.call_id)

    async def _answered(self, call_id: str) -> None:
        """Wait for the answer to what a call has asked: until then, calling it again would only make it ask again."""
        for ticket in list(self._ctx.state.open_tickets.values()):
            if asker_of(ticket.call_id) == call_id:
                await self._ctx.decided(ticket.call_id)

    def _settled(self, one: Ready, ticket: Ticket) -> Verdict:
        decision, value = ticket.decision or EXPIRED, ticket.value
        return settle(self.policy, one.tool, dict(one.arguments), decision, value, ticket.message)

    def _allowed(self, one: Ready, verdict: Verdict) -> Ready | None:
        """The call as people want it, or None when they do not; then it has its result."""
        if not verdict.allowed:
            self._refuse(one.call, notes.refused(f"{verdict.why[:1].upper()}{verdict.why[1:]}."))
            return None
        checked = self._kit.arguments_of(msgspec.structs.replace(one.call, arguments=verdict.arguments))
        if isinstance(checked, str):
            self._refuse(one.call, f"A person changed the arguments, and they do not fit. {checked}")
            return None
        assert isinstance(checked.value, Mapping)
        return replace(one, arguments=checked.value)

    def _allowed_again(self, one: Ready, ticket: Ticket) -> Ready | None:
        return self._allowed(one, self._settled(one, ticket))

    def _answered_by_client(self, one: Ready, ticket: Ticket) -> None:
        ctx, call_id = self._ctx, one.call.call_id
        if ticket.decision not in ("answered", "approved"):
            self._refuse(one.call, f"The client did not call it ({ticket.decision}). {ticket.message}".strip())
            return
        ctx.note(
            one.started(ctx.state, ctx.key_of(call_id)), e.ToolFinished(call_id=call_id, ok=True, result=ticket.value)
        )

    async def _call(self, one: Ready) -> Asks | None:
        ctx, call_id = self._ctx, one.call.call_id
        if isinstance(one.tool, DelegationTool):
            finished = await one.tool.perform(call_id, one.arguments)
            ctx.note(one.started(ctx.state, ctx.key_of(call_id)), finished)
            return None
        known = ctx.state.calls.get(call_id) or ctx.past.call(call_id)
        if known:
            again = await self._interrupted.again(one, known)
            if again is None:
                return None
            one = again
        if self._alarm.rung:
            self._refuse(one.call, OVER)
            return None
        async with ctx.entered(call_id):
            ctx.note(one.started(ctx.state, known.key if known and known.key else ctx.key_of(call_id)))
            if one.tool.effect is Effect.WRITE:
                await ctx.sync()
            result = await invoke(ctx, one.tool, ctx.state.calls[call_id], self._alarm)
            if isinstance(result, Asks):
                return result
            ctx.note(result)
            return None


def _denied_by(decision: Decision) -> str:
    if decision.rule and decision.rule.action is Action.DENY:
        return "A rule does not allow this call."
    return "A person refused such calls for the rest of this run."


def shown(name: str) -> str:
    """A name that a model made up, at a length that can be shown."""
    return repr(name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return (", ".join(names[:MOST_LISTED]) or "none") + more


def _remembering(ctx: RunContext, kit: Kit, policy: Policy) -> Policy:
    """What people said for the rest of the run, in the order in which they were asked."""
    by_name = {tool.name: tool for tool in kit.tools.values()}
    for ticket in ctx.state.tickets.values():
        tool = by_name.get(ticket.tool)
        about_a_call = ticket.kind is Waits.APPROVAL and not asker_of(ticket.call_id)
        if tool and about_a_call and ticket.decision:
            said = settle(policy, tool, ticket.arguments, ticket.decision, ticket.value, ticket.message)
            policy = policy.remembering(*said.remembered)
    return policy
