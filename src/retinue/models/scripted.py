"""The `test` model: answers as it was told to, offline and always the same. For tests, demos and benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from retinue.core.messages import AnyPart, Data, Text, text_of
from retinue.core.outcome import Usage
from retinue.ports.models import ModelRequest, ModelResponse, Piece, Said, Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer: in pieces if given so; `before` is awaited before each piece; `error` breaks it off after them."""

    pieces: Sequence[str] = ()
    thinking: str = ""
    before: Callable[[int], Awaitable[None]] | None = None
    error: Exception | None = None


def echo(request: ModelRequest) -> Reply:
    """What the test model says when it was told nothing: what was said to it."""
    parts = request.messages[-1].parts if request.messages else ()
    data = next((part.data for part in parts if isinstance(part, Data)), "")
    words = f"You said: {text_of(parts) or data}".split(" ")
    return Reply(pieces=[word if n == 0 else f" {word}" for n, word in enumerate(words)])


class ScriptedModel:
    """Gives the reply that `script` makes of the request."""

    def __init__(self, script: Callable[[ModelRequest], Reply] = echo, name: str = "test") -> None:
        self.name, self._script = name, script
        self.takes = Takes()
        self.asked = 0

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Said, None]:
        self.asked += 1
        reply = self._script(request)
        if reply.thinking:
            yield Piece(reply.thinking, "thinking")
        for n, piece in enumerate(reply.pieces):
            if reply.before:
                await reply.before(n)
            yield Piece(piece)
            await asyncio.sleep(0)
        if reply.error:
            raise reply.error
        text = "".join(reply.pieces)
        parts: tuple[AnyPart, ...] = (Text(text=text),)
        usage = Usage(calls=1, input_tokens=_tokens(request), output_tokens=len(reply.pieces))
        yield ModelResponse(parts=parts, usage=usage)

    def at_most(self, request: ModelRequest) -> Usage:
        return Usage(calls=1, input_tokens=_tokens(request), output_tokens=request.settings.max_tokens or 0)


def _tokens(request: ModelRequest) -> int:
    return sum(len(text_of(message.parts).split()) for message in request.messages)
