"""File parts from what people name: paths, URLs, folders and archives, each stored once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from retinue.core.messages import File
from retinue.errors import BadAddress, BadFile
from retinue.files import archives, charsets, documents, folders
from retinue.files.attach import HTML
from retinue.files.bundle import Bundle
from retinue.files.config import FilesConfig
from retinue.files.kinds import is_text, kind_of
from retinue.files.patterns import Patterns
from retinue.files.reading import Reader, read_path
from retinue.files.roots import BUCKETS, WEB, Roots, scheme_of
from retinue.files.texts import public, shown_name, size_of
from retinue.ports.files import Files


class Stored(NamedTuple):
    """A file that was put into the store."""

    uri: str
    size: int
    media_type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The parts for a message, and what was left out on the way."""

    parts: tuple[File, ...]
    notes: tuple[str, ...]
    stored: tuple[Stored, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a source became, not stored yet."""

    data: bytes
    media_type: str
    name: str
    notes: tuple[str, ...] = ()


async def gather(
    sources: Sequence[str],
    files: Files,
    config: FilesConfig | None = None,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    roots: Roots | None = None,
) -> Gathered:
    """Read what is named, then store all of it: with one that cannot be had, nothing is.

    `include` and `exclude` choose in folders and archives. Paths are read wherever this process can, as
    its own user wants it; for others say `roots`. Raises `BadFile`, `BadAddress` or `ExtraMissing`.
    """
    config = config or FilesConfig()
    patterns = Patterns(include, exclude)
    reader = Reader(files, config)
    found: list[Found] = []
    for source in sources:
        found.append(await _found(source, reader, config, patterns, roots))
        if sum(len(one.data) for one in found) > config.max_total_bytes:
            limit = size_of(config.max_total_bytes)
            problem = f"with it, the files have more than {limit} (`max_total_mb` under [files])"
            raise BadFile(name=found[-1].name, problem=problem)
    stored = [Stored(await files.put(one.data), len(one.data), one.media_type, one.name) for one in found]
    return Gathered(
        parts=tuple(File(uri=one.uri, media_type=one.media_type, name=one.name) for one in dict.fromkeys(stored)),
        notes=tuple(note for one in found for note in one.notes),
        stored=tuple(dict.fromkeys(stored)),
    )


async def _found(source: str, reader: Reader, config: FilesConfig, patterns: Patterns, roots: Roots | None) -> Found:
    scheme = scheme_of(source)
    if scheme in WEB:
        return await from_url(source, config, patterns)
    if scheme in BUCKETS:
        data = await reader.read(source, config.max_bytes)
        return await _read(data, source.rpartition("/")[2], config, patterns)
    path = await asyncio.to_thread(_place, source, roots)
    if await asyncio.to_thread(os.path.isdir, path):
        return await from_folder(path, config, patterns)
    return await from_path(path, config, patterns)


async def from_path(path: Path, config: FilesConfig, patterns: Patterns | None = None) -> Found:
    """A file of this machine; an archive as the text that is in it."""
    data = await asyncio.to_thread(read_path, path, config.max_bytes)
    return await _read(data, path.name, config, patterns or Patterns())


async def from_url(url: str, config: FilesConfig, patterns: Patterns | None = None) -> Found:
    """What is at a URL; a page as Markdown, under its title and address."""
    from retinue.files.fetch import fetch  # aiohttp is slow to import

    fetched = await fetch(url, config.fetch)
    kind = kind_of(fetched.body, fetched.name, fetched.media_type)
    address = public(fetched.url)
    if kind not in HTML:
        found = await _read(fetched.body, fetched.name, config, patterns or Patterns(), fetched.media_type)
        charset = f"; charset={fetched.charset}" if fetched.charset and is_text(found.media_type) else ""
        return replace(found, media_type=found.media_type + charset)
    page = await asyncio.to_thread(charsets.decoded_html, fetched.body, fetched.charset)
    text: documents.Text | str = charsets.UNKNOWN
    if page is not None:
        text = await documents.text_of_html(page, config.convert_seconds, address)
    if isinstance(text, str):
        raise BadAddress(url=public(url), problem=text)
    name = shown_name(address.partition("://")[2])
    notes = (f"{name}: {text.problem}",) if text.problem else ()
    data = f"Source: {address}\n\n{text.text}\n".encode()
    return Found(data=data, media_type="text/markdown", name=name, notes=notes)


async def from_folder(path: Path, config: FilesConfig, patterns: Patterns | None = None) -> Found:
    """The text files in a folder as one, under a tree of it."""
    bundle = await asyncio.to_thread(folders.read_folder, path, patterns or Patterns(), config)
    return _bundled(bundle)


async def from_archive(data: bytes, name: str, config: FilesConfig, patterns: Patterns | None = None) -> Found:
    """The text files in a zip or tar (what `git archive` writes) as one, under a tree of it."""
    bundle = await asyncio.to_thread(archives.read_archive, data, name, patterns or Patterns(), config)
    return _bundled(bundle)


async def _read(data: bytes, name: str, config: FilesConfig, patterns: Patterns, said: str = "") -> Found:
    name = shown_name(name)
    if not data:
        raise BadFile(name=name, problem="it is empty")
    if archives.is_archive(name, data):
        return await from_archive(data, name, config, patterns)
    return Found(data=data, media_type=kind_of(data, name, said), name=name)


def _bundled(bundle: Bundle) -> Found:
    if not bundle:
        problem = "; ".join(note.removeprefix(f"{bundle.name}: ") for note in bundle.notes)
        raise BadFile(name=bundle.name, problem=f"no text file is in it that is taken{problem and f' ({problem})'}")
    return Found(data=bundle.text.encode(), media_type="text/plain", name=f"{bundle.name}/", notes=bundle.notes)


def _place(source: str, roots: Roots | None) -> Path:
    """The path, links followed."""
    if scheme_of(source) == "file":
        return (roots or Roots(["/"])).path(source)
    if "://" in source:
        raise BadAddress(url=public(source), problem="only http, https, s3, gs, az and file URLs are")
    try:
        path = Path(source).expanduser().absolute()
        return roots.path(path.as_uri()) if roots else path.resolve()
    except (ValueError, RuntimeError):  # no character of a path, nobody's home
        raise BadFile(name=shown_name(source), problem="it is no path") from None
