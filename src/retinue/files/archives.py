"""A zip or tar as one text. Nothing is unpacked to the disk, so nothing can leave it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from retinue.errors import BadFile
from retinue.files.bundle import Bundle
from retinue.files.config import MB, FilesConfig
from retinue.files.kinds import kind_of
from retinue.files.patterns import Patterns
from retinue.files.texts import size_of

MOST_UNPACKED = 200 * MB
MOST_MEMBERS = 20_000
HIGHEST_RATIO = 200
RATIO_FROM = 10 * MB
TARS = ("application/gzip", "application/x-bzip2", "application/x-xz", "application/x-tar")
_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz")
_BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError),  # a method that is not known, a password
)


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive. `odd` says what it is instead of a file."""

    path: str
    size: int
    odd: str
    read: Callable[[int], bytes]


def is_archive(name: str, data: bytes) -> bool:
    """Whether it is one to look into; what only happens to be a zip inside (an office document) is not."""
    kind = kind_of(data, name)
    return name.lower().endswith(_SUFFIXES) and (kind == "application/zip" or kind in TARS)


def read_archive(data: bytes, name: str, patterns: Patterns, config: FilesConfig) -> Bundle:
    """The text files in it. Raises `BadFile` for one that is broken, or that unpacks to too much."""
    kind = kind_of(data, name)
    bundle = Bundle(_stem(name), config)
    budget = _Budget(name, len(data))
    try:
        for count, member in enumerate(_zip(data, budget) if kind == "application/zip" else _tar(data, kind, budget)):
            if count >= MOST_MEMBERS:
                raise BadFile(name=name, problem=f"it has more than {MOST_MEMBERS} members")
            _add(bundle, member, patterns)
    except _BROKEN:
        raise BadFile(name=name, problem="it is broken, or no archive of a kind that is known") from None
    return bundle


def _add(bundle: Bundle, member: Member, patterns: Patterns) -> None:
    path = member.path.removeprefix("./")
    if path.startswith("/") or "\\" in path or ".." in path.split("/"):
        bundle.pass_over(path, "outside of it")
    elif patterns.excludes(path):
        bundle.pass_over(path, "excluded")
    elif patterns.includes(path):
        if member.odd:
            bundle.leave_out(path, member.odd)
            return
        try:
            bundle.add(path, member.size, member.read)
        except _BROKEN:
            bundle.leave_out(path, "unreadable")


class _Budget:
    """How much an archive may unpack to."""

    def __init__(self, name: str, packed: int) -> None:
        self._name = name
        self._most = min(MOST_UNPACKED, max(packed * HIGHEST_RATIO, RATIO_FROM))
        self._used = 0

    def use(self, count: int) -> None:
        self._used += count
        if self._used > self._most:
            raise BadFile(name=self._name, problem=f"it unpacks to more than {size_of(self._most)}")


def _zip(data: bytes, budget: _Budget) -> Iterator[Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            budget.use(info.file_size)
            odd = "a link" if stat.S_ISLNK(info.external_attr >> 16) else "encrypted" if info.flag_bits & 1 else ""
            yield Member(info.filename, info.file_size, odd, partial(_read_zipped, archive, info, budget))


def _read_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: _Budget, at_most: int) -> bytes:
    with archive.open(info) as file:
        data = file.read(at_most)
    budget.use(max(len(data) - info.file_size, 0))  # it said less than it has
    return data


def _tar(data: bytes, kind: str, budget: _Budget) -> Iterator[Member]:
    unpacked: Any = _Counted(_stream(data, kind), budget)
    with tarfile.open(fileobj=unpacked, mode="r|") as archive:  # as a stream: each byte is unpacked once, and counted
        for info in archive:
            if info.isdir():
                continue
            odd = "" if info.isreg() else "a link" if info.issym() or info.islnk() else "no regular file"
            yield Member(info.name, info.size, odd, partial(_read_tarred, archive, info))


def _read_tarred(archive: tarfile.TarFile, info: tarfile.TarInfo, at_most: int) -> bytes:
    file = archive.extractfile(info)
    return file.read(at_most) if file else b""


def _stream(data: bytes, kind: str) -> IO[bytes] | gzip.GzipFile:
    packed = io.BytesIO(data)
    match kind:
        case "application/gzip":
            return gzip.GzipFile(fileobj=packed)
        case "application/x-bzip2":
            return bz2.BZ2File(packed)
        case "application/x-xz":
            return lzma.LZMAFile(packed)
        case _:
            return packed


class _Counted:
    """A stream that says how much has been read of it."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, budget: _Budget) -> None:
        self._file, self._budget = file, budget

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._budget.use(len(data))
        return data


def _stem(name: str) -> str:
    suffix = max((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), key=len, default="")
    return name[: len(name) - len(suffix)] or "archive"
