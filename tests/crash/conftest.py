from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from retinue.testing import sqlite_files
from retinue.testing.crash import Databases
from tests.conftest import POSTGRES, Postgres


@pytest.fixture(params=["sqlite", POSTGRES])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Databases]:
    """Where each life of a scenario begins with nothing."""
    if request.param == "sqlite":
        yield sqlite_files(tmp_path)
    else:
        server: Postgres = request.getfixturevalue("postgres")

        @asynccontextmanager
        async def database() -> AsyncIterator[str]:
            with server.database() as url:
                yield url

        yield database
