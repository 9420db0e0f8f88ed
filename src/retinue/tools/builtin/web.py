"""`web_fetch`: reading a page of the web, through the guard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec

from retinue.errors import BadAddress, ExtraMissing, ToolFailed
from retinue.files import documents
from retinue.files.config import FilesConfig
from retinue.files.kinds import is_text, kind_of
from retinue.files.texts import fenced, public, size_of
from retinue.ports.tools import ToolContext
from retinue.tools.builtin.tool import Arguments, BuiltIn, built_in

if TYPE_CHECKING:
    from retinue.files.fetch import Fetched

MOST_CHARACTERS = 50_000
HTML = ("text/html", "application/xhtml+xml")
PDF = "application/pdf"


class WebFetch(Arguments, frozen=True):
    url: Annotated[str, msgspec.Meta(description="An http or https URL.")]
    offset: Annotated[int, msgspec.Meta(ge=0, description="The character to begin with, of a long text.")] = 0


def web_fetch_tool(config: FilesConfig | None = None) -> BuiltIn[WebFetch]:
    """What it gives is marked as data. `[files.fetch]` says what is taken."""
    settings = config or FilesConfig()

    async def web_fetch(said: WebFetch, context: ToolContext) -> object:
        from retinue.files.fetch import fetch  # aiohttp is slow to import

        try:
            fetched = await fetch(said.url.strip(), settings.fetch)
            kind = kind_of(fetched.body, fetched.name, fetched.media_type)
            text = await _text(fetched, kind, settings)
        except (BadAddress, ExtraMissing) as error:
            raise ToolFailed(f"{error}{_advice(error)}") from None
        return await asyncio.to_thread(_shown, public(fetched.url), text, said.offset)

    return built_in(
        "web_fetch",
        "Read a page of the web as text: HTML as Markdown, PDF as its text. No scripts run on it.",
        WebFetch,
        web_fetch,
        timeout=settings.fetch.seconds + settings.convert_seconds + 5,
    )


async def _text(fetched: Fetched, kind: str, config: FilesConfig) -> str:
    """What is there, as text. Raises `BadAddress` for what is none."""
    found: documents.Text | str | None
    if not fetched.body:
        found = "there is nothing at it"
    elif kind == PDF:
        found = await documents.text_of_pdf(fetched.body, config.max_pages, config.convert_seconds)
    elif is_text(kind):
        found = await _decoded(fetched, kind, config)
    else:
        found = f"it is {kind} ({size_of(len(fetched.body))}), and only text, HTML and PDF can be read"
    if isinstance(found, str):
        raise BadAddress(url=public(fetched.url), problem=found)
    return f"{found.text}\n\n[{found.problem}]" if found.problem else found.text


async def _decoded(fetched: Fetched, kind: str, config: FilesConfig) -> documents.Text | str:
    from retinue.files import charsets  # charset-normalizer is slow to import

    decode = charsets.decoded_html if kind in HTML else charsets.decoded
    text = await asyncio.to_thread(decode, fetched.body, fetched.charset)
    if text is None:
        return charsets.UNKNOWN
    if kind in HTML:
        return await documents.text_of_html(text, config.convert_seconds, public(fetched.url))
    return documents.Text(text)


def _shown(address: str, text: str, offset: int) -> str:
    """A part of it that is not too long, between lines that say that it is no instruction."""
    if offset and offset >= len(text):
        raise ToolFailed(f"{address} has only {len(text):,} characters")
    end = offset + MOST_CHARACTERS
    part = text[offset:end] or "(nothing that can be read)"
    more = f"; go on with offset {end}" if end < len(text) else ""
    where = f"\n[Characters {offset:,} to {min(end, len(text)):,} of {len(text):,}{more}.]" if offset or more else ""
    return fenced(address.partition("://")[2], "from the web", f"Source: {address}\n\n{part}") + where


def _advice(error: BadAddress | ExtraMissing) -> str:
    """What a model can do about it, where there is something."""
    if isinstance(error, BadAddress) and "it leads to" in error.problem:
        return ". Only the public web can be read; do not try other spellings of this address"
    return ""
