"""What a model is shown of the files in its prompt: the file itself, its text, or a note in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from retinue.core.messages import File, Text
from retinue.errors import BadAddress, BadFile, ExtraMissing, FileMissing, StoreError
from retinue.files import documents
from retinue.files.config import FilesConfig
from retinue.files.content import SCHEME
from retinue.files.kinds import charset_of, is_text, kind_of
from retinue.files.reading import Reader
from retinue.files.texts import fenced, shown_name, size_of
from retinue.ports.files import Files, Opened
from retinue.ports.models import Takes

PDF = "application/pdf"
HTML = ("text/html", "application/xhtml+xml")
NAMELESS = "unnamed"


@dataclass(frozen=True, slots=True)
class Lost:
    """A file cannot be shown, and why."""

    why: str


class RunAttachments:
    """The files of one run (the port `Attachments`): each is read once, and turned into text once."""

    def __init__(self, files: Files, config: FilesConfig | None = None) -> None:
        self._config = config or FilesConfig()
        self._reader = Reader(files, self._config)
        self._read: dict[str, bytes | Lost] = {}
        self._texts: dict[tuple[str, str, str], Opened | Lost] = {}
        self._total = 0
        self._turn = asyncio.Lock()

    async def admit(self, file: File) -> None:
        try:
            await self._reader.admit(file.uri)
        except BadFile as error:
            raise BadFile(name=_name(file), problem=error.problem) from None

    async def open(self, file: File, takes: Takes) -> Opened:
        async with self._turn:  # one after the other, so that each run leaves out the same files
            shown = await self._shown(file, takes)
        if isinstance(shown, Opened):
            return shown
        if file.required:
            raise BadFile(name=_name(file), problem=shown.why)
        return _note(file, shown)

    async def _shown(self, file: File, takes: Takes) -> Opened | Lost:
        data = await self._bytes(file.uri)
        if isinstance(data, Lost):
            return data
        kind = kind_of(data, file.name, file.media_type)
        if takes.takes(kind):
            return Opened(parts=(msgspec.structs.replace(file, media_type=kind),), files={file.uri: data})
        key = (file.uri, kind, _name(file))
        if key not in self._texts:
            self._texts[key] = await self._text(file, data, kind)
        return self._texts[key]

    async def _bytes(self, uri: str) -> bytes | Lost:
        if uri not in self._read:
            self._read[uri] = await self._read_now(uri)
        return self._read[uri]

    async def _read_now(self, uri: str) -> bytes | Lost:
        try:
            data = await self._reader.read(uri, self._config.max_bytes)
        except (BadFile, BadAddress) as error:
            return Lost(error.problem)
        except FileMissing:
            return Lost("it is not there any more")
        except StoreError:
            return Lost("where it is kept cannot be reached")
        except ExtraMissing as error:
            return Lost(str(error))
        if not data:
            return Lost("it is empty")
        if self._total + len(data) > self._config.max_total_bytes:
            limit = size_of(self._config.max_total_bytes)
            return Lost(f"with it, the files of this run have more than {limit} (`max_total_mb` under [files])")
        self._total += len(data)
        return data

    async def _text(self, file: File, data: bytes, kind: str) -> Opened | Lost:
        try:
            text = await self._converted(data, kind, charset_of(file.media_type))
        except ExtraMissing as error:
            return Lost(str(error))
        if isinstance(text, str):
            return Lost(text)
        part = Text(text=await asyncio.to_thread(fenced, _name(file), kind, text.text))
        return Opened(parts=(part,), problem=_problem(file, text.problem) if text.problem else "")

    async def _converted(self, data: bytes, kind: str, charset: str) -> documents.Text | str:
        config = self._config
        if kind == PDF:
            return await documents.text_of_pdf(data, config.max_pages, config.convert_seconds)
        if not is_text(kind):
            return f"the model takes no {kind}"
        from retinue.files import charsets  # charset-normalizer is slow to import

        decode: Callable[[bytes, str], str | None] = charsets.decoded_html if kind in HTML else charsets.decoded
        text = await asyncio.to_thread(decode, data, charset)
        if text is None:
            return charsets.UNKNOWN
        return await documents.text_of_html(text, config.convert_seconds) if kind in HTML else documents.Text(text)


def _name(file: File) -> str:
    """What it is called, never where it lies."""
    last = "" if file.uri.startswith(SCHEME) else unquote(file.uri.partition("?")[0].rpartition("/")[2])
    return shown_name(file.name or last) or NAMELESS


def _note(file: File, lost: Lost) -> Opened:
    kind = f" ({shown_name(file.media_type)})" if file.media_type else ""
    note = f'[File "{_name(file)}"{kind} is attached and cannot be shown to you.]'
    return Opened(parts=(Text(text=note),), problem=_problem(file, lost.why))


def _problem(file: File, why: str) -> str:
    return f"{_name(file)}: {why}"
