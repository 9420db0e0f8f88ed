"""PostgreSQL. The root's row is the lock of its tree: whoever writes to any run of a tree holds it, and takes
all that it needs in one order, so two processes can neither miss each other nor wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from retinue import errors
from retinue.store.schema import SCHEMA_LOCK
from retinue.store.transaction import Row

NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
CLAIM_LOCK = 7_310_514
RACES = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)

_LOCK_TREES = """SELECT id FROM runs WHERE id IN (SELECT root_id FROM runs WHERE id {in}
UNION SELECT id FROM runs WHERE after_run_id {in}) ORDER BY id FOR UPDATE"""

# The connection failed, the server ends it, it slept for too long within a transaction.
GONE = ("08", "57P", "25P03", "25P04")

# A statement that takes that long is broken, a server that is silent that long is gone.
_TIMEOUTS = b"SET statement_timeout = '30s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '5s'"

Connection = psycopg.Connection[Row]


@cache
def _sql(sql: str) -> str:
    sql = sql.replace("%", "%%").replace("{in}", "= ANY(?)").replace("{lock}", " FOR UPDATE OF root SKIP LOCKED")
    return sql.replace("?", "%s")


@cache
def _unnest(columns: str) -> str:
    types = [column.split()[1] for column in columns.split(", ")]
    return f"SELECT * FROM unnest({', '.join(f'%s::{type}[]' for type in types)})"


@cache
def _sql_rows(sql: str, columns: str) -> str:
    return _sql(sql).replace("{rows}", _unnest(columns))


@cache
def _sql_insert(table: str, columns: str, conflict: str) -> str:
    names = [column.split()[0] for column in columns.split(", ")]
    return f"INSERT INTO {table} ({', '.join(names)}) {_unnest(columns)} {conflict}"


def _execute(connection: Connection, sql: str, params: Sequence[object]) -> list[Row]:
    cursor = connection.execute(sql.encode(), params)  # bytes: composed here, from constants only
    return cursor.fetchall() if cursor.description else []


class PostgresTransaction:
    """A write transaction under READ COMMITTED, made safe by the trees' locks."""

    def __init__(self, connection: Connection, now: int) -> None:
        self._connection = connection
        self.now = now

    def run(self, sql: str, *params: object) -> list[Row]:
        return _execute(self._connection, _sql(sql), params)

    def rows(self, sql: str, columns: str, rows: Sequence[Sequence[object]], *params: object) -> list[Row]:
        if not rows:
            return []
        return _execute(self._connection, _sql_rows(sql, columns), (*_columns(rows), *params))

    def insert(self, table: str, columns: str, rows: Sequence[Sequence[object]], conflict: str = "") -> None:
        if rows:
            _execute(self._connection, _sql_insert(table, columns, conflict), _columns(rows))

    def any(self, values: Sequence[object]) -> object:
        return list(values)

    def lock_trees(self, run_ids: Sequence[str], ending: Sequence[str] = ()) -> None:
        if run_ids:
            self.run(_LOCK_TREES, list(run_ids), list(ending))

    def lock_threads(self, thread_ids: Sequence[str]) -> None:
        if thread_ids:
            self.run("SELECT id FROM threads WHERE id {in} ORDER BY id FOR UPDATE", list(thread_ids))

    def serialize(self) -> None:
        self.run("SELECT pg_advisory_xact_lock(?)", CLAIM_LOCK)


def _columns(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


class PostgresDialect:
    """How to reach a PostgreSQL database."""

    name = "postgresql"
    shared = True
    readers = 4

    def __init__(self, url: str) -> None:
        self.url = url

    def exists(self) -> bool:
        return True  # or connecting says that it does not

    def connect(self) -> Connection:
        try:
            connection: Connection = psycopg.connect(_patient(self.url), autocommit=True)
        except psycopg.Error as error:
            raise self.translate(error) from None
        try:
            connection.execute(_TIMEOUTS)
        except psycopg.Error as error:
            connection.close()
            raise self.translate(error) from None
        connection.prepare_threshold = 2
        return connection

    def now(self, connection: Connection, default: int) -> int:
        row = connection.execute(f"SELECT {NOW}".encode()).fetchone()
        return int(row[0]) if row else default

    def begin(self, connection: Connection, now: int, *, database_time: bool) -> PostgresTransaction:
        if database_time:
            connection.execute(b"BEGIN")
            now = self.now(connection, now)
        else:
            connection.execute(b"BEGIN")
        return PostgresTransaction(connection, now)

    def commit(self, connection: Connection) -> None:
        connection.execute(b"COMMIT")

    def rollback(self, connection: Connection) -> None:
        if not connection.closed:
            connection.rollback()

    def read(self, connection: Connection, sql: str, params: Sequence[object]) -> list[Row]:
        if any(isinstance(value, str) and "\0" in value for value in params):
            return []  # no text here can hold that, so nothing is found
        return _execute(connection, _sql(sql), params)

    def tables(self, connection: Connection) -> set[str]:
        sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        return {row[0] for row in _execute(connection, sql, ())}

    def size(self, connection: Connection) -> int:
        return int(_execute(connection, "SELECT pg_database_size(current_database())", ())[0][0])

    def lock_schema(self, connection: Connection) -> None:
        connection.execute(b"BEGIN")
        _execute(connection, "SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))

    def migration_url(self) -> str:
        return self.url.replace("postgresql://", "postgresql+psycopg://", 1)

    def translate(self, error: BaseException) -> errors.StoreError:
        """PostgreSQL's error as one that says what to do."""
        problem = str(error).strip().partition("\n")[0]
        match error:
            case psycopg.errors.ReadOnlySqlTransaction() | psycopg.errors.InsufficientPrivilege():
                return errors.DatabaseReadOnly(url=_public(self.url), problem=problem)
            case psycopg.errors.DiskFull() | psycopg.errors.OutOfMemory():
                return errors.DatabaseFull(url=_public(self.url), problem=problem)
            case psycopg.errors.InvalidCatalogName():
                return errors.DatabaseMissing(url=_public(self.url), problem=problem)
            case psycopg.errors.LockNotAvailable():
                return errors.DatabaseLocked(url=_public(self.url), seconds=10)
            case _ if self.is_race(error):
                return errors.StoreError(problem=problem)
            case psycopg.OperationalError() if "does not exist" in problem:
                return errors.DatabaseMissing(url=_public(self.url), problem=problem)
            case _ if self.is_lost(error):
                return errors.DatabaseUnavailable(url=_public(self.url), problem=problem)
            case psycopg.OperationalError() | psycopg.InterfaceError():
                return errors.DatabaseUnavailable(url=_public(self.url), problem=problem)
            case _:
                return errors.StoreError(problem=problem)

    def is_error(self, error: BaseException) -> bool:
        return isinstance(error, psycopg.Error)

    def is_lost(self, error: BaseException) -> bool:
        """Whether the connection itself is gone."""
        state = getattr(error, "sqlstate", None)
        if state is None:
            return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return str(state).startswith(GONE)

    def is_race(self, error: BaseException) -> bool:
        """Whether another process came in between: the same write, done now, sees what that one has written."""
        return isinstance(error, RACES)


def _patient(url: str) -> str:
    """The URL with what makes a connection notice that its server is gone; what the user says goes first."""
    defaults = {"connect_timeout": "10", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3"}
    return make_conninfo(url, **{name: value for name, value in defaults.items() if name not in conninfo_to_dict(url)})


def _public(url: str) -> str:
    """The URL without its password."""
    scheme, _, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    return f"{scheme}://{credentials.partition(':')[0]}{at}{host}"
