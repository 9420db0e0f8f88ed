"""Many files as one text: a tree of what is there, then each file between its own lines."""

from __future__ import annotations

from collections.abc import Callable

from retinue.files.charsets import decoded
from retinue.files.config import MB, FilesConfig
from retinue.files.kinds import is_text, kind_of
from retinue.files.texts import fenced, shown_name, size_of

LONGEST_TREE = 2000
NAMED = 8


class Bundle:
    """Takes files one by one, as long as there is room; says of the others why they are left out."""

    def __init__(self, name: str, config: FilesConfig) -> None:
        self.name = shown_name(name)
        self._largest = int(config.folder_file_kb * 1024)
        self._room = int(config.folder_mb * MB)
        self._texts: dict[str, str] = {}
        self._left_out: dict[str, list[str]] = {}
        self._marks: dict[str, str] = {}

    def add(self, path: str, size: int, read: Callable[[int], bytes]) -> None:
        """A file; `read` gives its beginning, up to so many bytes, and raises nothing but what means unreadable."""
        if size > self._largest:
            self.leave_out(path, f"larger than {size_of(self._largest)}")
        elif size > self._room:
            self.leave_out(path, "over the limit of the whole")
        else:
            self._add(path, read(self._largest + 1))

    def _add(self, path: str, data: bytes) -> None:
        text = decoded(data) if is_text(kind_of(data, path)) else None
        if len(data) > self._largest:
            self.leave_out(path, f"larger than {size_of(self._largest)}")
        elif text is None:
            self.leave_out(path, "not text")
        elif len(text.encode()) > self._room:
            self.leave_out(path, "over the limit of the whole")
        else:
            self._room -= len(text.encode())
            self._texts[path] = text
            self._marks[path] = ""

    def leave_out(self, path: str, why: str) -> None:
        """Shown in the tree, without what is in it."""
        self._left_out.setdefault(why, []).append(path)
        self._marks[path] = f"  ({why})"

    def pass_over(self, path: str, why: str) -> None:
        """Not even in the tree."""
        self._left_out.setdefault(why, []).append(path)

    def __bool__(self) -> bool:
        return bool(self._texts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left out, by its reason."""
        return tuple(f"{self.name}: left out as {why}: {_some(paths)}" for why, paths in self._left_out.items())

    @property
    def text(self) -> str:
        files = (fenced(path, "", text) for path, text in sorted(self._texts.items(), key=_by_path))
        return "\n\n".join([f"{self.name}/\n" + "\n".join(self._tree()), *files])

    def _tree(self) -> list[str]:
        """Each folder once, what is in it below it."""
        lines: list[str] = []
        above: list[str] = []
        for path, mark in sorted(self._marks.items(), key=_by_path):
            *folders, name = path.split("/")
            shared = next((n for n, (a, b) in enumerate(zip(folders, above, strict=False)) if a != b), None)
            shared = min(len(folders), len(above)) if shared is None else shared
            lines += [f"{'  ' * (n + 1)}{shown_name(folders[n])}/" for n in range(shared, len(folders))]
            lines.append(f"{'  ' * (len(folders) + 1)}{shown_name(name)}{mark}")
            above = folders
        more = len(lines) - LONGEST_TREE
        return [*lines[:LONGEST_TREE], f"  … and {more} more"] if more > 0 else lines


def _by_path(item: tuple[str, str]) -> list[str]:
    return item[0].split("/")


def _some(paths: list[str]) -> str:
    named = ", ".join(shown_name(path) for path in paths[:NAMED])
    return f"{named} and {len(paths) - NAMED} more" if len(paths) > NAMED else named
