"""Files in a folder, or in memory beside a database in memory; named by their content."""

from __future__ import annotations

import asyncio
import hashlib
import os
import uuid
from pathlib import Path

from retinue.errors import FileMissing, StoreError

SCHEME = "file:sha256/"


def _uri(data: bytes) -> str:
    return SCHEME + hashlib.sha256(data).hexdigest()


class MemoryFiles:
    """Files that end with the process."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        uri = _uri(data)
        self._files[uri] = data
        return uri

    async def get(self, uri: str) -> bytes:
        if uri not in self._files:
            raise FileMissing(uri=uri)
        return self._files[uri]


class LocalFiles:
    """Files in a folder. One is whole or not there: it is written beside and moved when it is on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, data: bytes) -> str:
        return await asyncio.to_thread(self._put, data)

    async def get(self, uri: str) -> bytes:
        return await asyncio.to_thread(self._get, uri)

    def _path(self, uri: str) -> Path:
        digest = uri.removeprefix(SCHEME)
        if not uri.startswith(SCHEME) or len(digest) != 64 or not digest.isalnum():
            raise FileMissing(uri=uri)
        return self._folder / digest[:2] / digest

    def _put(self, data: bytes) -> str:
        uri = _uri(data)
        path = self._path(uri)
        if path.exists():
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
            raise StoreError(problem=f"{path} cannot be written: {error.strerror}") from None
        return uri

    def _get(self, uri: str) -> bytes:
        try:
            return self._path(uri).read_bytes()
        except FileNotFoundError:
            raise FileMissing(uri=uri) from None
        except OSError as error:
            raise StoreError(problem=f"{uri} cannot be read: {error.strerror}") from None
