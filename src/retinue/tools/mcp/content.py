"""What servers give, as what a tool may give."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import msgspec
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from retinue.ports.tools import Blob, Content, ToolContext

LONGEST_TEXT = 100_000
"""Characters of a result. Of a longer one its beginning and its end are given, and the whole is kept as a file."""
HEAD = 0.2
BYTES = "application/octet-stream"
JSON, PLAIN = "application/json", "text/plain"
Part = str | Blob


async def result_of(result: CallToolResult, name: str, context: ToolContext) -> object:
    """A value where the server gives one, else its texts and files."""
    parts = [part_of(block) for block in result.content]
    if result.structured_content is None:
        return await given(parts, name, context)
    value: object = result.structured_content
    parts = _without(parts, value)
    encoded = msgspec.json.encode(value).decode()
    if not parts and len(encoded) <= LONGEST_TEXT:
        return value
    return await given([*parts, encoded], name, context, JSON if not parts else PLAIN)


async def given(parts: Iterable[Part], name: str, context: ToolContext, kind: str = PLAIN) -> object:
    """Texts as one, or texts and files in order."""
    joined = list(_joined(parts))
    bounded = [await _bounded(part, name, context, kind) if isinstance(part, str) else part for part in joined]
    match bounded:
        case []:
            return ""
        case [str() as text]:
            return text
        case _:
            return Content(tuple(bounded))


def part_of(block: ContentBlock) -> Part:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return _blob(block.data, block.mime_type)
        case EmbeddedResource():
            return resource_part(block.resource)
        case ResourceLink():
            return linked(block)


def resource_part(resource: TextResourceContents | BlobResourceContents) -> Part:
    if isinstance(resource, TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    return _blob(resource.blob, resource.mime_type or BYTES, PurePosixPath(resource.uri).name)


def linked(link: ResourceLink) -> str:
    """A resource that is only named; it can be read with the server's `resources:read`."""
    about = [link.title or link.name, link.mime_type, f"{link.size:,} bytes" if link.size is not None else None]
    said = f"[resource {link.uri}: {', '.join(one for one in about if one)}]"
    return f"{said} {link.description}" if link.description else said


def _blob(data: str, media_type: str, name: str = "") -> Part:
    try:
        return Blob(data=base64.b64decode(data, validate=True), media_type=media_type, name=name)
    except (binascii.Error, ValueError):
        return f"[{name or media_type}: the server sent it broken, not as base64]"


def _joined(parts: Iterable[Part]) -> Iterable[Part]:
    """Texts that follow each other as one."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if texts:
            yield "\n".join(texts)
            texts = []
        yield part
    if texts:
        yield "\n".join(texts)


async def _bounded(text: str, name: str, context: ToolContext, kind: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    ending = "json" if kind == JSON else "txt"
    uri = await context.artifact(text.encode(errors="replace"), kind, f"{name.rpartition('/')[2]}.{ending}")
    head = int(LONGEST_TEXT * HEAD)
    tail = LONGEST_TEXT - head
    left_out = len(text) - LONGEST_TEXT
    return f"{text[:head]}\n[… {left_out:,} characters are left out here; the whole is kept at {uri} …]\n{text[-tail:]}"


def _without(parts: Sequence[Part], value: object) -> list[Part]:
    """The parts that say more than the value. Servers repeat it as text, for those that know no values."""
    texts = [part for part in parts if isinstance(part, str)]
    if any(_say(texts, one) for one in _meanings(value)):
        return [part for part in parts if not isinstance(part, str)]
    return list(parts)


def _meanings(value: object) -> Iterator[object]:
    """A value, and what is in it if it is only a wrapping for what may not be alone."""
    yield value
    if isinstance(value, dict) and value.keys() == {"result"}:
        yield value["result"]


def _say(texts: Sequence[str], value: object) -> bool:
    if isinstance(value, list) and len(value) == len(texts):
        return all(map(_says, texts, value))
    return len(texts) == 1 and _says(texts[0], value)


def _says(text: str, value: object) -> bool:
    if isinstance(value, str):
        return text == value
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.DecodeError, RecursionError):
        return False
