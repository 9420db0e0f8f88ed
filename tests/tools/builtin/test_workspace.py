"""The files of a run: what can be done with them, and that nothing leads out."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from retinue.core.outcome import Effect
from retinue.errors import BadInput, ToolFailed
from retinue.ports.tools import Blob, Content
from retinue.tools.builtin.reading import MOST_CHARACTERS, reading_tools
from retinue.tools.builtin.workspace import Workspace, WorkspaceLimits, Workspaces
from retinue.tools.builtin.writing import writing_tools

from .calling import Tools

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspaces(tmp_path / "work").of("run_1")


@pytest.fixture
def tools(workspace: Workspace) -> Tools:
    return Tools(*reading_tools(workspace), *writing_tools(workspace))


async def files(workspace: Workspace) -> Path:
    """Where its files are."""
    await workspace.do(lambda: None)
    return workspace.path


# Reading and writing


async def test_what_is_written_is_read_and_listed(tools: Tools) -> None:
    assert await tools.call("write", path="notes/plan.md", content="one\ntwo\n") == "notes/plan.md has 8 bytes now."
    assert await tools.call("read", path="notes/plan.md") == "one\ntwo"
    assert await tools.call("list") == "notes/\nnotes/plan.md  8 bytes"
    await tools.call("write", path="./notes//plan.md", content="")
    assert await tools.call("read", path="notes/plan.md") == "[The file is empty.]"


async def test_nothing_is_made_before_it_is_used(tmp_path: Path, tools: Tools) -> None:
    assert list(tmp_path.iterdir()) == []
    assert await tools.call("list") == "[There is nothing in it.]"


async def test_a_long_file_is_read_in_parts(tools: Tools) -> None:
    await tools.call("write", path="long", content="\n".join(f"line {n}" for n in range(1, 5001)))
    assert (await tools.call("read", path="long")).endswith(
        "line 2000\n[Lines 1 to 2,000 of 5,000; go on with offset 2001.]"
    )
    part = await tools.call("read", path="long", offset=4999, limit=9)
    assert part == "line 4999\nline 5000\n[Lines 4,999 to 5,000 of 5,000.]"
    assert "only 5,000 lines" in await tools.refused("read", path="long", offset=5001)
    await tools.call("write", path="wide", content="x" * 100_000)
    assert "[100,000 characters in this line]" in await tools.call("read", path="wide")
    await tools.call("write", path="both", content=("x" * 1999 + "\n") * 100)
    assert len(await tools.call("read", path="both")) < MOST_CHARACTERS + 100


async def test_text_in_another_charset_is_read_and_an_image_shown(tools: Tools, workspace: Workspace) -> None:
    folder = await files(workspace)
    (folder / "old.txt").write_bytes("Übergrößenträger, schön".encode("cp1252"))
    assert await tools.call("read", path="old.txt") == "Übergrößenträger, schön"
    (folder / "dot.png").write_bytes(PNG)
    shown = await tools.call("read", path="dot.png")
    assert shown == Content((Blob(data=PNG, media_type="image/png", name="dot.png"),))
    (folder / "x.zip").write_bytes(b"PK\3\4" + bytes(range(256)))
    assert await tools.refused("read", path="x.zip") == "x.zip is no text: it is application/zip, 260 bytes"


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [("two", "2", "one\n2\nthree\n"), ("one\ntwo", "1", "1\nthree\n"), ("three\n", "", "one\ntwo\n")],
)
async def test_a_piece_of_a_file_is_replaced(
    tools: Tools, workspace: Workspace, old: str, new: str, after: str
) -> None:
    await tools.call("write", path="a", content="one\ntwo\nthree\n")
    await tools.call("edit", path="a", old=old, new=new)
    assert (workspace.path / "a").read_text() == after


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("four", "4", "is not in a. Read the file"),
        ("ONE", "1", "upper and lower case"),
        ("one two", "12", "spaces or line breaks differ"),
        ("o", "0", "stands 2 times"),
        ("two", "two", "nothing would change"),
        ("", "x", "cannot be called like this"),
    ],
)
async def test_an_edit_that_is_not_exact_says_why(tools: Tools, old: str, new: str, why: str) -> None:
    await tools.call("write", path="a", content="one\ntwo\nthree\n")
    assert why in await tools.refused("edit", path="a", old=old, new=new)
    assert await tools.call("read", path="a") == "one\ntwo\nthree"


async def test_what_overlaps_itself_stands_there_more_than_once(tools: Tools) -> None:
    await tools.call("write", path="a", content="aaa")
    assert "2 times" in await tools.refused("edit", path="a", old="aa", new="b")


async def test_an_edit_keeps_the_line_breaks_of_windows_and_the_permissions(tools: Tools, workspace: Workspace) -> None:
    path = await files(workspace) / "a.sh"
    path.write_bytes(b"one\r\ntwo\r\n")
    path.chmod(0o750)
    await tools.call("edit", path="a.sh", old="one\ntwo", new="1\n2")
    assert path.read_bytes() == b"1\r\n2\r\n"
    assert path.stat().st_mode & 0o777 == 0o750


async def test_a_file_in_another_charset_is_not_edited_in_part(tools: Tools, workspace: Workspace) -> None:
    (await files(workspace) / "old").write_bytes("größe".encode("cp1252"))
    assert "not UTF-8" in await tools.refused("edit", path="old", old="größe", new="x")


async def test_wrong_arguments_are_told_to_the_model(tools: Tools) -> None:
    assert "`content`" in await tools.refused("write", path="a")
    assert "unknown field `mode`" in await tools.refused("write", path="a", content="", mode="x")
    assert "offset" in await tools.refused("read", path="a", offset=0)
    assert "lone surrogate" in await tools.refused("write", path="a", content="\ud800")


def test_looking_is_read_and_changing_idempotent(tools: Tools) -> None:
    effects = {name: tool.effect for name, tool in tools.by_name.items()}
    assert effects == {
        "read": Effect.READ,
        "list": Effect.READ,
        "write": Effect.IDEMPOTENT,
        "edit": Effect.IDEMPOTENT,
    }
    schema: Any = tools.by_name["edit"].spec.schema
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == (
        "object",
        ["path", "old", "new"],
        False,
    )


# No way out


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../out", "a/../../out", "~/x", "..", "a/..", "a\0b", "a\nb", "x" * 256, "a/" * 41, "\ud800"],
)
@pytest.mark.parametrize("name", ["read", "write", "edit", "list"])
async def test_a_path_that_leads_out_or_is_none_is_refused(tools: Tools, name: str, path: str) -> None:
    more = {"write": {"content": "x"}, "edit": {"old": "a", "new": "b"}}.get(name, {})
    said = await tools.refused(name, path=path, **more)
    assert "leads out" in said or "no path that can be used" in said
    said.encode()


async def test_links_are_not_followed_wherever_they_stand(tools: Tools, workspace: Workspace, tmp_path: Path) -> None:
    folder, outside = await files(workspace), tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("the secret")
    (folder / "way").symlink_to(outside)
    (folder / "file").symlink_to(outside / "secret")
    (folder / "self").symlink_to(folder / "self")
    for path in ("way/secret", "file", "self", "way"):
        assert "is a link, and links are not followed" in await tools.refused("read", path=path)
        assert "is a link" in await tools.refused("write", path=path, content="x")
        assert "is a link" in await tools.refused("edit", path=path, old="the", new="a")
    assert "is a link" in await tools.refused("list", path="way")
    assert await tools.call("list") == "\n".join(f"{name}  [a link, not followed]" for name in ("file", "self", "way"))
    assert (outside / "secret").read_text() == "the secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]


async def test_a_folder_that_becomes_a_link_at_any_moment_leads_nowhere(
    tools: Tools, workspace: Workspace, tmp_path: Path
) -> None:
    folder, outside = await files(workspace), tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("the secret")
    (folder / "real").mkdir()
    (folder / "real" / "f").write_text("harmless")
    (folder / "link").symlink_to(outside)

    def swap() -> None:
        for _ in range(300):
            os.rename(folder / "real", folder / "way")
            os.rename(folder / "way", folder / "real")
            os.rename(folder / "link", folder / "way")
            os.rename(folder / "way", folder / "link")

    swapping = asyncio.create_task(asyncio.to_thread(swap))
    while not swapping.done():
        try:
            assert await tools.call("read", path="way/f") in ("harmless", "mine")
            await tools.call("write", path="way/f", content="mine")
        except ToolFailed:
            pass
    assert (outside / "f").read_text() == "the secret"


async def test_what_is_no_file_is_not_opened(tools: Tools, workspace: Workspace) -> None:
    folder = await files(workspace)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(folder)  # the path of a socket may not be long
        listening.bind("socket")
        os.chdir(here)
    for path in ("pipe", "socket"):
        assert await tools.refused("read", path=path) == f"{path} is no regular file"
        assert await tools.refused("write", path=path, content="x") == f"{path} is no regular file"
    assert "is a folder: look into it with `list`" in await tools.refused("read", path=await made(tools, "d"))
    assert "is a file, not a folder" in await tools.refused("list", path="d/f")
    assert "is a file, not a folder" in await tools.refused("write", path="d/f/g", content="")
    assert "say which file" in await tools.refused("read", path=".")
    assert "there is no file nothing" in await tools.refused("read", path="nothing")
    assert "there is no folder x" in await tools.refused("read", path="x/y")


async def made(tools: Tools, folder: str) -> str:
    await tools.call("write", path=f"{folder}/f", content="x")
    return folder


async def test_names_that_are_no_text_are_shown_harmlessly(tools: Tools, workspace: Workspace) -> None:
    folder = os.fsencode(await files(workspace))
    for name in (b"bad\xff", b"a\nb\x1b[2J"):
        os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY))
    assert (await tools.call("list")).encode() == b"a?b?[2J  0 bytes\nbad?  0 bytes"


# Limits


async def test_a_workspace_holds_only_so_much(tmp_path: Path) -> None:
    limits = WorkspaceLimits(max_file=100, max_total=250, max_entries=5)
    workspace = Workspaces(tmp_path, limits).of("run_1")
    tools = Tools(*reading_tools(workspace), *writing_tools(workspace))
    assert "a file may have 100 bytes" in await tools.refused("write", path="a", content="x" * 101)
    for name in "ab":
        await tools.call("write", path=name, content="x" * 100)
    assert "the workspace is full: it holds 250 bytes" in await tools.refused("write", path="c", content="x" * 51)
    await tools.call("write", path="a", content="x" * 50)
    await tools.call("write", path="c/d/e", content="x" * 100)
    assert "files and folders" in await tools.refused("write", path="f/g", content="")
    assert "a file may have" in await tools.refused("edit", path="a", old="x" * 50, new="y" * 101)
    (workspace.path / "huge").write_bytes(bytes(101))
    assert "101 bytes, which is too much" in await tools.refused("read", path="huge")


async def test_a_long_list_says_that_there_is_more(tools: Tools, workspace: Workspace) -> None:
    folder = await files(workspace)
    for n in range(600):
        (folder / f"{n:03}").touch()
    listed = (await tools.call("list")).splitlines()
    assert (len(listed), "There is more" in listed[-1]) == (501, True)


async def test_a_list_goes_as_deep_as_is_asked_and_leaves_out_what_nobody_means(tools: Tools) -> None:
    await tools.call("write", path="a/b/c/d", content="")
    await tools.call("write", path=".git/config", content="")
    assert await tools.call("list") == ".git/\na/\na/b/"
    assert await tools.call("list", path="a/b", depth=9) == "a/b/c/\na/b/c/d  0 bytes"
    assert await tools.call("list", path=".git") == ".git/config  0 bytes"


# Order, crashes, neighbours


async def test_calls_that_are_made_at_once_take_effect_in_their_order(tools: Tools) -> None:
    calls = [tools.call("write", path="a", content=str(n)) for n in range(20)]
    *_, last = await asyncio.gather(*calls, tools.call("read", path="a"))
    assert last == "19"


async def test_an_edit_that_comes_again_with_its_key_changes_nothing_twice(tools: Tools) -> None:
    await tools.call("write", path="a", content="x")
    for _ in range(2):
        assert await tools.call("edit", "key-1", path="a", old="x", new="xy") == "a is changed."
    assert await tools.call("read", path="a") == "xy"
    await tools.call("edit", "key-2", path="a", old="x", new="xy")
    assert await tools.call("read", path="a") == "xyy"


async def test_a_change_that_a_crash_stopped_before_it_took_effect_is_made(tools: Tools, workspace: Workspace) -> None:
    await tools.call("write", path="a", content="x")
    await tools.call("edit", "key-e", path="a", old="x", new="xy")
    (workspace.path / "a").write_text("x")  # as it was when the note was on disk, and the file not yet
    await tools.call("edit", "key-e", path="a", old="x", new="xy")
    assert await tools.call("read", path="a") == "xy"


async def test_a_file_that_somebody_else_changed_since_is_left_to_the_model(tools: Tools) -> None:
    await tools.call("write", "key-w", path="a", content="mine")
    await tools.call("write", path="a", content="theirs")
    assert "was changed since: read it" in await tools.refused("write", "key-w", path="a", content="mine")
    assert await tools.call("read", path="a") == "theirs"


async def test_what_a_dead_process_left_half_written_is_cleared_and_never_seen(
    tools: Tools, workspace: Workspace
) -> None:
    left = (await files(workspace)).parent / "parts" / "left"
    left.write_text("half")
    (left.parent.parent / "notes" / "half").write_text("{")
    assert await tools.call("list") == "[There is nothing in it.]"
    await tools.call("write", path="a", content="x")
    assert not left.exists()


async def test_runs_of_a_tree_change_one_file_one_after_the_other(tmp_path: Path) -> None:
    work = Workspaces(tmp_path)
    neighbours = [Tools(*reading_tools(w), *writing_tools(w)) for w in (work.of("run_1") for _ in range(4))]
    await neighbours[0].call("write", path="a", content="[]")
    edits = [tools.call("edit", f"{n}", path="a", old="]", new=f"{n}]") for n, tools in enumerate(neighbours)]
    await asyncio.gather(*edits)
    assert sorted(await neighbours[0].call("read", path="a")) == sorted("[0123]")


async def test_a_workspace_is_its_trees_alone_and_is_forgotten_with_it(tmp_path: Path) -> None:
    work = Workspaces(tmp_path)
    one, other = (Tools(*reading_tools(w), *writing_tools(w)) for w in (work.of("run_1"), work.of("run_2")))
    await one.call("write", path="a", content="x")
    assert await other.call("list") == "[There is nothing in it.]"
    await work.forget("run_1")
    assert await one.call("list") == "[There is nothing in it.]"
    await work.forget("run_9")


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "/etc", "run 1"])
def test_what_is_no_runs_id_has_no_workspace(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(BadInput):
        Workspaces(tmp_path).of(run_id)


async def test_a_retry_begins_with_a_copy_of_what_was_there(tmp_path: Path) -> None:
    work = Workspaces(tmp_path)
    first = work.of("run_1")
    before = Tools(*writing_tools(first))
    await before.call("write", path="d/a", content="x")
    (first.path / "link").symlink_to("/etc")
    os.mkfifo(first.path / "pipe")
    again = work.of("run_2", source="run_1")
    after = Tools(*reading_tools(again), *writing_tools(again))
    assert await after.call("read", path="d/a") == "x"
    await after.call("write", path="d/a", content="y")
    assert (first.path / "d/a").read_text() == "x"
    assert "link  [a link, not followed]" in await after.call("list")
    assert await Tools(*reading_tools(work.of("run_3", source="run_0"))).call("list") == "[There is nothing in it.]"


async def test_a_folder_that_cannot_be_made_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file where the folder should be")
    tools = Tools(*reading_tools(Workspaces(tmp_path / "work").of("run_1")))
    assert await tools.refused("list") == "the workspace cannot be used: Not a directory"
