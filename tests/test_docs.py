"""What the documentation shows is run as it stands there."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from retinue.project.agents import read_agent
from retinue.settings import read_settings

DOCS = Path(__file__).parents[1] / "docs"
RUN = ("agents.md", "tools.md", "policy.md", "testing-agents.md")


def blocks(language: str) -> list[Any]:
    """Those of a language, by page and number."""
    found = re.compile(rf"^```{language}\n(.*?)^```$", re.S | re.M)
    texts = {page: found.findall((DOCS / page).read_text()) for page in RUN}
    return [pytest.param(text, id=f"{page}-{n + 1}") for page, shown in texts.items() for n, text in enumerate(shown)]


@pytest.fixture
def shown(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    """A block as a module of its own: its tools are asked for their code."""
    path = tmp_path / "shown.py"
    path.write_text(request.param)
    spec = spec_from_file_location("shown", path)
    assert spec
    assert spec.loader
    module = sys.modules["shown"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["shown"]


@pytest.mark.parametrize("shown", blocks("python"), indirect=True)
def test_examples_do_what_they_say(shown: ModuleType, tmp_path: Path) -> None:
    shows = [one for name, one in vars(shown).items() if name == "main" or name.startswith("test_")]
    assert shows
    for show in shows:
        asyncio.run(show(*([tmp_path] if inspect.signature(show).parameters else [])))


@pytest.mark.parametrize("block", blocks("markdown"))
def test_agents_in_examples_are_right(block: str) -> None:
    read = read_agent("agents/shown.md", block, ["local"])
    assert read.problems == ()
    assert read.definition


@pytest.mark.parametrize("block", blocks("toml"))
def test_settings_in_examples_are_right(block: str, tmp_path: Path) -> None:
    (tmp_path / "retinue.toml").write_text(block)
    settings, problems = read_settings(tmp_path, variables={})
    assert problems == ()
    assert settings.policy or settings.routing or settings.compaction.results == 50_000
