"""Names of what answers: `agent:NAME`, `graph:NAME`, `model:PROVIDER:NAME`, `function:MODULE:NAME`."""

from __future__ import annotations

from dataclasses import dataclass

from retinue.errors import UnknownTarget

KINDS = ("agent", "graph", "model", "function")
FORMS = "agent:NAME, graph:NAME, model:NAME, function:MODULE:NAME"


@dataclass(frozen=True, slots=True)
class Target:
    """What answers, in two words: the kind, and the name within it."""

    kind: str
    name: str
    model: str | None = None
    """Who answers in the place of the model that it names itself. No part of its name."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str, model: str | None = None) -> Target:
        """Read a target's name; say what is wrong with it otherwise."""
        kind, colon, name = text.partition(":")
        if not colon or not name or kind not in KINDS:
            raise UnknownTarget(target=repr(text), problem=f"a target is one of {FORMS}.")
        if kind == "function" and not all(name.partition(":")[::2]):
            raise UnknownTarget(target=repr(text), problem="a function is named function:MODULE:NAME.")
        return cls(kind, name, model)
