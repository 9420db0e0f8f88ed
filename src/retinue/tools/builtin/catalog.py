"""All tools that come with Retinue and can be named in `tools`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from retinue.core.briefing import Skill
from retinue.files.config import FilesConfig
from retinue.ports.tools import Tool
from retinue.tools.builtin.ask import ask_tool
from retinue.tools.builtin.reading import reading_tools
from retinue.tools.builtin.search import search_tool
from retinue.tools.builtin.skill import skill_tool
from retinue.tools.builtin.web import web_fetch_tool
from retinue.tools.builtin.workspace import WORKSPACE_TOOLS, Workspace
from retinue.tools.builtin.writing import writing_tools

NAMES = (*WORKSPACE_TOOLS, "ask_user", "skill", "web_fetch")


def implied(context: Collection[str]) -> tuple[str, ...]:
    """Tools that an agent has without naming them: whoever is told of skills can read them."""
    return ("skill",) if "skills" in context else ()


def tools_of(workspace: Workspace, skills: Mapping[str, Skill], config: FilesConfig | None = None) -> tuple[Tool, ...]:
    """Those of one tree of runs."""
    return (
        *reading_tools(workspace),
        *writing_tools(workspace),
        search_tool(workspace),
        ask_tool(),
        skill_tool(skills),
        web_fetch_tool(config),
    )
