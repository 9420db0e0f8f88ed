"""Messages and their parts, as conversations and transcripts hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """One piece of a message. `provider` is opaque and goes back to that provider only."""

    provider: dict[str, object] | None = None


class Text(Part, frozen=True, kw_only=True, tag="text"):
    """What somebody wrote."""

    text: str


class File(Part, frozen=True, kw_only=True, tag="file"):
    """A stored file. One that is `required` and cannot be read ends the run; another is replaced by a note."""

    uri: str
    media_type: str
    name: str = ""
    required: bool = False


class Data(Part, frozen=True, kw_only=True, tag="data"):
    """A JSON value."""

    data: object


class Thinking(Part, frozen=True, kw_only=True, tag="thinking"):
    """What a model thought before it answered."""

    text: str


class ToolCall(Part, frozen=True, kw_only=True, tag="tool_call"):
    """A model asks for a call."""

    call_id: str
    tool: str
    arguments: object


class ToolResult(Part, frozen=True, kw_only=True, tag="tool_result"):
    """What a call gave, and the files that came with it."""

    call_id: str
    ok: bool
    result: object = None
    files: tuple[File, ...] = ()


AnyPart = Text | File | Data | Thinking | ToolCall | ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a transcript."""

    role: Literal["user", "model", "tool"]
    parts: tuple[AnyPart, ...]


def text_of(parts: tuple[AnyPart, ...]) -> str:
    """All that the text parts say, in order."""
    return "".join(part.text for part in parts if isinstance(part, Text))
