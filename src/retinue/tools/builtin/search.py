"""`search`: finding text in the files of a workspace."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

import msgspec

from retinue.errors import ToolFailed
from retinue.files.apart import command, environment
from retinue.files.patterns import Rule
from retinue.ports.tools import ToolContext
from retinue.tools.builtin import matches
from retinue.tools.builtin.matches import Found, Wanted
from retinue.tools.builtin.tool import Arguments, BuiltIn, built_in
from retinue.tools.builtin.workspace import Workspace

SECONDS = 10.0


class Search(Arguments, frozen=True):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=1000, description="What to look for, in a line.")]
    regex: Annotated[bool, msgspec.Meta(description="It is a regular expression (Python's).")] = False
    ignore_case: bool = False
    path: Annotated[str, msgspec.Meta(description="The folder or file to look in; else everywhere.")] = ""
    glob: Annotated[str, msgspec.Meta(description="Only files like this: *.py, docs/**/*.md.")] = ""


def search_tool(workspace: Workspace, seconds: float = SECONDS) -> BuiltIn[Search]:
    async def search(said: Search, context: ToolContext) -> object:
        if said.glob and not Rule.parse(said.glob):
            raise ToolFailed(f"{said.glob!r} is no pattern for files: write it like *.py or docs/**/*.md")
        await workspace.do(lambda: None)  # it is there, and what was written before is in it
        wanted = Wanted(
            folder=str(workspace.path),
            text=said.text,
            path=said.path,
            glob=said.glob,
            regex=said.regex,
            ignore_case=said.ignore_case,
            seconds=seconds,
        )
        found = await (_in_a_process(wanted) if said.regex else asyncio.to_thread(partial(matches.search, wanted)))
        if found.problem:
            raise ToolFailed(found.problem)
        return _told(found, seconds)

    return built_in(
        "search",
        "Find lines in the files of the workspace. Gives path, line number and line.",
        Search,
        search,
        timeout=seconds + 5,
    )


async def _in_a_process(wanted: Wanted) -> Found:
    process = await asyncio.create_subprocess_exec(
        *command(matches.__name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
    )
    try:
        async with asyncio.timeout(wanted.seconds + 1):  # the start of an interpreter comes on top
            out, _ = await process.communicate(msgspec.json.encode(wanted))
    except TimeoutError:
        raise ToolFailed(
            f"the search took longer than {wanted.seconds:g} s and was ended: make the pattern simpler "
            "(nested repetitions take for ever), or look in fewer files with `path` or `glob`"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ToolFailed("the search took too much time or memory and was ended: make the pattern simpler")
    return msgspec.json.decode(out, type=Found)


def _told(found: Found, seconds: float) -> str:
    lines = list(found.lines) or ["[Nothing found.]"]
    if found.late:
        lines.append(f"[Ended after {seconds:g} s: look in fewer files with `path` or `glob`.]")
    elif found.more:
        lines.append("[There is more: look for something rarer, or in fewer files with `path` or `glob`.]")
    if found.passed_over:
        lines.append(f"[Passed over, binary or too large: {found.passed_over}.]")
    return "\n".join(lines)
