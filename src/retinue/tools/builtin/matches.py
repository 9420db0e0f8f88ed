"""`python -m retinue.tools.builtin.matches`: a search on standard input, what it found on standard output.

Plain text is looked for where the tool is. A regular expression has a process of its own: one that backtracks for an
hour holds the interpreter, and only a process can be ended.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from retinue.errors import RetinueError
from retinue.files.convert import limit
from retinue.files.patterns import Rules
from retinue.tools.builtin.folder import SHUT, Entry, Folder, shown

MOST_MATCHES, LONGEST_LINE, LARGEST_FILE, MOST_FILES = 100, 300, 2 * 1024 * 1024, 20_000
Span = tuple[int, int] | None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, and where."""

    folder: str
    text: str
    path: str = ""
    glob: str = ""
    regex: bool = False
    ignore_case: bool = False
    seconds: float = 10.0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Lines as `path:number: text`. `problem` is why nothing could be looked for."""

    lines: tuple[str, ...] = ()
    files: int = 0
    passed_over: int = 0
    more: bool = False
    late: bool = False
    problem: str = ""


def search(wanted: Wanted) -> Found:
    try:
        place = _finder(wanted)
    except (re.error, OverflowError, RecursionError) as error:
        return Found(problem=f"this is no regular expression: {error}. To look for plain text, leave `regex` out")
    try:
        return _search(Folder(Path(wanted.folder)), wanted, place)
    except RetinueError as error:
        return Found(problem=str(error))


def _finder(wanted: Wanted) -> Callable[[str], Span]:
    """Where in a line it is."""
    if wanted.regex:
        pattern = re.compile(wanted.text, re.IGNORECASE if wanted.ignore_case else 0)
        return lambda line: found.span() if (found := pattern.search(line)) else None
    text = wanted.text.lower() if wanted.ignore_case else wanted.text

    def place(line: str) -> Span:
        at = (line.lower() if wanted.ignore_case else line).find(text)
        return (at, at + len(text)) if at >= 0 else None

    return place


def _search(folder: Folder, wanted: Wanted, place: Callable[[str], Span]) -> Found:
    end = time.monotonic() + wanted.seconds
    lines: list[str] = []
    files = passed_over = 0
    for entry in _files(folder, wanted):
        late = time.monotonic() > end
        if late or files == MOST_FILES:
            return Found(lines=tuple(lines), files=files, passed_over=passed_over, more=True, late=late)
        text = _text(folder, entry)
        if text is None:
            passed_over += 1
            continue
        files += 1
        for number, line in enumerate(text.splitlines(), 1):
            if span := place(line):
                if len(lines) == MOST_MATCHES:
                    return Found(lines=tuple(lines), files=files, passed_over=passed_over, more=True)
                lines.append(f"{shown(entry.path)}:{number}: {_around(line, span)}")
    return Found(lines=tuple(lines), files=files, passed_over=passed_over)


def _files(folder: Folder, wanted: Wanted) -> Iterator[Entry]:
    rules = Rules([wanted.glob]) if wanted.glob else None
    if wanted.path and (one := _one(folder, wanted.path)):
        yield one
        return
    for entry in folder.walk(wanted.path, skips=SHUT):
        if entry.kind == "file" and (rules is None or rules.decide(entry.path)):
            yield entry


def _one(folder: Folder, path: str) -> Entry | None:
    """The file that was named, if it is one."""
    parent, _, name = path.strip("/").rpartition("/")
    return next((entry for entry in folder.entries(parent) if entry.name == name and entry.kind == "file"), None)


def _text(folder: Folder, entry: Entry) -> str | None:
    if entry.size > LARGEST_FILE:
        return None
    try:
        data = folder.read(entry.path, LARGEST_FILE)
    except RetinueError:  # it went away, or cannot be read
        return None
    return None if b"\0" in data[:8192] else data.decode(errors="replace")


def _around(line: str, span: tuple[int, int]) -> str:
    """The line, or the part of a long one where it is."""
    if len(line) <= LONGEST_LINE:
        return line.strip()
    start = max(0, min(span[0] - LONGEST_LINE // 3, len(line) - LONGEST_LINE))
    end = start + LONGEST_LINE
    return f"{'…' if start else ''}{line[start:end].strip()}{'…' if end < len(line) else ''}"


if __name__ == "__main__":
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=Wanted)
    limit(wanted.seconds)
    sys.stdout.buffer.write(msgspec.json.encode(search(wanted)))
