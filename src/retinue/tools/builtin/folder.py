"""A folder that nothing leads out of.

Each part of a path is opened inside the one before, and none is followed if it is a link. So it does not matter
what lies there, or what is put there between looking and opening.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from retinue.errors import ToolFailed
from retinue.files.texts import size_of

DEEPEST, LONGEST_NAME, LONGEST_SHOWN = 40, 255, 300
SHUT = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Folders that nobody means who asks for everything; they can be named."""
_INSIDE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _INSIDE
# Opening a pipe would wait for whoever is at its other end.
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | _INSIDE


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder. `kind` is `file`, `folder`, `link` or `other`."""

    path: str
    kind: str
    size: int = 0

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Folder:
    """Reads what is in a folder. All refusals are `ToolFailed`, in words for a model; `name` is what it is called."""

    def __init__(self, path: Path, name: str = "the workspace") -> None:
        self.path, self.name = path, name

    def read(self, path: str, at_most: int) -> bytes:
        """A regular file."""
        with self.inside(path) as (folder, name), told(path):
            kind = kind_at(folder, name)
            if kind != "file":
                raise ToolFailed(wrong_kind(path, kind))
            descriptor = os.open(name, _FILE, dir_fd=folder)
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise ToolFailed(wrong_kind(path, "other"))
                data = file.read(at_most + 1)
                if len(data) > at_most:
                    size = size_of(max(found.st_size, len(data)))
                    raise ToolFailed(f"{shown(path)} has {size}, which is too much: {size_of(at_most)} can be read")
                return data

    def entries(self, path: str = "") -> list[Entry]:
        """What is in a folder, in order."""
        parts = steps(path)
        with self.entered(parts) as folder, told(path), os.scandir(folder) as found:
            entries = [_entry(parts, one) for one in found]
        return sorted(entries, key=lambda entry: entry.name)

    def walk(self, path: str, deepest: int = DEEPEST, *, skips: frozenset[str] = frozenset()) -> Iterator[Entry]:
        """All that is below, each folder before what is in it. Folders whose names are in `skips` stay shut."""
        for entry in self.entries(path):
            yield entry
            if entry.kind == "folder" and deepest > 1 and entry.name not in skips:
                with suppress(ToolFailed):  # it went away, or cannot be read
                    yield from self.walk(entry.path, deepest - 1, skips=skips)

    @contextmanager
    def inside(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that a file is in, opened, and its name there."""
        parts = steps(path)
        if not parts:
            raise ToolFailed(f"say which file: {self.name} itself is a folder")
        with self.entered(parts[:-1], make=make) as folder:
            yield folder, parts[-1]

    @contextmanager
    def entered(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """A folder, opened."""
        with told("."):
            folder = os.open(self.path, _FOLDER)
        try:
            for n, part in enumerate(parts):
                inner = self._step(folder, part, "/".join(parts[: n + 1]), make)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _step(self, folder: int, part: str, path: str, make: bool) -> int:
        with told(path):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                    os.fsync(folder)
            try:
                return os.open(part, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                raise ToolFailed(f"there is no folder {shown(path)} in {self.name}: look with `list`") from None
            except OSError:
                kind = kind_at(folder, part)
                if kind != "folder":
                    raise ToolFailed(wrong_kind(path, kind, wanted="folder")) from None
                raise


def steps(path: str) -> tuple[str, ...]:
    """The parts of a path that stays inside."""
    if path.startswith(("/", "~")):
        raise ToolFailed(f"{shown(path)} leads out: say the path inside the folder, like notes/plan.md")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ToolFailed(f"{shown(path)} leads out: a path may hold no `..`")
    if any(_unfit(part) for part in parts) or len(parts) > DEEPEST:
        raise ToolFailed(
            f"{shown(path)} is no path that can be used: it is too long, or has characters that no name has"
        )
    return parts


def _unfit(part: str) -> bool:
    if any(sign < " " or sign == "\x7f" or "\ud800" <= sign <= "\udfff" for sign in part):
        return True
    return len(part.encode()) > LONGEST_NAME


def kind_at(folder: int, name: str) -> str:
    """What is there, itself: `file`, `folder`, `link`, `other`, or nothing."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return ""
    return _kind(mode)


def wrong_kind(path: str, kind: str, wanted: str = "file") -> str:
    """Why something that is no file cannot be used as one."""
    match kind:
        case "":
            return f"there is no {wanted} {shown(path)}: look with `list`"
        case "link":
            return f"{shown(path)} is a link, and links are not followed"
        case "folder":
            return f"{shown(path)} is a folder: look into it with `list`"
        case "file":
            return f"{shown(path)} is a file, not a folder"
        case _:
            return f"{shown(path)} is no regular file"


def shown(path: str) -> str:
    """A path as it may stand in a sentence: names may hold anything, also what is no text."""
    plain = "".join("?" if unicodedata.category(sign)[0] == "C" else sign for sign in path)
    return (plain if len(plain) <= LONGEST_SHOWN else f"{plain[:LONGEST_SHOWN]}…") or "."


def _entry(parts: tuple[str, ...], found: os.DirEntry[str]) -> Entry:
    path = "/".join((*parts, found.name))
    try:
        seen = found.stat(follow_symlinks=False)
    except OSError:  # it went away
        return Entry(path, "other")
    return Entry(path, _kind(seen.st_mode), seen.st_size)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


@contextmanager
def told(path: str) -> Iterator[None]:
    """What the system says, in words."""
    try:
        yield
    except FileNotFoundError:
        raise ToolFailed(f"{shown(path)} is not there: look with `list`") from None
    except OSError as error:
        raise ToolFailed(f"{shown(path)} cannot be used: {error.strerror or 'the system refuses'}") from None
