"""The loop: look at the state, do the next thing, record it. All thinking is in `core/loop.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from retinue.core import events as e
from retinue.core import notes
from retinue.core.agent import AgentDefinition
from retinue.core.loop import Ask, Finish, Moment, Perform, Recover, Repeats, decide, unrecovered
from retinue.core.messages import ToolCall, ToolResult
from retinue.core.outcome import Outcome, Status
from retinue.core.run import RunState
from retinue.core.tool import FINISH
from retinue.engine.alarm import Alarm, Rung
from retinue.engine.context import RunContext
from retinue.ports.clock import Timer
from retinue.runners.local.calls import Calls
from retinue.runners.local.compaction import Compaction
from retinue.runners.local.delegation import Delegation
from retinue.runners.local.reader import READ_RESULT, SPEC
from retinue.runners.local.turn import Given, Turns


@dataclass
class Loop:
    """Drives one attempt at a run of an agent."""

    ctx: RunContext
    agent: AgentDefinition
    given: Given
    turns: Turns
    calls: Calls
    compaction: Compaction
    delegation: Delegation

    def __post_init__(self) -> None:
        self._repeats, self._repeated = Repeats(), 0
        for call, said in _made_before(self.ctx.state):
            self._repeats.take(call, said)
        if not self.ctx.state.unanswered:
            self._count()
        own = self.given.tools.get(READ_RESULT) is not SPEC
        self._given_at_first = self.given if own else self.given.without(READ_RESULT)
        self._grace: Alarm | None = None
        self._grace_timer: Timer | None = None

    async def run(self) -> Outcome:
        """Until the run is over; parking and cancelling leave it by an exception."""
        try:
            while True:
                if outcome := await self._step():
                    if self.ctx.state.open_children:
                        await self.delegation.settle()
                    return await self._ended(outcome)
        finally:
            if self._grace_timer:
                self._grace_timer.cancel()

    async def _step(self) -> Outcome | None:
        await self.ctx.pass_gate("a turn")
        match decide(self.ctx.state, self.agent, self._moment()):
            case Ask() as asking:
                return await self._ask(asking)
            case Perform(calls=calls):
                await self.calls.perform(calls, self.ctx.state.tools or ())
                self._count()
            case Recover() as recover:
                self._recover(recover)
            case Finish(outcome=outcome):
                return outcome
            case other:
                assert_never(other)
        return None

    def _moment(self) -> Moment:
        repeated = self._repeated if self.ctx.state.asked else 0
        return Moment(active_ms=self.ctx.active_ms(), time_is_up=self.ctx.time_is_up.rung, repeated=repeated)

    def _count(self) -> None:
        """How often the calls of the last turn, which have all ended, gave the same before."""
        state = self.ctx.state
        made = [(call, state.results[call_id]) for call_id, call in state.asked.items() if call_id in state.results]
        self._repeated = max((self._repeats.take(call, said) for call, said in made), default=0)

    # Asking

    async def _ask(self, asking: Ask) -> Outcome | None:
        state = self.ctx.state
        if state.recovery:
            return await self._last_word()
        if not state.turn_open:
            try:
                with self.ctx.time_is_up.interrupting():
                    await self.compaction.before_turn()
            except Rung:
                return None
        given = self.given if state.moved else self._given_at_first
        came = await self.turns.take(given, asking.notes, asking.warnings, self.ctx.time_is_up)
        if isinstance(came, Recover):
            self._recover(came)
            return None
        return came

    async def _last_word(self) -> Outcome | None:
        """The grace turn, on a clock of its own."""
        ctx, reason = self.ctx, self.ctx.state.recovery
        assert reason
        limit, results = ctx.state.limit, ctx.state.results
        pending = [(call.tool, results[call_id]) for call_id, call in ctx.state.asked.items()]
        note = notes.grace(self.agent, reason, limit, pending)
        only = self.given.only(FINISH)
        came = await self.turns.take(only, (note,), (), self._grace_alarm(), grace=True)
        if isinstance(came, Outcome):
            message = came.error.message if came.error else came.reason.value
            return unrecovered(ctx.state, reason, f"{limit}; and in the grace turn: {message}")
        if came or ctx.state.turn_open:
            return unrecovered(ctx.state, reason, f"{limit}; and there was no answer in the grace turn")
        return None

    def _grace_alarm(self) -> Alarm:
        if self._grace is None:
            self._grace = Alarm()
            self._grace_timer = self.ctx.clock.call_later(self.agent.limits.grace_seconds, self._grace.ring)
        return self._grace

    def _recover(self, recover: Recover) -> None:
        reached = e.LimitReached(reason=recover.reason, limit=recover.limit)
        self.ctx.note(reached, e.RecoveryStarted(reason=recover.reason))

    async def _ended(self, outcome: Outcome) -> Outcome:
        if self.ctx.state.recovery and not self.ctx.state.recovery_over:
            self.ctx.note(e.RecoveryFinished(ok=outcome.status is Status.COMPLETED))
        return outcome


def _made_before(state: RunState) -> Iterator[tuple[ToolCall, ToolResult]]:
    """The calls of this run's earlier answers, each with what it gave."""
    asked: dict[str, ToolCall] = {}
    for message in state.transcript:
        for part in message.parts:
            if isinstance(part, ToolCall):
                asked[part.call_id] = part
            elif isinstance(part, ToolResult) and part.call_id in asked and part.call_id in state.calls:
                yield asked[part.call_id], part
