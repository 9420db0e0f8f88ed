"""What an agent's templates say when a run begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import methodcaller

import msgspec

from retinue.core.agent import AgentDefinition
from retinue.core.messages import AnyPart, Data, Message, Text
from retinue.core.template import Template, template
from retinue.errors import NamesMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The instructions, the few-shot turns, and what the first user turn says (nothing, when there is no input)."""

    instructions: str
    messages: tuple[Message, ...]
    query: AnyPart | None


def opening_of(agent: AgentDefinition, values: Mapping[str, object], input: object) -> Opening:
    """Raises one `NamesMissing` with all that any of the templates lacks, or `BadTemplate`."""
    filling = _Filling(values)
    query = filling.value(agent.query) if agent.query is not None else input
    opening = Opening(
        instructions=filling.text(agent.instructions).strip(),
        messages=tuple(filling.message(message) for message in agent.messages),
        query=Text(text=query) if isinstance(query, str) else None if query is None else Data(data=query),
    )
    if filling.missing:
        names, there = ", ".join(filling.missing), ", ".join(sorted(values))
        raise NamesMissing(missing=names, available=there or "nothing")
    return opening


@dataclass(frozen=True, slots=True)
class _Filling:
    """Fills templates in, and gathers what they lack, so that it is all said at once."""

    values: Mapping[str, object]
    missing: dict[str, None] = field(default_factory=dict)

    def text(self, text: str) -> str:
        return str(self._filled(text, methodcaller("render", self.values)))

    def value(self, text: str) -> object:
        return self._filled(text, methodcaller("value", self.values))

    def message(self, message: Message) -> Message:
        parts = (
            msgspec.structs.replace(part, text=self.text(part.text)) if isinstance(part, Text) else part
            for part in message.parts
        )
        return replace(message, parts=tuple(parts))

    def _filled(self, text: str, fill: Callable[[Template], object]) -> object:
        try:
            return fill(template(text))
        except NamesMissing:
            self.missing.update(dict.fromkeys(template(text).missing(self.values)))
            return ""
