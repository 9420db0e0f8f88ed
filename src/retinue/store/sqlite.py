"""SQLite: one file, many processes. Every write transaction begins immediate: one that reads first and writes
later would lose what others wrote in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import msgspec

from retinue import errors
from retinue.store.transaction import Row

BUSY_SECONDS = 10.0
CHUNKS = (64, 32, 16, 8, 4, 2, 1)


@cache
def _sql(sql: str) -> str:
    return sql.replace("{in}", "IN (SELECT value FROM json_each(?))").replace("{lock}", "")


@cache
def _sql_rows(sql: str, width: int, height: int) -> str:
    row = f"({', '.join('?' * width)})"
    return _sql(sql).replace("{rows}", f"VALUES {', '.join([row] * height)}")


@cache
def _sql_insert(table: str, columns: str, conflict: str) -> str:
    names = [column.split()[0] for column in columns.split(", ")]
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) {conflict}"


class SqliteTransaction:
    """A write transaction: alone on the file, so there is nothing to lock."""

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        self._connection = connection
        self.now = now

    def run(self, sql: str, *params: object) -> list[Row]:
        return self._connection.execute(_sql(sql), params).fetchall()

    def rows(self, sql: str, columns: str, rows: Sequence[Sequence[object]], *params: object) -> list[Row]:
        # Chunks are powers of two, so that there are few statements to prepare.
        found: list[Row] = []
        width, at = columns.count(",") + 1, 0
        while at < len(rows):
            height = next(size for size in CHUNKS if size <= len(rows) - at)
            values = [value for row in rows[at : at + height] for value in row]
            found += self._connection.execute(_sql_rows(sql, width, height), (*values, *params)).fetchall()
            at += height
        return found

    def insert(self, table: str, columns: str, rows: Sequence[Sequence[object]], conflict: str = "") -> None:
        self._connection.executemany(_sql_insert(table, columns, conflict), rows)

    def any(self, values: Sequence[object]) -> object:
        return msgspec.json.encode(list(values)).decode()

    def lock_trees(self, run_ids: Sequence[str], ending: Sequence[str] = ()) -> None:
        pass

    def lock_threads(self, thread_ids: Sequence[str]) -> None:
        pass

    def serialize(self) -> None:
        pass


class SqliteDialect:
    """How to reach a SQLite database.

    `sqlite:///FILE?timeout=2` waits two seconds for others' locks. SQLite gets the rest of the query (`mode=ro`).
    """

    name = "sqlite"

    def __init__(self, url: str) -> None:
        self.url = url
        path, _, query = url.removeprefix("sqlite://").removeprefix("/").partition("?")
        self._options = dict(parse_qsl(query))
        self._timeout = float(self._options.pop("timeout", BUSY_SECONDS))
        self.path = None if path in ("", ":memory:") else Path(path)
        self.shared = self.path is not None
        self.readers = 2 if self.shared else 0  # a database in memory has one connection, which does everything

    def exists(self) -> bool:
        return self.path is not None and self.path.exists()

    def connect(self) -> sqlite3.Connection:
        if self.path is None:
            connection = self._open(":memory:")
        else:
            if not self.path.parent.is_dir():
                raise errors.DatabaseMissing(url=self.url, problem=f"the folder {self.path.parent} does not exist")
            connection = self._open(f"{self.path.absolute().as_uri()}?{urlencode(self._options)}")
        return connection

    def _open(self, path: str) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                path,
                timeout=self._timeout,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
                uri=True,
            )
        except sqlite3.Error as error:
            raise self.translate(error) from None
        try:
            tables = self.tables(connection)
            if not tables or "alembic_version" in tables:  # what is not ours stays as it is
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            connection.close()
            raise self.translate(error) from None
        return connection

    def now(self, connection: sqlite3.Connection, default: int) -> int:
        return default  # the same machine, so the same clock

    def begin(self, connection: sqlite3.Connection, now: int, *, database_time: bool) -> SqliteTransaction:
        connection.execute("BEGIN IMMEDIATE")
        return SqliteTransaction(connection, now)

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def rollback(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def read(self, connection: sqlite3.Connection, sql: str, params: Sequence[object]) -> list[Row]:
        values = [msgspec.json.encode(value).decode() if isinstance(value, list) else value for value in params]
        return connection.execute(_sql(sql), values).fetchall()

    def tables(self, connection: sqlite3.Connection) -> set[str]:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def size(self, connection: sqlite3.Connection) -> int:
        ((pages,),), ((each,),) = connection.execute("PRAGMA page_count"), connection.execute("PRAGMA page_size")
        return int(pages * each)

    def lock_schema(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def migration_url(self) -> str:
        return f"sqlite:///{self.path}"

    def translate(self, error: BaseException) -> errors.StoreError:
        """SQLite's error as one that says what to do."""
        code = getattr(error, "sqlite_errorname", "") or ""
        problem = str(error)
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return errors.DatabaseLocked(url=self.url, seconds=self._timeout)
        if code.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
            return errors.DatabaseReadOnly(url=self.url, problem=problem)
        if code.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE")):
            return errors.DatabaseFull(url=self.url, problem=problem)
        if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return errors.NotADatabase(url=self.url, problem=problem)
        if code.startswith("SQLITE_CANTOPEN"):
            return errors.DatabaseMissing(url=self.url, problem=problem)
        return errors.StoreError(problem=problem)

    def is_error(self, error: BaseException) -> bool:
        return isinstance(error, sqlite3.Error)

    def is_lost(self, error: BaseException) -> bool:
        return False

    def is_race(self, error: BaseException) -> bool:
        return False
