"""Limits of agents: when they are hit, and which of them is told when it is more than one."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.core.agent import AgentDefinition, AgentLimits
from retinue.core.loop import Moment, Recover, decide
from retinue.core.messages import Message, ToolCall, ToolResult
from retinue.core.outcome import Effect, Usage
from retinue.core.run import Call, RunState

OVER = Moment(active_ms=60_000, time_is_up=True, repeated=5)
IN_TIME = Moment(active_ms=59_999, repeated=4)


def state(turns: int = 0, calls: int = 0, tokens: int = 0, cost: float = 0.0) -> RunState:
    """A run that has done so much, with the result of one call at hand."""
    state = RunState("run_1", turn=turns, usage=Usage(input_tokens=tokens, cost_usd=cost))
    asked = ToolCall(call_id="1", tool="look", arguments={})
    state.transcript.append(Message(role="model", parts=(asked,)))
    state.asked, state.results = {"1": asked}, {"1": ToolResult(call_id="1", ok=True)}
    state.calls = {str(n): Call(str(n), "look", {}, Effect.READ, "", 1, 1) for n in range(calls)}
    return state


def limit_of(state: RunState, moment: Moment, limits: AgentLimits) -> str | None:
    action = decide(state, AgentDefinition(name="guide", limits=limits), moment)
    return action.limit if isinstance(action, Recover) else None


ALL = AgentLimits(max_turns=3, max_minutes=1, max_tool_calls=3, max_tokens=3, max_cost_usd=3.0)
IN_ORDER: list[tuple[str, dict[str, float], Moment]] = [
    ("max_minutes", {}, OVER),
    ("max_turns", {"turns": 3}, IN_TIME),
    ("max_tool_calls", {"calls": 3}, IN_TIME),
    ("max_tokens", {"tokens": 3}, IN_TIME),
    ("max_cost_usd", {"cost": 3.0}, IN_TIME),
    ("the same call with the same result 5 times", {}, Moment(repeated=5)),
]


@pytest.mark.parametrize("place", range(len(IN_ORDER)))
def test_limits_are_looked_at_in_their_order(place: int) -> None:
    used: dict[str, Any] = {}
    moment = Moment()
    for _, more, at in reversed(IN_ORDER[place:]):
        used |= more
        moment = Moment(time_is_up=moment.time_is_up or at.time_is_up, repeated=max(moment.repeated, at.repeated))
    assert limit_of(state(**used), moment, ALL) == IN_ORDER[place][0]


@pytest.mark.parametrize(
    ("used", "moment"),
    [({"turns": 2}, IN_TIME), ({"calls": 2}, IN_TIME), ({"tokens": 2}, IN_TIME), ({"cost": 2.99}, IN_TIME)],
)
def test_a_limit_is_not_hit_before_it_is_reached(used: dict[str, Any], moment: Moment) -> None:
    assert limit_of(state(**used), moment, ALL) is None


def test_no_limit_is_no_limit() -> None:
    none = AgentLimits(max_turns=None, max_minutes=None)
    assert limit_of(state(turns=10**9, calls=9, tokens=10**12, cost=1e12), IN_TIME, none) is None
