"""Files in a folder, or in memory beside a database in memory; named by their content."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

from retinue.errors import FileMissing, FilesUnavailable
from retinue.files.content import STILL_WANTED_SECONDS, key_of, uri_of


class MemoryFiles:
    """Files that end with the process."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        uri = uri_of(data)
        self._files[uri] = data
        return uri

    async def get(self, uri: str) -> bytes:
        if uri not in self._files:
            raise FileMissing(uri=uri)
        return self._files[uri]

    async def delete(self, uri: str) -> None:
        self._files.pop(uri, None)


class LocalFiles:
    """Files in a folder. One is whole or not there: it is written beside and moved when it is on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, data: bytes) -> str:
        return await asyncio.to_thread(self._put, data)

    async def get(self, uri: str) -> bytes:
        return await asyncio.to_thread(self._get, uri)

    async def delete(self, uri: str) -> None:
        await asyncio.to_thread(self._delete, uri)

    def _path(self, uri: str) -> Path:
        return self._folder / key_of(uri)

    def _put(self, data: bytes) -> str:
        uri = uri_of(data)
        path = self._path(uri)
        with suppress(OSError):
            os.utime(path)  # who deletes what is no longer used sees that it is
            return uri
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(f".{uuid.uuid4().hex}.part")  # the same bytes may be stored twice at once
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            raise FilesUnavailable(
                place=str(self._folder),
                problem=f"it cannot be written: {error.strerror}. Check the folder and its permissions.",
            ) from None
        return uri

    def _delete(self, uri: str) -> None:
        path = self._path(uri)
        aside = path.with_suffix(f".{uuid.uuid4().hex}.part")
        with suppress(FileNotFoundError):
            path.rename(aside)  # first: who puts it from here on writes it anew
            if time.time() - aside.stat().st_mtime < STILL_WANTED_SECONDS:
                aside.replace(path)
            else:
                aside.unlink()

    def _get(self, uri: str) -> bytes:
        try:
            return self._path(uri).read_bytes()
        except FileNotFoundError:
            raise FileMissing(uri=uri) from None
        except OSError as error:
            raise FilesUnavailable(place=str(self._folder), problem=f"{uri} cannot be read: {error.strerror}") from None
