"""Agent files that are wrong: they cannot be run, say why, and hold up nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue import Retinue
from retinue.errors import BadInput
from retinue.settings import read_project
from retinue.testing import SetClock
from tests.agents.acting import Actor, finish
from tests.outside import ended

KEYS = "---\nname: broken\ndescription: Breaks.\nmodel: m\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"---\nname: broken\ndescription: caf\xe9\n---\nx", "agents/broken.md:3: it is not UTF-8"),
        (f"{KEYS}---\nx".encode("utf-16"), "agents/broken.md:1: it is not UTF-8"),
        (b"You help.", "agents/broken.md:1: it has no front matter"),
        (f"{KEYS}agents: [broken]\n---\nx".encode(), "agents/broken.md:5: agents: broken names itself"),
        (f"{KEYS}tools: [nothing]\n---\nx".encode(), "agents/broken.md:5: tools: there is no tool nothing"),
        (f"{KEYS}---\n{{{{ x".encode(), "agents/broken.md:6: a bad template"),
    ],
)
async def test_a_broken_file_is_refused_with_its_place_and_the_others_run(
    clock: SetClock, tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/broken.md").write_bytes(content)
    (tmp_path / "agents/good.md").write_text(KEYS.replace("broken", "good") + "---\nYou help.")
    project = read_project(tmp_path, variables={})
    async with Retinue.open("sqlite://", clock=clock, project=project, models={"m": Actor(finish())}) as app:
        with pytest.raises(BadInput) as raised:
            await app.submit("agent:broken", "Go")
        assert says in str(raised.value)
        assert await app.service.runs() == []
        assert (await ended(app, await app.submit("agent:good", "Go"))).reason == "goal"


async def test_two_agents_of_one_name_are_refused_and_the_others_run(clock: SetClock, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    for file in ("a", "b"):
        (tmp_path / f"agents/{file}.md").write_text(f"{KEYS}---\nx")
    (tmp_path / "agents/good.md").write_text(KEYS.replace("broken", "good") + "---\nYou help.")
    project = read_project(tmp_path, variables={})
    async with Retinue.open("sqlite://", clock=clock, project=project, models={"m": Actor(finish())}) as app:
        with pytest.raises(BadInput, match=r"agents/b\.md:2: name: agents/a\.md has an agent broken too"):
            await app.submit("agent:broken", "Go")
        assert (await ended(app, await app.submit("agent:good", "Go"))).reason == "goal"
