"""Bring a database to the schema of this release.

A new database gets the written-out schema; an older one is migrated. Alembic is loaded only for that: it takes
longer to import than most runs take.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from retinue.errors import DatabaseNewer, NotADatabase
from retinue.store.writer import Dialect

REVISIONS = ("0001",)
HEAD = REVISIONS[-1]
SCHEMA_LOCK = 7_310_513


def prepare(dialect: Dialect, connection: Any) -> None:
    """Create, migrate or refuse."""
    try:
        if revision(dialect, connection) == HEAD:
            return
        dialect.lock_schema(connection)
        found = revision(dialect, connection)  # another process may have been quicker
        if found is None:
            _create(dialect, connection)
        dialect.commit(connection)
        if found is not None and found != HEAD:
            _migrate(dialect)
    except Exception as error:
        dialect.rollback(connection)
        if dialect.is_error(error):
            raise dialect.translate(error) from None
        raise


def revision(dialect: Dialect, connection: Any) -> str | None:
    """The schema that is there; None for an empty database."""
    tables = dialect.tables(connection)
    if not tables:
        return None
    if "alembic_version" not in tables or "runs" not in tables:
        raise NotADatabase(url=dialect.url, problem=f"it has other tables ({', '.join(sorted(tables)[:3])})")
    found = str(dialect.read(connection, "SELECT version_num FROM alembic_version", ())[0][0])
    if found not in REVISIONS:
        raise DatabaseNewer(url=dialect.url, found=found, known=HEAD)
    return found


def _create(dialect: Dialect, connection: Any) -> None:
    script = resources.files("retinue.store").joinpath(f"{dialect.name}.sql").read_text(encoding="utf-8")
    for statement in script.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def _migrate(dialect: Dialect) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "retinue.store:migrations")
    config.set_main_option("sqlalchemy.url", dialect.migration_url().replace("%", "%%"))
    command.upgrade(config, HEAD)
