"""What becomes of a write that was under way when its run was stopped: it is never repeated on a guess."""

from __future__ import annotations

from dataclasses import dataclass

from retinue.core import events as e
from retinue.core import notes
from retinue.core.agent import AgentDefinition
from retinue.core.outcome import Effect, Failure, Waits
from retinue.core.policy import ASK_FOR_SECONDS
from retinue.core.run import UNKNOWN, Call
from retinue.engine.context import RunContext, decide_interrupted
from retinue.runners.local.ready import Ready


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Decides about calls that have begun and have no result, here or in the run that this one goes on from."""

    ctx: RunContext
    agent: AgentDefinition

    async def may_call_again(self, one: Ready, known: Call) -> bool:
        """Whether it is called again. If not, its result is recorded."""
        if not self.may_have_happened(one, known):
            return True
        lost = f"{known.call_id}?lost{known.try_}"
        if lost in self.ctx.state.ticket_of_call:
            return await self._person_decides(one, known, lost)
        if known.asks and not known.finished:
            return True  # it had only asked
        if one.tool.check:
            finished = await decide_interrupted(known.call_id, known.key, one.tool.check)
            if finished is None:
                return True
            if not finished.unknown:
                return self._record(one, known, finished)
            assert finished.error
            self.ctx.note(
                e.Warned(code="check", message=f"{one.tool.name} ({known.call_id}): {finished.error.message}")
            )
        match self.agent.on_unknown:
            case "retry":
                return True
            case "ask":
                await self._ask(one, known, lost)
                return await self._person_decides(one, known, lost)
            case "tell" | "fail":  # to fail is decided by what is recorded here, whoever sees it
                return self._record(one, known, _unknown(one, known))

    def may_have_happened(self, one: Ready, known: Call) -> bool:
        """Whether repeating it might do it twice."""
        return one.tool.effect is Effect.WRITE and (not known.finished or known.unknown)

    async def _ask(self, one: Ready, known: Call, lost: str) -> None:
        self._begin_here(one, known)
        ticket = self.ctx.ticket(
            lost,
            Waits.APPROVAL,
            f"{one.tool.name} was interrupted, and nobody knows whether it took effect. Call it again?",
            tool=one.tool.name,
            arguments=dict(one.arguments),
            expires_in=ASK_FOR_SECONDS,
        )
        await self.ctx.open_tickets(ticket)

    async def _person_decides(self, one: Ready, known: Call, lost: str) -> bool:
        ticket = await self.ctx.decided(lost)
        return ticket.decision == "approved" or self._record(one, known, _unknown(one, known, ticket.message))

    def _begin_here(self, one: Ready, known: Call) -> None:
        """A call that was interrupted in the past is in this run's journal too."""
        if one.call.call_id not in self.ctx.state.calls:
            self.ctx.note(one.started(self.ctx.state, known.key))

    def _record(self, one: Ready, known: Call, finished: e.ToolFinished) -> bool:
        self._begin_here(one, known)
        self.ctx.note(finished)
        return False


def _unknown(one: Ready, known: Call, said: str = "") -> e.ToolFinished:
    message = notes.unknown(one.tool.name)
    error = Failure(kind=UNKNOWN, message=f"{message} A person says: {said}" if said.strip() else message)
    return e.ToolFinished(call_id=known.call_id, ok=False, unknown=True, error=error)
