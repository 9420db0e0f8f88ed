"""What becomes of a write that was under way when its run was stopped: it is never repeated on a guess."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retinue.core import events as e
from retinue.core import notes
from retinue.core.agent import AgentDefinition
from retinue.core.approval import APPROVED
from retinue.core.outcome import Effect, Failure, Waits
from retinue.core.policy import ASK_FOR_SECONDS
from retinue.core.run import UNKNOWN, Call, Ticket
from retinue.engine.context import RunContext, decide_interrupted
from retinue.runners.local.ready import Ready

Approved = Callable[[Ready, Ticket], Ready | None]
"""The call as those want it who have approved it."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Decides about calls that have begun and have no result, here or in the run that this one goes on from."""

    ctx: RunContext
    agent: AgentDefinition
    approved: Approved

    def is_unknown(self, known: Call) -> bool:
        """Whether nobody can tell if it took effect. One that has only asked had none."""
        if known.effect is not Effect.WRITE or (known.finished and not known.unknown):
            return False
        return known.finished or not known.asks or self._lost(known) in self.ctx.state.ticket_of_call

    def _lost(self, known: Call) -> str:
        """The call id of what people are asked about it."""
        return f"{known.call_id}?lost{known.try_}"

    async def again(self, one: Ready, known: Call) -> Ready | None:
        """The call, when it is to be made (again); else its result is recorded."""
        if one.tool.effect is not Effect.WRITE or not self.is_unknown(known):
            return one
        if self._lost(known) in self.ctx.state.ticket_of_call:
            return await self._as_decided(one, known)
        if one.tool.check:
            finished = await decide_interrupted(known.call_id, known.key, one.tool.check)
            if finished is None:
                return one
            if not finished.unknown:
                self._record(one, known, finished)
                return None
            assert finished.error
            self.ctx.note(
                e.Warned(code="check", message=f"{one.tool.name} ({known.call_id}): {finished.error.message}")
            )
        match self.agent.on_unknown:
            case "retry":
                return one
            case "ask":
                here = self._begun_here(one, known)
                await self._ask(one, here)
                return await self._as_decided(one, here)
            case "tell" | "fail":  # to fail is decided by what is recorded here, whoever sees it
                self._record(one, known, _unknown(one, known))
                return None

    async def _ask(self, one: Ready, known: Call) -> None:
        ticket = self.ctx.ticket(
            self._lost(known),
            Waits.APPROVAL,
            f"{one.tool.name} was interrupted, and nobody knows whether it took effect. Call it again?",
            tool=one.tool.name,
            schema=dict(one.tool.spec.schema),
            arguments=dict(one.arguments),
            expires_in=ASK_FOR_SECONDS,
        )
        await self.ctx.open_tickets(ticket)

    async def _as_decided(self, one: Ready, known: Call) -> Ready | None:
        ticket = await self.ctx.decided(self._lost(known))
        if ticket.decision == APPROVED:
            return self.approved(one, ticket)
        self._record(one, known, _unknown(one, known, ticket.message))
        return None

    def _begun_here(self, one: Ready, known: Call) -> Call:
        """A call that was interrupted in the past is in this run's journal too."""
        calls = self.ctx.state.calls
        if known.call_id not in calls:
            self.ctx.note(one.started(self.ctx.state, known.key))
        return calls[known.call_id]

    def _record(self, one: Ready, known: Call, finished: e.ToolFinished) -> None:
        self._begun_here(one, known)
        self.ctx.note(finished)


def _unknown(one: Ready, known: Call, said: str = "") -> e.ToolFinished:
    message = notes.unknown(one.tool.name)
    error = Failure(kind=UNKNOWN, message=f"{message} A person says: {said}" if said.strip() else message)
    return e.ToolFinished(call_id=known.call_id, ok=False, unknown=True, error=error)
