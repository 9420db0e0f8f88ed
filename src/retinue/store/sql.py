"""The store over a dialect: writes go to the one writer, reads to a few connections of their own."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar, cast

from retinue.core.delta import OpenTurn
from retinue.core.outcome import Status
from retinue.errors import BadInput, ExtraMissing, StoreClosed
from retinue.ports import store as port
from retinue.ports.clock import Clock
from retinue.store import queries, schema
from retinue.store.transaction import Row
from retinue.store.writer import Checkpoint, Dialect, Writer

T = TypeVar("T")


def dialect_of(url: str) -> Dialect:
    """The dialect that a database URL asks for."""
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from retinue.store.postgres import PostgresDialect  # psycopg is an extra, and slow to import
        except ImportError:
            raise ExtraMissing(what="PostgreSQL", extra="postgres") from None
        return PostgresDialect(url.replace("postgres://", "postgresql://", 1))
    if url.startswith("sqlite:") or url == ":memory:":
        from retinue.store.sqlite import SqliteDialect

        return SqliteDialect(url)
    raise BadInput(problem=f"{url!r} is no database URL: use sqlite:///FILE, sqlite:// (in memory) or postgresql://…")


def schema_found(url: str) -> tuple[str | None, str]:
    """The schema of a database, None if there is none yet, and the one that this release makes of it."""
    dialect = dialect_of(url)
    if not dialect.exists():
        return None, schema.HEAD
    with closing(dialect.connect()) as connection:
        try:
            return schema.revision(dialect, connection), schema.HEAD
        except Exception as error:
            if dialect.is_error(error):
                raise dialect.translate(error) from None
            raise


async def open_store(url: str, clock: Clock, checkpoint: Checkpoint | None = None) -> SqlStore:
    """Connect, bring the schema up to date, start the writer."""
    dialect = dialect_of(url)

    def connect() -> Any:
        connection = dialect.connect()
        try:
            schema.prepare(dialect, connection)
        except BaseException:
            connection.close()
            raise
        return connection

    writer = Writer(dialect, await asyncio.to_thread(connect), clock)
    writer.checkpoint = checkpoint
    writer.start()
    return SqlStore(dialect, writer, clock)


class SqlStore:
    """See `retinue.ports.store.Store`."""

    def __init__(self, dialect: Dialect, writer: Writer, clock: Clock) -> None:
        self._dialect, self._writer, self._clock = dialect, writer, clock
        self.url, self.shared, self.clock = dialect.url, dialect.shared, writer.clock
        self._closed = False
        self._local = threading.local()
        self._connections: list[Any] = []
        self._pool = ThreadPoolExecutor(dialect.readers, "retinue-reader") if dialect.readers else None

    @property
    def commits(self) -> int:
        return self._writer.commits

    def on_commit(self, listener: Callable[[port.Commit], None]) -> None:
        self._writer.listeners.append(listener)

    async def close(self) -> None:
        """Commit what is waiting, let reads end, close all connections: also when whoever waits for it goes away."""
        self._closed = True
        try:
            await self._writer.close()
        finally:
            await asyncio.shield(asyncio.to_thread(self._close_readers))

    def _close_readers(self) -> None:
        if self._pool:
            self._pool.shutdown()
        for connection in self._connections:
            connection.close()

    # Writes

    async def submit(self, write: port.Submit) -> str:
        return cast(str, await self._writer.do(write))

    async def post(self, write: port.Post) -> port.Posted | None:
        return cast("port.Posted | None", await self._writer.do(write))

    async def rename(self, write: port.Rename) -> None:
        await self._writer.do(write)

    async def drop(self, write: port.Drop) -> dict[str, Status]:
        return cast("dict[str, Status]", await self._writer.do(write))

    async def purge(self, write: port.Purge) -> port.Pruned | None:
        return cast("port.Pruned | None", await self._writer.do(write))

    async def keep(self, write: port.Keep) -> None:
        await self._writer.do(write)

    async def forget(self, write: port.Forget) -> None:
        await self._writer.do(write)

    async def reserve(self, write: port.Reserve) -> bool:
        return cast(bool, await self._writer.do(write))

    async def append(self, write: port.Append) -> port.Appended | None:
        return cast("port.Appended | None", await self._writer.do(write))

    async def claim(self, write: port.Claim) -> list[port.Claimed]:
        return cast("list[port.Claimed]", await self._writer.do(write))

    async def signal(self, write: port.Signal) -> int:
        return cast(int, await self._writer.do(write))

    async def cancel(self, write: port.Cancel) -> dict[str, Status]:
        return cast("dict[str, Status]", await self._writer.do(write))

    async def renew(self, write: port.Renew) -> dict[str, tuple[int, int]]:
        return cast("dict[str, tuple[int, int]]", await self._writer.do(write))

    async def let_go(self, write: port.LetGo) -> None:
        await self._writer.do(write)

    async def worker_died(self, write: port.WorkerDied) -> None:
        await self._writer.do(write)

    async def wake_due(self, write: port.WakeDue) -> bool:
        return cast(bool, await self._writer.do(write))

    async def speak(self, write: port.Speak) -> None:
        await self._writer.do(write)

    async def prune(self, write: port.Prune) -> port.Pruned:
        return cast("port.Pruned", await self._writer.do(write))

    # Reads

    async def run(self, run_id: str) -> port.RunRow | None:
        rows = await self._read(queries.RUN, run_id)
        return queries.run_row(rows[0]) if rows else None

    async def runs(
        self,
        *,
        root_id: str | None = None,
        status: str | None = None,
        owner: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[port.RunRow]:
        sql, params = queries.runs(limit=limit, before=before, root_id=root_id, status=status, owner=owner)
        return [queries.run_row(row) for row in await self._read(sql, *params)]

    async def ids_like(self, table: str, text: str, limit: int) -> list[str]:
        """Ids of runs or tickets that begin with a text, or else end with what it says after the kind."""
        for sql, params in queries.ids_like(table, text, limit):
            if rows := await self._read(sql, *params):
                return [row[0] for row in rows]
        return []

    async def statuses(self, run_ids: Sequence[str]) -> dict[str, Status]:
        return {row[0]: Status(row[1]) for row in await self._read(queries.STATUSES_OF, list(run_ids))}

    async def answered(self, owner: str, answer_key: str, since: int) -> str | None:
        rows = await self._read(queries.ANSWERED, owner, answer_key, since)
        return str(rows[0][0]) if rows else None

    async def children(self, parent_id: str) -> list[port.RunRow]:
        return [queries.run_row(row) for row in await self._read(queries.CHILDREN, parent_id)]

    async def tree(self, root_id: str) -> list[port.RunRow]:
        return [queries.run_row(row) for row in await self._read(queries.TREE, root_id, root_id)]

    async def thread(self, thread_id: str) -> port.ThreadRow | None:
        rows = await self._read(queries.THREAD, thread_id)
        return port.ThreadRow(*rows[0]) if rows else None

    async def threads(
        self, *, owner: str | None = None, before: port.ThreadRow | None = None, limit: int = 50
    ) -> list[port.ThreadRow]:
        sql, params = queries.threads(owner=owner, before=before, limit=limit)
        return [port.ThreadRow(*row) for row in await self._read(sql, *params)]

    async def dropped(self) -> list[str]:
        return [row[0] for row in await self._read(queries.DROPPED)]

    async def message(self, message_id: str) -> port.MessageRow | None:
        rows = await self._read(queries.MESSAGE, message_id)
        return queries.message_row(rows[0]) if rows else None

    async def messages(
        self, thread_id: str, after: port.MessageRow | None = None, limit: int = 500
    ) -> list[port.MessageRow]:
        place = (after.created_at, after.id) if after else (0, "")
        return [queries.message_row(row) for row in await self._read(queries.MESSAGES, thread_id, *place, limit)]

    async def branch(self, message_id: str) -> list[port.MessageRow]:
        return [queries.message_row(row) for row in await self._read(queries.BRANCH, message_id)]

    async def path(self, message_id: str) -> list[port.MessageRow]:
        return [queries.message_row(row) for row in await self._read(queries.PATH, message_id)]

    async def latest(self, thread_id: str) -> str | None:
        rows = await self._read(queries.LATEST, thread_id)
        return rows[0][0] if rows else None

    async def idle_in(self, thread_id: str) -> list[str]:
        return [row[0] for row in await self._read(queries.IDLE_IN, thread_id, thread_id)]

    async def saying(
        self, text: str, *, owner: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[port.MessageRow]:
        sql, params = queries.saying(text, owner=owner, before=before, limit=limit)
        return [queries.message_row(row) for row in await self._read(sql, *params)]

    async def replies(self, thread_id: str, message_id: str | None) -> list[port.MessageRow]:
        sql, params = (queries.REPLIES, (thread_id, message_id)) if message_id else (queries.TOPS, (thread_id,))
        return [queries.message_row(row) for row in await self._read(sql, *params)]

    async def holds(self, owner: str, uris: Sequence[str]) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._read(queries.HOLDS, owner, port.NOBODY, list(uris))}

    async def orphans(self, before: int) -> dict[str, bool]:
        return {row[0]: bool(row[1]) for row in await self._read(queries.ORPHANS, port.NOBODY, before)}

    async def held(self, worker_id: str) -> dict[str, tuple[int, int]]:
        rows = await self._read(queries.HELD, worker_id)
        return {run_id: (attempt, signal_seq) for run_id, attempt, signal_seq in rows}

    async def events(self, run_id: str, after: int = 0, limit: int = 500) -> list[port.Recorded]:
        return [port.Recorded(*row) for row in await self._read(queries.EVENTS, run_id, after, limit)]

    async def tree_events(self, root_id: str, after: int = 0, limit: int = 500) -> list[port.Recorded]:
        return [port.Recorded(*row) for row in await self._read(queries.TREE_EVENTS, root_id, after, limit)]

    async def events_of(self, run_ids: Sequence[str], types: Sequence[str]) -> list[port.Recorded]:
        return [port.Recorded(*row) for row in await self._read(queries.EVENTS_OF, list(run_ids), list(types))]

    async def last_event(self, run_id: str) -> port.Recorded | None:
        rows = await self._read(queries.LAST_EVENT, run_id)
        return port.Recorded(*rows[0]) if rows else None

    async def signals(self, run_id: str, after: int) -> list[port.SignalRow]:
        return [port.SignalRow(*row) for row in await self._read(queries.SIGNALS, run_id, after)]

    async def paused(self, run_id: str, upto: int) -> bool:
        """Whether a run was paused and not resumed since, as its signals up to a number say."""
        return await self._read(queries.LAST_OF_PAUSES, run_id, upto) == [("pause",)]

    async def open_turn(self, run_id: str) -> OpenTurn | None:
        return queries.open_turn(await self._read(queries.PARTIALS, run_id))

    async def open_turns(self, root_id: str) -> dict[str, OpenTurn]:
        """What the runs of a tree are saying, as far as it was written down."""
        by_run: dict[str, list[Row]] = defaultdict(list)
        for run_id, *said in await self._read(queries.PARTIALS_OF_TREE, root_id, root_id):
            by_run[run_id].append(tuple(said))
        return {run_id: turn for run_id, rows in by_run.items() if (turn := queries.open_turn(rows))}

    async def tickets(self, *, root_id: str | None = None, status: str | None = None) -> list[port.TicketRow]:
        sql, params = queries.tickets(root_id=root_id, status=status)
        return [port.TicketRow(*row) for row in await self._read(sql, *params)]

    async def ticket(self, ticket_id: str) -> port.TicketRow | None:
        rows = await self._read(queries.TICKET, ticket_id)
        return port.TicketRow(*rows[0]) if rows else None

    async def alive(self, root_id: str) -> int:
        return int((await self._read(queries.ALIVE, root_id, root_id))[0][0])

    async def unseen_requirements(self, seen: Sequence[str], root_id: str | None = None) -> dict[str, str]:
        tree = [root_id] * 4 if root_id else []
        rows = await self._read(queries.unseen(tree=bool(tree)), list(seen), *tree)
        return {row[0]: row[1] for row in rows}

    async def requirement(self, digest: str) -> str | None:
        rows = await self._read(queries.REQUIREMENT, digest)
        return str(rows[0][0]) if rows else None

    async def definition(self, digest: str) -> str | None:
        rows = await self._read(queries.DEFINITION, digest)
        return str(rows[0][0]) if rows else None

    async def workers(self) -> list[port.WorkerRow]:
        return [port.WorkerRow(*row) for row in await self._read(queries.WORKERS)]

    async def busy(self) -> dict[str, int]:
        """How many runs each worker holds."""
        return {row[0]: row[1] for row in await self._read(queries.BUSY)}

    async def ahead(self, row: port.RunRow) -> dict[int, int]:
        """How many queued runs of which priority go before this one."""
        place = (row.priority, row.priority, row.due_at, row.due_at, row.id)
        return {row[0]: row[1] for row in await self._read(queries.AHEAD, *place)}

    async def owner_load(self, owner: str) -> tuple[int, int | None]:
        """How many runs of an owner run now, and how many may if that is said for this owner."""
        ((running, allowed),) = await self._read(queries.OWNER_LOAD, owner, owner)
        return running, allowed

    async def stats(self) -> port.Stats:
        tables = await self._look(self._dialect.tables)
        rows = {table: (await self._read(f"SELECT COUNT(*) FROM {table}"))[0][0] for table in sorted(tables)}
        rows.pop("alembic_version", None)
        return port.Stats(
            size=await self._look(self._dialect.size),
            rows=rows,
            statuses={row[0]: row[1] for row in await self._read(queries.STATUSES)},
            oldest_queued=(await self._read(queries.OLDEST_QUEUED))[0][0],
        )

    async def prunable(self, before: int) -> list[str]:
        """The roots of the trees that may be deleted, newest first: what reads a source goes before it."""
        return [row[0] for row in await self._read(queries.PRUNABLE, before, before)]

    async def expired(self) -> list[str]:
        return [row[0] for row in await self._read(queries.EXPIRED, await self.now())]

    async def now(self) -> int:
        default = self._clock.now_ms()
        if not self._clock.database:
            return default
        return await self._look(lambda connection: self._dialect.now(connection, default))

    async def _read(self, sql: str, *params: object) -> list[Row]:
        return await self._look(lambda connection: self._dialect.read(connection, sql, params))

    async def _look(self, read: Callable[[Any], T]) -> T:
        if self._pool is None:
            return await self._writer.look(read)
        if self._closed or self._writer.halted:
            raise StoreClosed
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._on_reader, read)

    def _on_reader(self, read: Callable[[Any], T]) -> T:
        """Read on this thread's own connection; one that was lost is replaced once."""
        for last in (False, True):
            try:
                return read(self._connection())
            except Exception as error:
                if not self._dialect.is_error(error):
                    raise
                if last or not self._dialect.is_lost(error):
                    raise self._dialect.translate(error) from None
                self._connections.remove(self._local.connection)
                self._local.connection.close()
                del self._local.connection
        raise AssertionError

    def _connection(self) -> Any:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._dialect.connect()
            self._connections.append(connection)
        return connection
