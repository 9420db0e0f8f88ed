"""Run by Alembic: all steps in one transaction, one process at a time."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.pool import NullPool

from retinue.store.schema import SCHEMA_LOCK
from retinue.store.tables import metadata


def migrate(url: str) -> None:
    engine = create_engine(url, poolclass=NullPool)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "begin", _begin_immediate)
    with engine.connect() as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": SCHEMA_LOCK})
        context.configure(connection=connection, target_metadata=metadata)
        with context.begin_transaction():
            context.run_migrations()


def _begin_immediate(connection: Connection) -> None:
    """The sqlite3 module begins a transaction before rows are changed, but not before tables are."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


migrate(context.config.get_main_option("sqlalchemy.url") or "")
