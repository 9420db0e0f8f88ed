"""The head of a GGUF file: whether it is one, whether it is whole, and how long a text its model was trained on."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from retinue.errors import BadFile

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9
LONGEST = 1 << 27
"""No name or text of a head is longer: a file that says so is not what it says."""


def context_of(path: Path) -> int:
    """How many tokens the model was trained to look at, 0 if the file does not say. Reads no further than to there."""
    with _opened(path) as head:
        return head.context()


def check_gguf(path: Path) -> None:
    """Read the whole head. Raises `BadFile`, which says what is wrong."""
    with _opened(path) as head:
        head.check()


@contextmanager
def _opened(path: Path) -> Iterator[_Head]:
    try:
        with path.open("rb") as file:
            yield _Head(path, file, path.stat().st_size)
    except OSError as error:
        raise BadFile(name=str(path), problem=error.strerror or str(error)) from None


class _Head:
    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self._path, self._file, self._size = path, file, size
        self._tensors = 0

    def context(self) -> int:
        architecture = ""
        for name, value in self._facts():
            if name == "general.architecture":
                architecture = str(value)
            elif name == f"{architecture}.context_length":
                return value if isinstance(value, int) else 0
        return 0

    def check(self) -> None:
        for _ in self._facts():
            pass
        self._check_tensors(self._tensors)

    def _facts(self) -> Iterator[tuple[str, object]]:
        """What the head says, name by name."""
        if self._file.read(4) != MAGIC:
            raise self._bad("it is no GGUF file")
        version, self._tensors, count = self._unpack("<I"), self._unpack("<Q"), self._unpack("<Q")
        if version not in VERSIONS:
            raise self._bad(f"it is GGUF of version {version}; 2 and 3 can be read")
        for _ in range(count):
            name = self._text()
            kind = self._unpack("<I")
            if kind == ARRAY:
                self._pass_array()
            else:
                yield name, self._value(kind)

    def _check_tensors(self, count: int) -> None:
        """The last tensor must begin inside the file: a file that was cut off is told from a whole one."""
        last = 0
        for _ in range(count):
            self._text()
            dimensions = self._unpack("<I")
            self._skip(8 * dimensions + 4)
            last = max(last, self._unpack("<Q"))
        if count and self._file.tell() + last >= self._size:
            raise self._cut()

    def _value(self, kind: int) -> object:
        if kind == STRING:
            return self._text()
        if kind not in SCALARS:
            raise self._bad(f"its head is damaged (a value of kind {kind})")
        return self._unpack(SCALARS[kind])

    def _pass_array(self) -> None:
        """None of what is wanted here is a list."""
        kind, count = self._unpack("<I"), self._unpack("<Q")
        if kind in SCALARS:
            self._skip(struct.calcsize(SCALARS[kind]) * count)
        else:
            for _ in range(count):
                self._value(kind)

    def _text(self) -> str:
        return self._take(self._unpack("<Q")).decode(errors="replace")

    def _unpack(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return value  # type: ignore[no-any-return]

    def _skip(self, count: int) -> None:
        if self._file.tell() + count > self._size:
            raise self._cut()
        self._file.seek(count, 1)

    def _take(self, count: int) -> bytes:
        if count > LONGEST:
            raise self._bad("its head is damaged")
        data = self._file.read(count)
        if len(data) < count:
            raise self._cut()
        return data

    def _cut(self) -> BadFile:
        return self._bad("it is not whole: it ends too early")

    def _bad(self, problem: str) -> BadFile:
        return BadFile(name=str(self._path), problem=problem)
