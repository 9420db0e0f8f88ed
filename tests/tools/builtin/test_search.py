"""Finding text in a workspace, and getting back from a search that would never end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retinue.tools.builtin.search import search_tool
from retinue.tools.builtin.workspace import Workspace, Workspaces

from .calling import Tools

ENDLESS = "(a+)+$"


@pytest.fixture
async def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspaces(tmp_path / "work").of("run_1")
    await workspace.do(lambda: None)
    for path, text in {
        "a.py": "import os\nprint(os.name)\n",
        "docs/guide.md": "# Guide\nSee os.name.\n",
        "docs/deep/more.md": "OS.NAME\n",
        ".git/config": "os.name\n",
        "blob": "os.name\0\1\2",
    }.items():
        (workspace.path / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace.path / path).write_text(text)
    return workspace


@pytest.fixture
def tools(workspace: Workspace) -> Tools:
    return Tools(search_tool(workspace))


OVER = "\n[Passed over, binary or too large: 1.]"


async def test_lines_with_a_text_are_found_with_their_places(tools: Tools) -> None:
    assert await tools.call("search", text="os.name") == (
        "a.py:2: print(os.name)\ndocs/guide.md:2: See os.name." + OVER
    )
    assert await tools.call("search", text="osXname") == "[Nothing found.]" + OVER


async def test_a_search_is_limited_by_folder_file_and_pattern(tools: Tools) -> None:
    found = "docs/deep/more.md:1: OS.NAME\ndocs/guide.md:2: See os.name."
    assert await tools.call("search", text="os.NAME", ignore_case=True, path="docs") == found
    assert await tools.call("search", text="os.NAME", ignore_case=True, glob="*.md") == found
    assert await tools.call("search", text="os", glob="docs/*.md") == "docs/guide.md:2: See os.name."
    assert await tools.call("search", text="import", path="a.py") == "a.py:1: import os"
    assert await tools.call("search", text="os", path=".git") == ".git/config:1: os.name"


async def test_a_regular_expression_is_looked_for(tools: Tools) -> None:
    assert await tools.call("search", text=r"os\.\w{4}\b", regex=True, path="docs") == "docs/guide.md:2: See os.name."
    assert "OS.NAME" in await tools.call("search", text=r"os.name$", regex=True, ignore_case=True, path="docs/deep")


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?P<x>a)(?P<x>b)", "a{99999999999999}"])
async def test_what_is_no_regular_expression_is_said(tools: Tools, pattern: str) -> None:
    assert "this is no regular expression" in await tools.refused("search", text=pattern, regex=True)


async def test_a_search_that_would_never_end_is_ended_and_holds_nothing_up(workspace: Workspace) -> None:
    (workspace.path / "trap").write_text("a" * 60 + "!")
    tools = Tools(search_tool(workspace, seconds=0.5))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    assert "make the pattern simpler" in await tools.refused("search", text=ENDLESS, regex=True)
    ticking.cancel()
    assert ticks > 5


async def test_a_search_that_nobody_waits_for_any_more_is_ended(workspace: Workspace) -> None:
    (workspace.path / "trap").write_text("a" * 60 + "!")
    tools = Tools(search_tool(workspace, seconds=60))
    searching = asyncio.create_task(tools.call("search", text=ENDLESS, regex=True))
    for _ in range(50):
        await asyncio.sleep(0)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching


async def test_what_is_found_is_bounded(tools: Tools, workspace: Workspace) -> None:
    (workspace.path / "many").write_text("needle\n" * 500)
    many = (await tools.call("search", text="needle")).splitlines()
    assert (len(many), "There is more" in many[100]) == (102, True)
    (workspace.path / "many").write_text("x" * 5000 + "needle" + "y" * 5000)
    (wide,) = (await tools.call("search", text="needle", path="many")).splitlines()
    assert "needle" in wide
    assert len(wide) < 350
    (workspace.path / "many").write_text("needle" + "y" * 3_000_000)
    assert await tools.call("search", text="needle", path="many") == "[Nothing found.]" + OVER


@pytest.mark.parametrize("regex", [True, False])
async def test_a_search_stays_inside(tools: Tools, workspace: Workspace, tmp_path: Path, regex: bool) -> None:
    (tmp_path / "secret").write_text("the secret")
    (workspace.path / "docs" / "link").symlink_to(tmp_path / "secret")
    (workspace.path / "way").symlink_to(tmp_path)
    assert await tools.call("search", text="secret", path="docs", regex=regex) == "[Nothing found.]"
    assert "is a link" in await tools.refused("search", text="secret", path="way", regex=regex)
    assert "leads out" in await tools.refused("search", text="secret", path="..", regex=regex)
    assert "there is no folder" in await tools.refused("search", text="secret", path="nowhere", regex=regex)


async def test_a_wrong_pattern_for_files_is_said(tools: Tools) -> None:
    assert "no pattern for files" in await tools.refused("search", text="x", glob="a//b")
    assert "cannot be called" in await tools.refused("search", text="")
