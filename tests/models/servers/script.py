"""What a model says and hears, in no provider's words: the formats beside this file put it into theirs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from pydantic import TypeAdapter

from tests.models.server import Reply

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Thinks:
    pieces: Sequence[str]
    signature: str = "c2lnbmVk"


@dataclass(frozen=True)
class Says:
    pieces: Sequence[str]


@dataclass(frozen=True)
class Calls:
    """A call whose arguments come in these pieces, as far as the format lets them come in pieces."""

    id: str
    name: str
    pieces: Sequence[str]

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Used:
    """What is counted: `cached` of the input, `thought` of the output."""

    input: int = 100
    cached: int = 40
    output: int = 20
    thought: int = 8


@dataclass(frozen=True)
class Script:
    """One answer."""

    parts: Sequence[Thinks | Says | Calls] = ()
    stop: str = "end"
    """`end`, `length` or `filtered`; that there are calls, it says itself."""
    used: Used = Used()

    @property
    def why(self) -> str:
        return "calls" if self.stop == "end" and any(isinstance(part, Calls) for part in self.parts) else self.stop


@dataclass
class Heard:
    """What a request says: turns as pairs of who and what, each of what as a tuple that begins with its kind."""

    system: str = ""
    turns: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    tools: dict[str, Any] = field(default_factory=dict)
    output: Any = None
    settings: dict[str, Any] = field(default_factory=dict)

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [said for _, said in self.turns if said[0] == kind]

    @property
    def names(self) -> list[str]:
        return list(self.tools)


class Format(Protocol):
    """A provider's format, both ways."""

    provider: str
    model: str
    variable: str
    """The variable with its address."""
    key: str
    path: str
    """Where it is asked, behind the address of the server."""
    ping: bytes
    """A sign of life without a word, as the provider gives it."""
    base: str
    """What the address of the server is followed by, in settings and environment."""

    def stream(self, script: Script) -> list[bytes]:
        """An answer, event by event. All events are of the provider's own types."""

    def trouble(self, status: int, words: str, **headers: str) -> Reply:
        """The answer to a request that is not done."""

    def interrupted(self, words: str) -> bytes:
        """An event that says that the provider is overloaded, in the middle of an answer."""

    def hear(self, body: Json) -> Heard:
        """What a request says. Raises where it is not as the provider documents it."""


def sse(*events: Json, named: bool = False) -> list[bytes]:
    """Server-sent events, as each provider writes them."""
    return [
        "".join([f"event: {event['type']}\n" if named else "", f"data: {_json(event)}\n\n"]).encode()
        for event in events
    ]


def _json(event: Json) -> str:
    return json.dumps(event, ensure_ascii=False)


def checked(kind: Any, value: Any) -> Any:
    """The value, if it is of a kind: of the types that the provider's own package has for it."""
    adapter = _adapter(kind)
    adapter.dump_json(adapter.validate_python(value, strict=False), warnings="error")  # lazy parts are read as well
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def all_of(kind: Any, values: Iterable[Json]) -> list[Json]:
    return [checked(kind, value) for value in values]
