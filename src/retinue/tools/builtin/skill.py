"""`skill`: reading what is written down about how things are done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from retinue.core.briefing import Skill
from retinue.core.spelling import did_you_mean
from retinue.errors import ToolFailed
from retinue.ports.tools import ToolContext
from retinue.tools.builtin.folder import Folder
from retinue.tools.builtin.reading import Read, read_file, tree
from retinue.tools.builtin.tool import Arguments, BuiltIn, built_in

SKILL = "SKILL.md"
LARGEST, MOST_FILES, DEPTH = 2 * 1024 * 1024, 100, 4


class ReadSkill(Arguments, frozen=True):
    name: Annotated[str, msgspec.Meta(description="The name of the skill.")]
    file: Annotated[str, msgspec.Meta(description="A file of it that it speaks of; else the skill itself.")] = SKILL
    offset: Annotated[int, msgspec.Meta(ge=1, description="The line to begin with.")] = 1


def skill_tool(skills: Mapping[str, Skill]) -> BuiltIn[ReadSkill]:
    async def skill(said: ReadSkill, context: ToolContext) -> object:
        known = skills.get(said.name)
        if known is None:
            raise ToolFailed(f"there is no skill {said.name}. {did_you_mean(said.name, skills)}")
        return await asyncio.to_thread(_read, Folder(Path(known.folder), f"the skill {known.name}"), said)

    return built_in(
        "skill",
        "Read a skill: how something is done here. The skill itself first, then those of its files that it speaks of.",
        ReadSkill,
        skill,
    )


def _read(folder: Folder, said: ReadSkill) -> object:
    shown = read_file(folder, Read(path=said.file, offset=said.offset), LARGEST)
    if not isinstance(shown, str) or said.file != SKILL or said.offset > 1:
        return shown
    files = [line for line in tree(folder, "", DEPTH, MOST_FILES) if not line.startswith(f"{SKILL} ")]
    return "\n".join([shown, "", "[Files of this skill, to be read with `file`:]", *files]) if files else shown
