"""Reading what `context` in a definition names, to be told to the agent below its instructions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from retinue.core import briefing
from retinue.core.briefing import Skill
from retinue.errors import BadFile
from retinue.files.reading import read_path
from retinue.tools.builtin.reading import text_of, tree
from retinue.tools.builtin.workspace import WORKSPACE_TOOLS, Workspace

MOST_ENTRIES, DEPTH, LARGEST = 200, 4, 2 * 1024 * 1024


async def brief(
    context: Sequence[str],
    *,
    project: Path,
    skills: Mapping[str, Skill],
    workspace: Workspace | None = None,
    tools: Collection[str] = (),
) -> str:
    """What is named, in its order, without the date. `tools` are the names of those that the agent has.

    Raises `BadFile` for a file that cannot be read: an agent without what it was to know is another agent.
    """
    sections: list[str] = []
    for name in context:
        match name:
            case "date":
                pass
            case "environment":
                sections.append(await _environment(workspace, tools))
            case "skills":
                sections.append(briefing.skills(skills.values()))
            case _:
                sections.append(briefing.written(name, await asyncio.to_thread(_read, project, name)))
    return briefing.briefing(sections)


async def _environment(workspace: Workspace | None, tools: Collection[str]) -> str:
    if workspace is None:
        return ""
    lines = await workspace.do(partial(tree, workspace, "", DEPTH, MOST_ENTRIES))
    return briefing.environment(lines, [name for name in tools if name in WORKSPACE_TOOLS])


def _read(project: Path, name: str) -> str:
    """A file of the project. Links in it are the project's own."""
    path = (project / name).resolve()
    if not path.is_relative_to(project.resolve()):
        raise BadFile(name=name, problem="it is outside the project")
    text = text_of(read_path(path, LARGEST))
    if text is None:
        raise BadFile(name=name, problem="it is no text")
    return text
