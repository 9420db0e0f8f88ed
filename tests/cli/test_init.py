from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from retinue.cli import init
from retinue.models.pull import pull
from retinue.project.agents import read_agent
from retinue.settings import read_settings
from tests.models.server import Server, saying

from .conftest import Terminal

FILES = [".gitignore", "agents/guide.md", "retinue.toml", "tools/cities.py"]


def files_in(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and path.name != "shop.py"
    )


def test_a_project_is_written_and_what_to_try_next_is_said(retinue: Terminal, tmp_path: Path) -> None:
    said = retinue("init")
    assert said.code == 0
    assert files_in(tmp_path) == FILES
    assert 'retinue run agent:guide "' in said.out


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_ever_overwritten(retinue: Terminal, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    made = retinue("init", "--json").json
    assert (made["kept"], sorted(made["made"])) == ([name], [other for other in FILES if other != name])
    assert (tmp_path / name).read_text() == "mine"
    assert retinue("init", "--json").json["made"] == []


def test_a_folder_can_be_named_and_is_made(retinue: Terminal, tmp_path: Path) -> None:
    said = retinue("init", "my agents/first")
    assert files_in(tmp_path / "my agents" / "first") == FILES
    assert "cd 'my agents/first'" in said.out


@pytest.mark.parametrize(("installed", "model"), [(True, "local:smollm2"), (False, "test")])
def test_its_model_needs_no_key(
    retinue: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, model: str
) -> None:
    monkeypatch.setattr(init, "find_spec", lambda name: object() if installed else None)
    retinue("init")
    settings, problems = read_settings(tmp_path, variables={})
    assert (settings.model, problems) == (model, ())


def test_its_agent_answers_at_once_without_a_key(retinue: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "find_spec", lambda name: None)
    retinue("init")
    assert retinue("agents", "check").code == 0
    said = retinue("run", "agent:guide", "What to see in Porto?", "--json").json
    assert (said["reason"], said["output"]) == ("goal", "You said: What to see in Porto?")


@pytest.mark.slow
@pytest.mark.parametrize("city", ["Porto", "Riga"])
def test_its_agent_looks_a_city_up_and_answers_with_the_local_model(retinue: Terminal, city: str) -> None:
    pull("smollm2")
    retinue("init")
    said = retinue("run", "agent:guide", f"What to see in {city}?")
    assert (said.code, "✓ turn 2  local:smollm2" in said.out) == (0, True)
    assert f"city: {city} → A city on the D" in said.out
    assert "✓ completed" in said.out


def test_its_agent_answers_with_any_server_that_speaks_openais_format(provider: Server, retinue: Terminal) -> None:
    retinue("init")
    provider.will(saying("Cross", " the bridge."))
    said = retinue("run", "agent:guide", "What to see in Porto?", "--model", "openai:any", "--json").json
    assert (said["reason"], said["output"]) == ("goal", "Cross the bridge.")
    (asked,) = provider.asked
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["about_city"]


def test_what_it_writes_is_right(retinue: Terminal, tmp_path: Path) -> None:
    retinue("init")
    agent = read_agent("agents/guide.md", (tmp_path / "agents/guide.md").read_text(), ["local"])
    assert agent.problems == ()
    assert agent.definition
    tool = agent.definition.tools or ()
    assert f"def {tool[0]}(" in (tmp_path / "tools/cities.py").read_text()
    assert ".retinue/" in (tmp_path / ".gitignore").read_text().splitlines()


def test_the_settings_that_it_only_mentions_are_right_too(retinue: Terminal, tmp_path: Path) -> None:
    retinue("init")
    path = tmp_path / "retinue.toml"
    lines = [line.removeprefix("# ") for line in path.read_text().splitlines()]
    path.write_text("\n".join(line for line in lines if line.startswith("[") or (" = " in line and "#" not in line)))
    assert tomllib.loads(path.read_text())["providers"]
    settings, problems = read_settings(tmp_path, variables={"MY_API_KEY": "sk-123456"})
    assert problems == ()
    assert (settings.providers["mine"].api_key, settings.policy[0].action) == ("sk-123456", "ask")
