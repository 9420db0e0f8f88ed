"""What an agent is told of its surroundings, and reading skills."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue.core.briefing import Skill
from retinue.errors import BadFile
from retinue.project.skills import read_skills
from retinue.tools.builtin.catalog import NAMES, implied, tools_of
from retinue.tools.builtin.context import brief
from retinue.tools.builtin.workspace import Workspace, Workspaces

from .calling import Tools


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspaces(tmp_path / "work").of("run_1")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a skill and a file."""
    for path, text in {
        "style.md": "Be brief.\n",
        "skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Fill in forms.\n---\n# Forms\nSee more/how.md.\n",
        "skills/pdf/more/how.md": "With a pen.",
    }.items():
        (tmp_path / "project" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / path).write_text(text)
    return tmp_path / "project"


@pytest.fixture
def skills(project: Path) -> dict[str, Skill]:
    return read_skills(project)[0]


async def test_what_is_named_is_told_in_its_order(
    project: Path, skills: dict[str, Skill], workspace: Workspace
) -> None:
    await Tools(*tools_of(workspace, skills)).call("write", path="a/b", content="x")
    told = await brief(
        ["style.md", "date", "skills", "environment"],
        project=project,
        skills=skills,
        workspace=workspace,
        tools=["web_fetch", "read"],
    )
    assert told.startswith("## style.md\n\nBe brief.\n\n## Skills\n")
    assert "- pdf: Fill in forms." in told
    assert told.endswith("```\na/\na/b  1 bytes\n```")
    assert "Use read on them." in told
    assert await brief(["date"], project=project, skills={}) == ""


async def test_the_tree_that_is_told_is_bounded(project: Path, workspace: Workspace) -> None:
    def fill() -> None:
        for n in range(300):
            (workspace.path / f"{n}").touch()

    await workspace.do(fill)
    told = await brief(["environment"], project=project, skills={}, workspace=workspace)
    assert "[There is more: these are the first 200. List a folder of it.]" in told


@pytest.mark.parametrize(
    ("name", "why"),
    [("gone.md", "it is not there"), ("../secret", "it is outside the project"), ("blob", "it is no text")],
)
async def test_a_file_that_cannot_be_told_is_an_error(project: Path, name: str, why: str) -> None:
    (project / "blob").write_bytes(bytes(range(256)))
    (project.parent / "secret").write_text("x")
    with pytest.raises(BadFile, match=why):
        await brief([name], project=project, skills={})


async def test_a_skill_is_read_and_then_its_files(skills: dict[str, Skill], workspace: Workspace) -> None:
    tools = Tools(*tools_of(workspace, skills))
    text = await tools.call("skill", name="pdf")
    assert "# Forms\nSee more/how.md.\n\n[Files of this skill, to be read with `file`:]\nmore/\nmore/how.md" in text
    assert await tools.call("skill", name="pdf", file="more/how.md") == "With a pen."
    assert await tools.refused("skill", name="pfd") == "there is no skill pfd. Did you mean pdf?"
    assert "leads out" in await tools.refused("skill", name="pdf", file="../../style.md")
    assert "there is no file nothing" in await tools.refused("skill", name="pdf", file="nothing")


def test_the_catalog_has_every_tool_by_its_name(workspace: Workspace) -> None:
    tools = tools_of(workspace, {})
    assert sorted(tool.name for tool in tools) == sorted(NAMES)
    assert {tool.origin for tool in tools} == {"builtin"}
    assert all(tool.spec.description for tool in tools)
    assert implied(["date", "skills"]) == ("skill",)
    assert implied(["date"]) == ()
