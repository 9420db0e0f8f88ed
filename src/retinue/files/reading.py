"""The bytes behind a file URI, from the store or from inside the roots, and never more than was asked for."""

from __future__ import annotations

import asyncio
import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from retinue.errors import BadFile, ExtraMissing
from retinue.files.config import FilesConfig
from retinue.files.content import SCHEME
from retinue.files.roots import BUCKETS, WEB, Roots, scheme_of
from retinue.files.texts import shown_name, size_of
from retinue.ports.files import Files

if TYPE_CHECKING:
    from retinue.files.remote import Bucket


class Reader:
    """Reads file URIs. Raises `BadFile`, `BadAddress` or `StoreError`, each with a reason that names no place."""

    def __init__(self, files: Files, config: FilesConfig) -> None:
        self._files, self._config = files, config
        self._roots = Roots(config.roots)
        self._buckets: dict[str, Bucket] = {}

    async def admit(self, uri: str) -> None:
        """Raises `BadFile` for an address that is never read, whatever is there."""
        scheme = scheme_of(uri)
        if uri.startswith(SCHEME):
            return
        if scheme == "file":
            await asyncio.to_thread(self._roots.path, uri)
        elif scheme in (*WEB, *BUCKETS):
            self._roots.check(uri)
        else:
            raise _unreadable(uri)

    async def read(self, uri: str, at_most: int) -> bytes:
        if uri.startswith(SCHEME):
            return within(await self._files.get(uri), "a stored file", at_most)
        scheme = scheme_of(uri)
        if scheme == "file":
            path = await asyncio.to_thread(self._roots.path, uri)
            return await asyncio.to_thread(read_path, path, at_most)
        if scheme in WEB:
            return await self._fetch(uri, at_most)
        if scheme in BUCKETS:
            return await self._read_bucket(uri, at_most)
        raise _unreadable(uri)

    async def _fetch(self, url: str, at_most: int) -> bytes:
        self._roots.check(url)
        from retinue.files.fetch import fetch  # aiohttp is slow to import

        fetched = await fetch(url, self._config.fetch, inside=self._roots.holds)
        return within(fetched.body, fetched.name, at_most)

    async def _read_bucket(self, url: str, at_most: int) -> bytes:
        self._roots.check(url)
        scheme, _, path = url.partition("://")
        name, _, key = path.partition("/")
        place = f"{scheme.lower()}://{name}"
        if place not in self._buckets:
            self._buckets[place] = open_bucket(place, self._config)
        return await self._buckets[place].read(key, at_most)


def _unreadable(uri: str) -> BadFile:
    return BadFile(name=shown_name(uri) or "the file", problem="its address is of no kind that can be read")


def open_bucket(url: str, config: FilesConfig) -> Bucket:
    """A bucket, by what the settings say about its kind."""
    try:
        from retinue.files.remote import Bucket  # obstore is an extra
    except ImportError:
        raise ExtraMissing(what="Reading buckets", extra="files") from None
    return Bucket(url, config.options(url))


def read_path(path: Path, at_most: int) -> bytes:
    """A file of this machine: a regular one, that was no link a moment ago."""
    name = shown_name(path.name)
    # Opening a pipe or a device would wait for whoever is at its other end.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(path, "rb", opener=partial(_open, flags=flags)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadFile(name=name, problem="it is no regular file")
            if found.st_size > at_most:
                raise _too_large(name, found.st_size, at_most)
            return within(file.read(at_most + 1), name, at_most)
    except FileNotFoundError:
        raise BadFile(name=name, problem="it is not there") from None
    except OSError as error:
        raise BadFile(name=name, problem=f"it cannot be read: {error.strerror}") from None


def _open(path: str, _: int, flags: int) -> int:
    return os.open(path, flags)


def within(data: bytes, name: str, at_most: int) -> bytes:
    """The bytes, if they are not more than that."""
    if len(data) > at_most:
        raise _too_large(name, len(data), at_most)
    return data


def _too_large(name: str, size: int, at_most: int) -> BadFile:
    return BadFile(
        name=name, problem=f"it has {size_of(size)}, the limit is {size_of(at_most)} (`max_mb` under [files])"
    )
