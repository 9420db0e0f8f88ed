"""How tests of models ask, and what they get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from retinue.core.messages import AnyPart, Message, Text, ToolCall, text_of
from retinue.ports.models import Model, ModelRequest, ModelResponse, Piece, ToolSpec


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


def said(*parts: AnyPart | str) -> Message:
    """What a model said before."""
    return Message(role="model", parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def question(*messages: Message | str, **more: Any) -> ModelRequest:
    """A request: texts are what a person says."""
    return ModelRequest(messages=tuple(user(each) if isinstance(each, str) else each for each in messages), **more)


def tool(name: str, **properties: Any) -> ToolSpec:
    """A tool whose arguments are all required."""
    return ToolSpec(
        name=name,
        description=f"What {name} does.",
        schema={"type": "object", "properties": properties, "required": list(properties)},
    )


@dataclass
class Answer:
    """All that a model said to one request."""

    pieces: list[Piece] = field(default_factory=list)
    responses: list[ModelResponse] = field(default_factory=list)

    @property
    def response(self) -> ModelResponse:
        (response,) = self.responses
        return response

    @property
    def text(self) -> str:
        return text_of(self.response.parts)

    @property
    def calls(self) -> list[tuple[str, object]]:
        return [(part.tool, part.arguments) for part in self.response.parts if isinstance(part, ToolCall)]

    def streamed(self, kind: str = "text") -> str:
        return "".join(piece.text for piece in self.pieces if piece.kind == kind)


async def ask(model: Model, request: ModelRequest | str, into: Answer | None = None) -> Answer:
    """The whole answer. `into` keeps what was said also when it breaks off."""
    answer = into or Answer()
    async for each in model.ask(question(request) if isinstance(request, str) else request):
        match each:
            case Piece():
                assert not answer.responses, "nothing comes after the response"
                answer.pieces.append(each)
            case ModelResponse():
                answer.responses.append(each)
            case other:
                raise AssertionError(f"a model of a provider does not retry, and yet: {other}")
    return answer


def kinds_of(parts: Sequence[AnyPart]) -> list[str]:
    return [type(part).__name__ for part in parts]
