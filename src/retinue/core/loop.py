"""What an agent does next. Pure: the state of its run and what only the moment knows in, one action out.

`RunState.apply` is the other half: what was done comes back as events, and those make the next state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeAlias

import msgspec

from retinue.core import events as e
from retinue.core import notes
from retinue.core.agent import AgentDefinition
from retinue.core.messages import ToolCall, ToolResult, text_of
from retinue.core.outcome import Effect, Failure, Outcome, Reason, Status
from retinue.core.run import UNKNOWN, RunState
from retinue.core.tool import FINISH

INTERVENE_AT, LOOP_AT = 3, 5
NEAR = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the journal does not say: how long the run worked, and how often its last calls were the same before."""

    active_ms: int = 0
    time_is_up: bool = False
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model, with notes that the run says itself; `warnings` remember that it said them."""

    notes: tuple[str, ...] = ()
    warnings: tuple[e.Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class Perform:
    """Make the calls that have no result yet, in their order."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Recover:
    """Begin the grace turn."""

    reason: Reason
    limit: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    outcome: Outcome


Action: TypeAlias = Ask | Perform | Recover | Finish


def decide(state: RunState, agent: AgentDefinition, moment: Moment) -> Action:
    """The next action of an agent."""
    if end := lost(state, agent):
        return Finish(end)
    if state.unanswered and not state.turn_open:
        return Perform(tuple(state.unanswered))
    if done := _done(state, agent):
        return Finish(done)
    if state.recovery:
        return _after_recovery(state, state.recovery)
    if reached := _reached(state, agent, moment):
        return reached
    if state.turn_open:
        return Ask()
    if state.silent_turns > agent.steps:
        return Recover(Reason.NO_COMPLETION, f"{state.silent_turns} answers called no tool")
    return _ask(state, agent, moment)


def lost(state: RunState, agent: AgentDefinition) -> Outcome | None:
    """How a run ends that must not go on without knowing whether a call took effect."""
    if agent.on_unknown != "fail":
        return None
    calls = (state.calls[call_id] for call_id in state.asked if call_id in state.calls)
    tool = next((call.tool for call in calls if call.error and call.error.kind == UNKNOWN), None)
    if tool is None:
        return None
    message = (
        f"The call of {tool} was interrupted, and nobody can tell whether it took effect. It was not repeated "
        "(on_unknown: fail)."
    )
    return Outcome.failed(Reason.TOOL_ERROR, "OutcomeUnknown", message, partial=state.said or None)


def _done(state: RunState, agent: AgentDefinition) -> Outcome | None:
    """How the run ended well, if it did: the task was completed, or the answer is one without calls."""
    if state.turn_open:
        return None
    outcome = None
    if finished := completion_of(state):
        outcome = Outcome.completed(finished.result)
    elif agent.finish == "text" and state.silent:
        text = text_of(state.transcript[-1].parts)
        outcome = Outcome.completed(text) if text.strip() else None
    if outcome and state.recovery:
        return replace(outcome, recovered=True, reason=state.recovery)
    return outcome


def completion_of(state: RunState) -> ToolResult | None:
    """What the call gave that completed the task."""
    return next((said for said in state.results.values() if said.ok and state.asked[said.call_id].tool == FINISH), None)


def _after_recovery(state: RunState, reason: Reason) -> Action:
    """One more turn, and no other."""
    if state.turn < state.recovery_turn or state.turn_open:
        return Ask()
    return Finish(unrecovered(state, reason, f"no answer in the grace turn after {reason.value}"))


def unrecovered(state: RunState, reason: Reason, message: str) -> Outcome:
    """A limit was hit, and nothing came of the grace turn."""
    status = Status.TIMED_OUT if reason is Reason.TIMEOUT else Status.FAILED
    return Outcome(
        status=status,
        reason=reason,
        partial=state.said or None,
        error=Failure(kind=reason.value, message=message),
    )


def _reached(state: RunState, agent: AgentDefinition, moment: Moment) -> Recover | None:
    limits = agent.limits
    if moment.time_is_up:
        return Recover(Reason.TIMEOUT, "max_minutes")
    if state.turn_open:
        return None  # it was asked within the limits, and is asked again
    if limits.max_turns is not None and state.turn >= limits.max_turns:
        return Recover(Reason.MAX_TURNS, "max_turns")
    if limits.max_tool_calls is not None and len(state.calls) >= limits.max_tool_calls:
        return Recover(Reason.MAX_TURNS, "max_tool_calls")
    if limits.max_tokens is not None and _tokens(state) >= limits.max_tokens:
        return Recover(Reason.BUDGET, "max_tokens")
    if limits.max_cost_usd is not None and state.usage.cost_usd >= limits.max_cost_usd:
        return Recover(Reason.BUDGET, "max_cost_usd")
    if moment.repeated >= LOOP_AT:
        return Recover(Reason.LOOP, f"the same call with the same result {moment.repeated} times")
    return None


def _tokens(state: RunState) -> int:
    return state.usage.input_tokens + state.usage.output_tokens


def _ask(state: RunState, agent: AgentDefinition, moment: Moment) -> Ask:
    said: list[str] = []
    if state.silent:
        said.append(notes.nudge(agent))
    if moment.repeated == INTERVENE_AT:
        said.append(notes.repeating(moment.repeated))
    near = [
        e.Warned(code=code, message=text) for code, text in _near(state, agent, moment) if not state.warned_of(code)
    ]
    return Ask((*said, *(warned.message for warned in near)), tuple(near))


def _near(state: RunState, agent: AgentDefinition, moment: Moment) -> Iterable[tuple[str, str]]:
    """What is nearly used up, of turns, time and budget."""
    limits = agent.limits
    if limits.max_turns is not None and limits.max_turns > 1 and state.turn >= NEAR * limits.max_turns:
        yield "near_max_turns", notes.left(limits.max_turns - state.turn, "turn")
    if limits.max_minutes is not None and moment.active_ms >= NEAR * limits.max_minutes * 60_000:
        yield "near_max_minutes", notes.left(round(limits.max_minutes * 60 - moment.active_ms / 1000), "second")
    if limits.max_tokens is not None and _tokens(state) >= NEAR * limits.max_tokens:
        yield "near_max_tokens", notes.left(limits.max_tokens - _tokens(state), "token")
    if limits.max_cost_usd is not None and state.usage.cost_usd >= NEAR * limits.max_cost_usd:
        yield "near_max_cost_usd", notes.money_left(limits.max_cost_usd - state.usage.cost_usd)


def order_of(effects: Iterable[Effect]) -> list[tuple[int, ...]]:
    """For each call of a turn the places of those that must have ended before it: a write waits for all before it, and
    all after it wait for it."""
    waits: list[tuple[int, ...]] = []
    last_write: int | None = None
    since: list[int] = []
    for place, effect in enumerate(effects):
        after = () if last_write is None else (last_write,)
        if effect is Effect.WRITE:
            waits.append((*after, *since))
            last_write, since = place, []
        else:
            waits.append(after)
            since.append(place)
    return waits


@dataclass(slots=True)
class Repeats:
    """How often in a row each call gave the same result for the same arguments."""

    last: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)

    def take(self, call: ToolCall, said: ToolResult) -> int:
        """Count one more call and what the model was told of it; how often it was the same by now."""
        asked = _digest([call.tool, call.arguments])
        got = _digest([said.ok, said.result, said.files])
        before, times = self.last.get(asked, (b"", 0))
        self.last[asked] = got, times + 1 if before == got else 1
        return self.last[asked][1]


def _digest(value: object) -> bytes:
    return sha256(msgspec.json.encode(value)).digest()
