"""A call that is about to be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retinue.core import events as e
from retinue.core.messages import ToolCall
from retinue.core.outcome import Effect
from retinue.core.policy import Decision
from retinue.core.run import RunState
from retinue.ports.tools import Tool


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that fits. With a `decision`, people are asked before it runs."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, object]
    decision: Decision | None = None

    def started(self, state: RunState, key: str) -> e.ToolStarted:
        """That it begins; again, when it was begun before."""
        return started(state, self.call, self.tool.name, dict(self.arguments), self.tool.effect, key)


def started(
    state: RunState, call: ToolCall, tool: str, arguments: object, effect: Effect, key: str = ""
) -> e.ToolStarted:
    before = state.calls.get(call.call_id)
    return e.ToolStarted(
        call_id=call.call_id,
        tool=tool,
        arguments=arguments,
        effect=effect,
        key=key,
        try_=before.try_ + 1 if before else 1,
        turn=state.turn or None,
    )
