"""A tool that comes with Retinue: its arguments are a struct, which is also their schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from retinue.core.outcome import Effect
from retinue.core.tool import BUILT_IN
from retinue.errors import ToolFailed
from retinue.ports.models import ToolSpec
from retinue.ports.tools import Check, ToolContext


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a call says."""


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn(Generic[A]):
    """One tool. `run` does it."""

    spec: ToolSpec
    takes: type[A]
    run: Callable[[A, ToolContext], Awaitable[object]]
    effect: Effect = Effect.READ
    timeout: float | None = None
    check: Check | None = None
    stops: bool = True

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def origin(self) -> str:
        return BUILT_IN

    async def call(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        try:
            said = msgspec.convert(arguments, self.takes)
        except msgspec.ValidationError as error:
            raise ToolFailed(f"{self.name} cannot be called like this: {error}") from None
        return await self.run(said, context)


def built_in(
    name: str,
    description: str,
    takes: type[A],
    run: Callable[[A, ToolContext], Awaitable[object]],
    *,
    effect: Effect = Effect.READ,
    timeout: float | None = None,
) -> BuiltIn[A]:
    """A tool with the schema of its arguments."""
    _, parts = msgspec.json.schema_components([takes])
    schema = {key: value for key, value in parts[takes.__name__].items() if key not in ("title", "description")}
    spec = ToolSpec(name=name, description=" ".join(description.split()), schema=schema)
    return BuiltIn(spec=spec, takes=takes, run=run, effect=effect, timeout=timeout)
