from __future__ import annotations

import pytest

from tests.project.conftest import Load, agent

PDF = "---\nname: pdf\ndescription: Fill in forms.\nlicense: MIT\n---\nOpen it."


def test_a_projects_skills_are_read_by_name(load: Load) -> None:
    project = load({"agents/a.md": agent("a", "context: [skills]"), "skills/pdf/SKILL.md": PDF, "skills/README.md": ""})
    assert project.problems == ()
    assert [(skill.name, skill.description) for skill in project.skills.values()] == [("pdf", "Fill in forms.")]
    assert project.skills["pdf"].folder.endswith("/skills/pdf")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Open it.", "skills/x/SKILL.md:1: it has no front matter"),
        ("---\nname: x", "skills/x/SKILL.md:1: it has no front matter"),
        ("---\nname: x\n---\n", "skills/x/SKILL.md:2: description: it is missing"),
        ("---\nname: ../x\ndescription: d\n---\n", "skills/x/SKILL.md:2: name: '../x' is no name"),
        ("---\nname: pdf\ndescription: d\n---\n", "skills/x/SKILL.md: there are two skills named pdf: pdf/ has"),
        ("---\nname: [\n---\n", "skills/x/SKILL.md:3: it is no YAML"),
        (b"---\nname: \xff\n---\n", "skills/x/SKILL.md:2: it is not UTF-8"),
    ],
)
def test_a_bad_skill_is_said_with_its_place_and_hides_no_other(load: Load, text: str | bytes, says: str) -> None:
    project = load({"agents/a.md": agent("a"), "skills/pdf/SKILL.md": PDF, "skills/x/SKILL.md": text})
    assert [str(problem)[: len(says)] for problem in project.problems if not problem.warning] == [says]
    assert list(project.skills) == ["pdf"]


def test_a_skill_without_a_name_has_that_of_its_folder_and_another_one_is_odd(load: Load) -> None:
    project = load({"skills/x/SKILL.md": "---\ndescription: d\n---\n", "skills/y/SKILL.md": PDF, "retinue.toml": ""})
    assert list(project.skills) == ["x", "pdf"]
    assert [str(problem) for problem in project.problems] == [
        "skills/y/SKILL.md:2: name: its folder is y/: other programs want it to be pdf/"
    ]
    assert project.ok


def test_who_wants_skills_where_there_are_none_is_told(load: Load) -> None:
    project = load({"agents/a.md": agent("a", "context: [date, skills]")})
    assert project.ok
    assert [str(problem) for problem in project.problems] == [
        "agents/a.md:4: context[1]: the project has no skills: write skills/NAME/SKILL.md"
    ]
