"""How many tokens something is, about: for budgets before a call, and for answers whose provider did not count.

A token is four characters of English or of code, and two to three bytes of other scripts; counting exactly would take
each provider's own tokenizer, and longer than a short answer does. What is not text counts by its size.
"""

from __future__ import annotations

import msgspec

from retinue.core.messages import AnyPart, Data, File, Text, Thinking, ToolCall, ToolResult
from retinue.core.outcome import Usage
from retinue.ports.models import ModelRequest

CHARACTERS = 4
BYTES = 3
EACH_MESSAGE = 4
"""What the turns of a conversation cost beside their text: role and borders."""
WITHOUT_LIMIT = 16_384
"""Taken for the longest answer of a model of which nothing is known."""

IMAGE_BYTES, IMAGE_LEAST, IMAGE_MOST = 400, 100, 3000
"""Providers scale an image down to 768–1,568 pixels and charge by its area: about 85 tokens, up to about 3,000."""
PDF_BYTES = 25
"""A page is some 50–75 KiB, read both as text and as an image: up to 3,000 tokens."""
SOUND_BYTES = 400
"""A second is 16 KiB as MP3, and 10–32 tokens."""
FILM_BYTES = 800
"""A second is some 250 KiB, and about 300 tokens."""


def tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS) if text.isascii() else -(-len(text.encode(errors="replace")) // BYTES)


def input_tokens(request: ModelRequest) -> int:
    """What the model is given: instructions, turns with their files, tools, and the schema of the answer."""
    count = EACH_MESSAGE * (len(request.messages) + 1) + tokens(request.instructions or "")
    for message in request.messages:
        for part in message.parts:
            count += _part(part, request)
    for tool in request.tools:
        count += EACH_MESSAGE + tokens(tool.name) + tokens(tool.description) + _json(tool.schema)
    return count + (_json(request.output.schema) if request.output else 0)


def used(request: ModelRequest, said: int) -> Usage:
    """What a call used whose provider did not say: `said` is how many characters the answer has."""
    return Usage(calls=1, input_tokens=input_tokens(request), output_tokens=-(-said // CHARACTERS), estimated=True)


def at_most(request: ModelRequest, longest: int | None) -> Usage:
    """What a call can use at the most: all that it is given, and the longest answer that is permitted or possible."""
    output = request.settings.max_tokens or longest or WITHOUT_LIMIT
    return Usage(calls=1, input_tokens=input_tokens(request), output_tokens=output, estimated=True)


def _part(part: AnyPart, request: ModelRequest) -> int:
    match part:
        case Text(text=text) | Thinking(text=text):
            return tokens(text)
        case Data(data=data):
            return _json(data)
        case ToolCall(tool=tool, arguments=arguments):
            return EACH_MESSAGE + tokens(tool) + _json(arguments)
        case ToolResult(result=result):
            return EACH_MESSAGE + _json(result)
        case File():
            return _file(part.media_type, len(request.files.get(part.uri, b"")))


def _file(media_type: str, size: int) -> int:
    match media_type.partition("/")[0]:
        case "image":
            return min(max(size // IMAGE_BYTES, IMAGE_LEAST), IMAGE_MOST)
        case "audio":
            return size // SOUND_BYTES
        case "video":
            return size // FILM_BYTES
        case "application" if media_type == "application/pdf":
            return size // PDF_BYTES
        case _:
            return size // CHARACTERS


def _json(value: object) -> int:
    if isinstance(value, str):
        return tokens(value)
    return len(msgspec.json.encode(value)) // CHARACTERS + 1
