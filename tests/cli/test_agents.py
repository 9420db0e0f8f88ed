from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.conftest import agent

from .conftest import Terminal

TOOL = "print('loading')\nfrom retinue import tool\n@tool\ndef look_up(city: str): ...\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "retinue.toml").write_text("model = 'test'")
    (tmp_path / "tools" / "cities.py").write_text(TOOL)
    (tmp_path / "agents" / "guide.md").write_text(
        agent("guide", "tools: [look_up]", "limits: {max_cost_usd: 0.5}", body="You know\ncities.")
    )
    return tmp_path


def test_the_agents_are_listed(retinue: Terminal, project: Path) -> None:
    said = retinue("agents", "list")
    assert said.code == 0
    assert said.out.splitlines()[1].split() == ["guide", "local", "test", "1", "Helps."]


def test_an_agent_with_mistakes_is_listed_with_the_first_of_them(retinue: Terminal, project: Path) -> None:
    (project / "agents" / "bad.md").write_text(agent("bad", "steps: x"))
    said = retinue("agents", "list")
    assert "✗ bad" in said.out
    assert "agents/bad.md:4: steps: expected a whole number" in said.out
    assert "1 error; all of them:  retinue agents check" in said.out
    assert [(one["name"], one["ok"]) for one in retinue("agents", "list", "--json").json] == [
        ("guide", True),
        ("bad", False),
    ]


def test_an_agent_is_shown_with_all_that_it_is_told(retinue: Terminal, project: Path) -> None:
    said = retinue("agents", "show", "guide")
    assert said.code == 0
    for text in ("agents/guide.md", "test (the project's)", "look_up", "any text", "30 turns, 10 minutes, 0.5 USD"):
        assert text in said.out
    assert said.out.endswith("You know\ncities.\n")


def test_an_agent_is_shown_as_json(retinue: Terminal, project: Path) -> None:
    shown = retinue("agents", "show", "guide", "--json").json
    assert (shown["name"], shown["tools"], shown["model"], len(shown["digest"])) == ("guide", ["look_up"], "test", 32)
    assert shown["definition"]["instructions"] == "You know\ncities."


def test_what_tools_print_while_they_load_is_no_part_of_the_answer(retinue: Terminal, project: Path) -> None:
    said = retinue("agents", "list", "--json")
    assert said.json
    assert "loading" in said.err


def test_an_unknown_agent_is_a_usage_error_with_the_nearest(retinue: Terminal, project: Path) -> None:
    said = retinue("agents", "show", "giude")
    assert (said.code, "Did you mean guide?" in said.err) == (2, True)


def test_a_project_without_a_mistake_is_said_to_have_none(retinue: Terminal, project: Path) -> None:
    said = retinue("agents", "check")
    assert (said.code, said.out) == (0, "1 agent can run; nothing is wrong.\n")
    assert retinue("agents", "check", "--json").json == {"ok": True, "agents": ["guide"], "problems": []}


def test_a_check_says_every_problem_by_file_and_line_and_fails(retinue: Terminal, project: Path) -> None:
    (project / "agents" / "bad.md").write_text(agent("bad", "steps: x", "colour: red"))
    (project / "mcp.json").write_text("{\n]")
    said = retinue("agents", "check")
    assert said.code == 1
    assert said.out.splitlines() == [
        "agents/bad.md:4: error: steps: expected a whole number, got text",
        "agents/bad.md:5: warning: colour: nobody knows this key",
        "mcp.json:2: error: it is no JSON: expecting property name enclosed in double quotes",
        "",
        "1 agent can run; 2 errors, 1 warning.",
    ]
    checked = retinue("agents", "check", "--json")
    assert (checked.code, checked.json["ok"], len(checked.json["problems"])) == (1, False, 3)
    assert checked.json["problems"][0] == {
        "severity": "error",
        "file": "agents/bad.md",
        "line": 4,
        "key": "steps",
        "problem": "expected a whole number, got text",
    }


def test_a_warning_alone_fails_nothing(retinue: Terminal, project: Path) -> None:
    (project / "agents" / "odd.md").write_text(agent("odd", "colour: red"))
    said = retinue("agents", "check")
    assert (said.code, said.out.splitlines()[-1]) == (0, "2 agents can run; 1 warning.")


def test_another_folder_can_be_named(retinue: Terminal, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "elsewhere").mkdir()
    monkeypatch.chdir(project / "elsewhere")
    assert retinue("agents", "check", "--project", "..").code == 0


@pytest.mark.parametrize("command", [["list"], ["show", "x"], ["check"]])
def test_where_there_is_no_project_its_beginning_is_pointed_out(retinue: Terminal, command: list[str]) -> None:
    said = retinue("agents", *command)
    assert (said.code, "`retinue init` makes one" in said.err) == (2, True)
