"""`read` and `list`: looking at the files of a workspace."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec

from retinue.errors import ToolFailed
from retinue.files.kinds import kind_of
from retinue.files.texts import size_of
from retinue.ports.tools import Blob, Content, ToolContext
from retinue.tools.builtin.folder import SHUT, Entry, Folder, shown
from retinue.tools.builtin.tool import Arguments, BuiltIn, built_in
from retinue.tools.builtin.workspace import Workspace

MOST_LINES, MOST_CHARACTERS, LONGEST_LINE, MOST_ENTRIES = 2000, 50_000, 2000, 500
_SHOWN_AS_THEY_ARE = ("image/", "audio/", "application/pdf")
FilePath = Annotated[str, msgspec.Meta(description="The path inside the workspace, like notes/plan.md.")]


class Read(Arguments, frozen=True):
    path: FilePath
    offset: Annotated[int, msgspec.Meta(ge=1, description="The line to begin with.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description="How many lines.")] = MOST_LINES


class ListFolder(Arguments, frozen=True):
    path: Annotated[str, msgspec.Meta(description="The folder; leave it out for the whole workspace.")] = ""
    depth: Annotated[int, msgspec.Meta(ge=1, le=10, description="How many levels of folders.")] = 2


def reading_tools(workspace: Workspace) -> tuple[BuiltIn[Read], BuiltIn[ListFolder]]:
    async def read(said: Read, context: ToolContext) -> object:
        return await workspace.do(partial(read_file, workspace, said, workspace.max_file))

    async def list_(said: ListFolder, context: ToolContext) -> object:
        return await workspace.do(partial(list_folder, workspace, said))

    return (
        built_in("read", "Read a file of the workspace: text by lines, an image as it is.", Read, read),
        built_in("list", "List the files and folders of the workspace.", ListFolder, list_),
    )


def read_file(folder: Folder, said: Read, at_most: int) -> object:
    data = folder.read(said.path, at_most)
    text = text_of(data)
    if text is not None:
        return _lines(text, said)
    kind = kind_of(data, said.path)
    if kind.startswith(_SHOWN_AS_THEY_ARE):
        return Content((Blob(data=data, media_type=kind, name=shown(said.path.rpartition("/")[2])),))
    raise ToolFailed(f"{shown(said.path)} is no text: it is {kind}, {size_of(len(data))}")


def text_of(data: bytes) -> str | None:
    """What a file says, if it is a text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        from retinue.files import charsets  # charset-normalizer is slow to import
        from retinue.files.kinds import UNKNOWN, is_text

        kind = kind_of(data)
        return charsets.decoded(data) if kind != UNKNOWN and is_text(kind) else None
    return None if "\0" in text else text


def _lines(text: str, said: Read) -> str:
    lines = text.splitlines()
    if not lines:
        return "[The file is empty.]"
    if said.offset > len(lines):
        raise ToolFailed(f"{shown(said.path)} has only {len(lines):,} lines")
    taken: list[str] = []
    room = MOST_CHARACTERS
    for line in lines[said.offset - 1 : said.offset - 1 + min(said.limit, MOST_LINES)]:
        cut = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… [{len(line):,} characters in this line]"
        room -= len(cut) + 1
        if room < 0 and taken:
            break
        taken.append(cut)
    last = said.offset - 1 + len(taken)
    if said.offset == 1 and last == len(lines):
        return "\n".join(taken)
    more = f"; go on with offset {last + 1}" if last < len(lines) else ""
    return "\n".join([*taken, f"[Lines {said.offset:,} to {last:,} of {len(lines):,}{more}.]"])


def list_folder(folder: Folder, said: ListFolder) -> str:
    lines = tree(folder, said.path, said.depth, MOST_ENTRIES)
    return "\n".join(lines) or "[There is nothing in it.]"


def tree(folder: Folder, path: str, depth: int, most: int) -> list[str]:
    """A line for each file and folder, and one that says how many more there are."""
    lines: list[str] = []
    for n, entry in enumerate(folder.walk(path, depth, skips=SHUT)):
        if n == most:
            lines.append(f"[There is more: these are the first {most}. List a folder of it.]")
            break
        lines.append(_line(entry))
    return lines


def _line(entry: Entry) -> str:
    match entry.kind:
        case "folder":
            return f"{shown(entry.path)}/"
        case "file":
            return f"{shown(entry.path)}  {size_of(entry.size)}"
        case "link":
            return f"{shown(entry.path)}  [a link, not followed]"
        case _:
            return f"{shown(entry.path)}  [no regular file]"
