from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retinue import Retinue
from retinue.files.local import LocalFiles
from retinue.models.scripted import Reply
from retinue.testing import ScriptedModel, SetClock
from tests.threads.talk import Doors, Heard


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture
def ann() -> Heard:
    return Heard("ann")


@pytest.fixture
def bob() -> Heard:
    return Heard("bob")


@pytest.fixture
def models(doors: Doors, ann: Heard, bob: Heard) -> dict[str, ScriptedModel]:
    broken = ScriptedModel(lambda _: Reply(pieces=["I "], error=ConnectionError("no line")), "broken")
    return {"gated": doors.model, "ann": ann, "bob": bob, "broken": broken}


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "files")


@pytest.fixture
async def app(
    database_url: str, clock: SetClock, models: dict[str, ScriptedModel], files: LocalFiles
) -> AsyncIterator[Retinue]:
    """An app with a worker on each kind of database."""
    async with Retinue.open(database_url, clock=clock, models=models, files=files, grace=0) as app:
        yield app
