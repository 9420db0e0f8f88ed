"""Tools that the client has which asked: a run waits for what the client says that they gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retinue.core.outcome import Effect
from retinue.core.tool import CLIENT
from retinue.ports.models import ToolSpec
from retinue.ports.tools import Check, Tool, ToolContext

ANYTHING: Mapping[str, object] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ClientTool:
    """One of them. Here it is only known, and never called."""

    spec: ToolSpec
    origin: str = CLIENT
    effect: Effect = Effect.IDEMPOTENT
    timeout: float | None = None
    check: Check | None = None
    stops: bool = True

    @property
    def name(self) -> str:
        return self.spec.name

    async def call(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        raise AssertionError(f"{self.name} is called by the client")


def client_tools(declared: Iterable[Mapping[str, object]]) -> list[Tool]:
    """As they were declared when the run was submitted, where they were checked."""
    return [ClientTool(_spec(one)) for one in declared]


def _spec(declared: Mapping[str, object]) -> ToolSpec:
    schema = declared.get("schema")
    return ToolSpec(
        name=str(declared["name"]),
        description=str(declared.get("description") or ""),
        schema=schema if isinstance(schema, Mapping) and schema else ANYTHING,
    )
