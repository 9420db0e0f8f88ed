"""`read_result`: the whole of a result of which the prompt has only the ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from retinue.core.messages import ToolResult
from retinue.core.notes import as_text
from retinue.core.outcome import Effect
from retinue.core.run import RunState
from retinue.core.schema import Schema
from retinue.core.tool import BUILT_IN
from retinue.errors import ToolFailed
from retinue.ports.models import ToolSpec
from retinue.ports.tools import Check, ToolContext

READ_RESULT = "read_result"
MOST_CHARACTERS = 20_000
SPEC = ToolSpec(
    name=READ_RESULT,
    description="Read the whole of a result that was shortened, a part at a time.",
    schema={
        "type": "object",
        "properties": {
            "call_id": {"type": "string", "description": "The call whose result it is."},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "The character to begin with."},
        },
        "required": ["call_id"],
        "additionalProperties": False,
    },
)


@cache
def schema() -> Schema:
    return Schema(SPEC.schema)


@dataclass(frozen=True, slots=True)
class ResultReader:
    """It reads what the run has in its journal. It is offered when something was shortened."""

    state: RunState
    spec: ToolSpec = SPEC
    name: str = READ_RESULT
    origin: str = BUILT_IN
    effect: Effect = Effect.READ
    timeout: float | None = None
    check: Check | None = None
    stops: bool = True

    async def call(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        call_id, offset = str(arguments["call_id"]), arguments.get("offset")
        text = as_text(self._result(call_id).result)
        start = offset if isinstance(offset, int) else 0
        if start and start >= len(text):
            raise ToolFailed(f"the result of {call_id[:100]} has only {len(text):,} characters")
        end = start + MOST_CHARACTERS
        more = f"\n[Characters {start:,} to {end:,} of {len(text):,}; go on with offset {end}.]"
        return text[start:end] + (more if end < len(text) else "")

    def _result(self, call_id: str) -> ToolResult:
        if call_id in self.state.moved:
            for message in reversed(self.state.transcript):
                for part in message.parts:
                    if isinstance(part, ToolResult) and part.call_id == call_id:
                        return part
        raise ToolFailed(f"no result of a call {call_id[:100]!r} was shortened")
