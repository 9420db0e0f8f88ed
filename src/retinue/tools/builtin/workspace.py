"""The folder of files that a tree of runs works in."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import msgspec

from retinue.errors import BadInput, ToolFailed
from retinue.files.texts import size_of
from retinue.tools.builtin.folder import Folder, kind_at, shown, told, wrong_kind

WORKSPACE_TOOLS = ("read", "write", "edit", "list", "search")
FILES, NOTES, PARTS, LOCK = "files", "notes", "parts", "lock"
_run_id = re.compile(r"[A-Za-z0-9_-]{1,100}")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceLimits:
    """How much a workspace holds."""

    max_file: int = 10 * 1024 * 1024
    max_total: int = 256 * 1024 * 1024
    max_entries: int = 20_000


class Note(msgspec.Struct, frozen=True):
    """What a call is about to do: the digest of its file before (empty: there is none) and after."""

    path: str
    before: str
    after: str


Change = Callable[[bytes | None], bytes]
"""What becomes of a file, or of none."""


class Workspaces:
    """The workspaces of all trees, in one folder. One is made when it is first used."""

    def __init__(self, folder: Path, limits: WorkspaceLimits | None = None) -> None:
        self._folder, self._limits = folder, limits or WorkspaceLimits()

    def of(self, root_run_id: str, source: str | None = None) -> Workspace:
        """The one of a tree. A run that retries or forks another (`source`) begins with a copy of what is there."""
        before = self._base(source) if source else None
        return Workspace(self._base(root_run_id), self._limits, before)

    async def forget(self, root_run_id: str) -> None:
        """Delete what a tree left."""
        await asyncio.to_thread(shutil.rmtree, self._base(root_run_id), ignore_errors=True)

    def _base(self, root_run_id: str) -> Path:
        if not _run_id.fullmatch(root_run_id):
            raise BadInput(problem=f"{root_run_id!r} is no run's id.")
        return self._folder / root_run_id


class Workspace(Folder):
    """One of them. Files are changed whole or not at all, also when the process dies in between."""

    def __init__(self, base: Path, limits: WorkspaceLimits, source: Path | None = None) -> None:
        super().__init__(base / FILES)
        self._base, self._limits, self._source = base, limits, source
        self._turn = asyncio.Lock()
        self.max_file = limits.max_file

    async def do(self, work: Callable[[], T]) -> T:
        """Do blocking work in it, in a thread and in the order of asking: a file that was written can then be read."""
        async with self._turn:
            return await asyncio.to_thread(self._made, work)

    async def begin(self) -> None:
        """Copy what there is to go on with, if there is anything: who goes on from this run finds it here, although
        this run may never have used it."""
        if self._source and not self.path.is_dir() and (self._source / FILES).is_dir():
            await self.do(lambda: None)

    def _made(self, work: Callable[[], T]) -> T:
        if os.open not in os.supports_dir_fd:
            raise ToolFailed("this system has no way to keep a workspace apart from other folders")
        if not self.path.is_dir():
            with told("the workspace"):
                self._make()
        return work()

    def _make(self) -> None:
        """Whole or not at all: who dies here leaves a folder that nobody looks at."""
        new = self._base.with_name(f".{self._base.name}.{uuid4().hex}")
        new.mkdir(parents=True)
        if self._source and (self._source / FILES).is_dir():
            shutil.copytree(self._source / FILES, new / FILES, symlinks=True, copy_function=_copy)
        for inner in (FILES, NOTES, PARTS):
            (new / inner).mkdir(exist_ok=True)
        try:
            new.rename(self._base)
            _keep(self._base.parent)
        except OSError:  # somebody else was first
            shutil.rmtree(new, ignore_errors=True)
            if not self.path.is_dir():
                raise

    def change(self, path: str, change: Change, key: str) -> None:
        """Change a file, once for each `key`.

        A call that a crash interrupted comes again with its key, and perhaps its change is there. Its note says so;
        where the file was changed by somebody else since, nobody can tell, and the model is told.
        """
        with self._alone(), self.inside(path, make=True) as (folder, name):
            before = self._current(folder, name, path)
            note = self._note(key)
            if note and digest(before) == note.after:
                return
            if note and digest(before) != note.before:
                raise ToolFailed(
                    f"this call was interrupted, and {shown(path)} was changed since: read it to see what is to be done"
                )
            after = change(before)
            self._check_room(path, before, after)
            self._write(self._note_at(key), msgspec.json.encode(Note(path, digest(before), digest(after))))
            _keep(self._base / NOTES)
            with told(path):
                self._put(folder, name, after)

    def _current(self, folder: int, name: str, path: str) -> bytes | None:
        match kind_at(folder, name):
            case "":
                return None
            case "file":
                return self.read(path, self._limits.max_total)
            case kind:
                raise ToolFailed(wrong_kind(path, kind))

    def _check_room(self, path: str, before: bytes | None, after: bytes) -> None:
        if len(after) > self._limits.max_file:
            most = size_of(self._limits.max_file)
            raise ToolFailed(f"{shown(path)} would have {size_of(len(after))}: a file may have {most}")
        entries = list(self.walk(""))
        total = sum(entry.size for entry in entries if entry.kind == "file") - len(before or b"") + len(after)
        if total > self._limits.max_total:
            raise ToolFailed(f"the workspace is full: it holds {size_of(self._limits.max_total)} at the most")
        if len(entries) > self._limits.max_entries:
            raise ToolFailed(f"the workspace is full: it holds {self._limits.max_entries:,} files and folders")

    # Writing

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One change at a time, whichever process makes it: other runs of the tree work in the same folder."""
        import fcntl  # not every system has it, and there is no workspace where it is not

        with open(self._base / LOCK, "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in (self._base / PARTS).iterdir():
                left.unlink()  # of a process that died
            yield

    def _put(self, folder: int, name: str, data: bytes) -> None:
        part = self._base / PARTS / uuid4().hex
        self._write(part, data)
        with suppress(FileNotFoundError):
            part.chmod(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777)
        os.rename(part, name, dst_dir_fd=folder)
        os.fsync(folder)

    def _write(self, path: Path, data: bytes) -> None:
        with told("the workspace"), open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _note(self, key: str) -> Note | None:
        try:
            return msgspec.json.decode(self._note_at(key).read_bytes(), type=Note)
        except (FileNotFoundError, msgspec.DecodeError):  # it died while it wrote the note: nothing was changed
            return None

    def _note_at(self, key: str) -> Path:
        return self._base / NOTES / hashlib.sha256(key.encode()).hexdigest()[:32]


def _keep(folder: Path) -> None:
    """See that what was put into a folder is still in it after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(source: str, target: str) -> None:
    """A file; what is none, like a pipe, is left behind."""
    if stat.S_ISREG(os.lstat(source).st_mode):
        shutil.copy2(source, target)


def digest(data: bytes | None) -> str:
    """Of a file, or nothing for none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()
