"""`write` and `edit`: changing the files of a workspace.

Both are idempotent: a call that is made again with its key changes nothing twice, see `Workspace.change`. The folder
belongs to the run, so nobody else is affected and nobody has to be asked, unless a rule says so.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec

from retinue.core.outcome import Effect
from retinue.errors import ToolFailed
from retinue.files.texts import size_of
from retinue.ports.tools import ToolContext
from retinue.tools.builtin.folder import shown
from retinue.tools.builtin.reading import FilePath
from retinue.tools.builtin.tool import Arguments, BuiltIn, built_in
from retinue.tools.builtin.workspace import Workspace


class Write(Arguments, frozen=True):
    path: FilePath
    content: Annotated[str, msgspec.Meta(description="The whole text of the file.")]


class Edit(Arguments, frozen=True):
    path: FilePath
    old: Annotated[str, msgspec.Meta(min_length=1, description="Text that stands in the file exactly once.")]
    new: Annotated[str, msgspec.Meta(description="What is to stand there instead.")]


def writing_tools(workspace: Workspace) -> tuple[BuiltIn[Write], BuiltIn[Edit]]:
    async def write(said: Write, context: ToolContext) -> object:
        data = encoded(said.content)
        await workspace.do(partial(workspace.change, said.path, lambda _: data, context.idempotency_key))
        return f"{shown(said.path)} has {size_of(len(data))} now."

    async def edit(said: Edit, context: ToolContext) -> object:
        await workspace.do(partial(workspace.change, said.path, partial(edited, said), context.idempotency_key))
        return f"{shown(said.path)} is changed."

    return (
        built_in(
            "write",
            "Write a file of the workspace, whole: what was there is replaced. Folders on its way are made.",
            Write,
            write,
            effect=Effect.IDEMPOTENT,
        ),
        built_in(
            "edit",
            "Replace a piece of text in a file of the workspace. It must stand there exactly once, with its spaces "
            "and line breaks: take enough of what is around it.",
            Edit,
            edit,
            effect=Effect.IDEMPOTENT,
        ),
    )


def edited(said: Edit, data: bytes | None) -> bytes:
    """The file with the one piece replaced."""
    path = shown(said.path)
    if data is None:
        raise ToolFailed(f"there is no file {path}: look with `list`, or make it with `write`")
    if said.old == said.new:
        raise ToolFailed("`old` and `new` are the same: nothing would change")
    old, new = encoded(said.old), encoded(said.new)
    if b"\r\n" in data and b"\r\n" not in old:  # what was read had plain line breaks
        old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    count = _count(data, old)
    if count == 1:
        return data.replace(old, new)
    if not count:
        raise ToolFailed(f"`old` is not in {path}{_hint(data, said.old)}. Read the file, and copy it exactly")
    raise ToolFailed(f"`old` stands {count} times in {path}: take more of what is around the one that you mean")


def _count(data: bytes, old: bytes) -> int:
    """How often it stands there, also where it overlaps itself."""
    count, at = 0, data.find(old)
    while at >= 0 and count < 1000:
        count, at = count + 1, data.find(old, at + 1)
    return count


def _hint(data: bytes, old: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ", which is not UTF-8: it can only be written anew"
    if " ".join(old.split()) in " ".join(text.split()):
        return " like that: spaces or line breaks differ"
    return " like that: it differs in upper and lower case" if old.lower() in text.lower() else ""


def encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolFailed("the text holds half a character (a lone surrogate): leave it out") from None
