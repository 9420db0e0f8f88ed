"""What answers a prompt: pieces as they come, then the whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from retinue.core.messages import AnyPart, Message
from retinue.core.outcome import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model."""

    messages: tuple[Message, ...]
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Some more of the answer."""

    text: str
    kind: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """The whole answer. Always the last thing that a model yields."""

    parts: tuple[AnyPart, ...]
    usage: Usage
    stop: str = "end"


class Model(Protocol):
    """Something that answers."""

    name: str

    def ask(self, request: ModelRequest) -> AsyncIterator[Piece | ModelResponse]: ...


class Models(Protocol):
    """Names to models."""

    def resolve(self, name: str) -> Model: ...
