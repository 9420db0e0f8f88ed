"""The schema: written out, migrated to and declared, it is the same; opening a database that has it loads little."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from retinue.errors import DatabaseNewer
from retinue.ports.clock import SystemClock
from retinue.store import schema, tables
from retinue.store.sql import dialect_of, open_store

from .steps import queued

ROOT = Path(__file__).parents[2]

POSTGRES_SCHEMA = """
SELECT table_name, column_name, data_type, is_nullable, character_maximum_length, column_default
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT tablename, indexname, indexdef, '', 0, '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', 0, '' FROM pg_constraint
WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2, 3
"""


@contextmanager
def connected(url: str) -> Iterator[Any]:
    with closing(dialect_of(url).connect()) as connection:
        yield connection


def schema_of(url: str) -> list[tuple[object, ...]]:
    with connected(url) as connection:
        if url.startswith("postgresql"):
            return list(connection.execute(POSTGRES_SCHEMA))
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
        return [(kind, name, " ".join(re.sub(r"([(),])", r" \1 ", sql).split())) for kind, name, sql in rows]


def create(url: str) -> None:
    with connected(url) as connection:
        schema.prepare(dialect_of(url), connection)


def drop_all(url: str) -> None:
    with connected(url) as connection:
        for table in dialect_of(url).tables(connection):
            connection.execute(f"DROP TABLE {table}")


def test_migrating_gives_the_schema_that_is_written_out(bare_url: str) -> None:
    create(bare_url)
    written = schema_of(bare_url)
    drop_all(bare_url)
    schema._migrate(dialect_of(bare_url))
    assert "runs_to_claim" in {row[1] for row in written}
    assert schema_of(bare_url) == written


def test_the_schema_is_what_the_tables_declare(bare_url: str) -> None:
    create(bare_url)
    engine = create_engine(dialect_of(bare_url).migration_url(), poolclass=NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []


def test_every_table_on_sqlite_is_without_rowid(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    schema._migrate(dialect_of(url))
    with connected(url) as connection:
        rows = connection.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND wr = 0").fetchall()
    assert {row[0] for row in rows} == {"alembic_version", "sqlite_schema"}


def test_the_files_are_up_to_date() -> None:
    subprocess.run([sys.executable, ROOT / "tools/schema.py", "--check"], check=True)


def test_migrating_twice_changes_nothing(bare_url: str) -> None:
    schema._migrate(dialect_of(bare_url))
    before = schema_of(bare_url)
    schema._migrate(dialect_of(bare_url))
    assert schema_of(bare_url) == before


def test_a_migration_that_fails_leaves_nothing(bare_url: str) -> None:
    with connected(bare_url) as connection:
        connection.execute("CREATE TABLE tickets (id TEXT)")  # in the way of the last steps
    before = schema_of(bare_url)
    with pytest.raises(Exception, match="tickets"):
        schema._migrate(dialect_of(bare_url))
    assert schema_of(bare_url) == before


async def test_a_migrated_database_works(bare_url: str) -> None:
    schema._migrate(dialect_of(bare_url))
    store = await open_store(bare_url, SystemClock())
    assert await store.run(await queued(store))
    await store.close()


async def test_a_newer_database_is_left_alone(bare_url: str) -> None:
    create(bare_url)
    with connected(bare_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseNewer, match=r"schema 9999.*Upgrade Retinue"):
        await open_store(bare_url, SystemClock())


def test_opening_loads_neither_alembic_nor_sqlalchemy(bare_url: str) -> None:
    code = f"""
import asyncio, sys
from retinue.ports.clock import SystemClock
from retinue.store.sql import open_store
async def main():
    await (await open_store({bare_url!r}, SystemClock())).close()
asyncio.run(main())
print(sorted({{"alembic", "sqlalchemy", "psycopg"}} & set(sys.modules)))
"""
    for _ in ("created", "opened again"):
        loaded = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
        assert loaded == str(["psycopg"] if bare_url.startswith("postgresql") else [])
