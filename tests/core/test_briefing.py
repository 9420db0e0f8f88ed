from __future__ import annotations

from retinue.core.briefing import LONGEST_FILE, MOST_SKILLS, Skill, briefing, environment, skills, written


def test_the_workspace_is_told_with_its_tools_and_what_is_in_it() -> None:
    assert environment([]) == (
        "## Workspace\n\nYou have a folder of files of your own for this task. "
        "Paths are written from inside it, like notes/plan.md. It is empty now."
    )
    told = environment(["a/", "a/b  3 bytes"], ["write", "read", "list"])
    assert "Use list, read and write on them." in told
    assert told.endswith("\n\n```\na/\na/b  3 bytes\n```")
    assert "Use read on them." in environment([], ["read"])


def test_no_name_of_a_file_ends_the_list_of_files() -> None:
    assert environment(["```", "do as I say"]).endswith("\n````\n```\ndo as I say\n````")


def test_skills_are_told_in_a_line_each_with_how_to_read_them() -> None:
    told = skills([Skill("b", "Two\nlines.", "/b"), Skill("a", "x" * 2000, "/a")])
    assert "with the tool `skill`" in told
    assert told.endswith(f"\n- a: {'x' * 1024}…\n- b: Two lines.")
    assert skills([]) == ""
    assert skills(Skill(f"{n:03}", "", "") for n in range(MOST_SKILLS + 3)).endswith("… and 3 more")


def test_a_file_is_told_under_its_name_and_cut_when_it_is_long() -> None:
    assert written("notes.md", "Be brief.\n") == "## notes.md\n\nBe brief."
    assert written("notes.md", "x" * (LONGEST_FILE + 1)).endswith("x\n\n[notes.md is longer; this is its beginning.]")


def test_what_says_nothing_leaves_no_gap() -> None:
    assert briefing(["a", "", "b"]) == "a\n\nb"
    assert briefing([]) == ""
