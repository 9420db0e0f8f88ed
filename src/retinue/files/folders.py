"""A folder as one text. Links in it are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from retinue.errors import BadFile
from retinue.files.bundle import Bundle
from retinue.files.config import FilesConfig
from retinue.files.patterns import Ignores, Patterns
from retinue.files.reading import read_path

MOST_ENTRIES = 50_000
LONGEST_GITIGNORE = 256 * 1024


def read_folder(folder: Path, patterns: Patterns, config: FilesConfig) -> Bundle:
    """The text files in a folder and below; .gitignore is respected."""
    root = folder.resolve()
    bundle = Bundle(root.name or "folder", config)
    walk = _Walk(root, patterns, bundle)
    for path, entry in walk.files(root, _ignores_above(root)):
        try:
            bundle.add(path, entry.stat(follow_symlinks=False).st_size, partial(read_path, Path(entry.path)))
        except (BadFile, OSError):
            bundle.leave_out(path, "unreadable")
    return bundle


class _Walk:
    def __init__(self, root: Path, patterns: Patterns, bundle: Bundle) -> None:
        self._root, self._patterns, self._bundle = root, patterns, bundle
        self._left = MOST_ENTRIES

    def files(self, root: Path, ignores: Ignores) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """The regular files that are taken, in order."""
        waiting = [(root, ignores)]
        while waiting:
            folder, ignores = waiting.pop()
            ignores = _with_own(folder, ignores)
            below = []
            for entry in self._entries(folder):
                path = Path(entry.path).relative_to(self._root).as_posix()
                is_folder = entry.is_dir(follow_symlinks=False)
                slash = "/" if is_folder else ""
                if ignores.ignores(Path(entry.path).as_posix() + slash):
                    continue
                if self._patterns.excludes(path + slash):
                    self._bundle.pass_over(path + slash, "excluded")
                elif is_folder:
                    below.append((Path(entry.path), ignores))
                elif self._patterns.includes(path):
                    yield from self._file(path, entry)
            waiting += reversed(below)

    def _file(self, path: str, entry: os.DirEntry[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
        if entry.is_symlink():
            self._bundle.leave_out(path, "a link")
        elif entry.is_file(follow_symlinks=False):
            yield path, entry
        else:
            self._bundle.leave_out(path, "no regular file")

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        path = folder.relative_to(self._root).as_posix()
        if self._left <= 0:
            self._bundle.pass_over(path, f"beyond the first {MOST_ENTRIES} entries")
            return []
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            self._bundle.leave_out(path, "unreadable")
            return []
        self._left -= len(entries)
        return entries


def _ignores_above(root: Path) -> Ignores:
    """Those of the repository that the folder is a part of."""
    top = next((above for above in (root, *root.parents) if (above / ".git").exists()), root)
    ignores = Ignores().within(top.as_posix(), _text(top / ".git" / "info" / "exclude"))
    for above in reversed(root.parents):
        if above.is_relative_to(top):
            ignores = _with_own(above, ignores)
    return ignores


def _with_own(folder: Path, ignores: Ignores) -> Ignores:
    text = _text(folder / ".gitignore")
    return ignores.within(folder.as_posix(), text) if text else ignores


def _text(path: Path) -> str:
    try:
        return read_path(path, LONGEST_GITIGNORE).decode(errors="replace")
    except BadFile:
        return ""
