"""The one writer of a process: a thread that puts what arrives while a commit is under way into the next one.

A batch that the database refuses as a whole is done again write by write, so that one bad write fails alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from retinue.errors import (
    DatabaseFull,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseUnavailable,
    StoreClosed,
    StoreError,
)
from retinue.ports.clock import Clock
from retinue.ports.store import Commit, Write
from retinue.store.clock import DatabaseClock
from retinue.store.transaction import Row, Transaction
from retinue.store.writes.batch import Batch
from retinue.store.writes.execute import execute

LARGEST_BATCH = 512
# What is wrong with the database is wrong for every write: trying each alone would only take longer.
FOR_ALL = (DatabaseFull, DatabaseLocked, DatabaseReadOnly, DatabaseUnavailable)
T = TypeVar("T")


class Dialect(Protocol):
    """What differs between databases."""

    name: str
    url: str
    shared: bool
    readers: int

    def exists(self) -> bool: ...
    def connect(self) -> Any: ...
    def now(self, connection: Any, default: int) -> int: ...
    def begin(self, connection: Any, now: int, *, database_time: bool) -> Transaction: ...
    def commit(self, connection: Any) -> None: ...
    def rollback(self, connection: Any) -> None: ...
    def read(self, connection: Any, sql: str, params: Sequence[object]) -> list[Row]: ...
    def tables(self, connection: Any) -> set[str]: ...
    def size(self, connection: Any) -> int: ...
    def lock_schema(self, connection: Any) -> None: ...
    def migration_url(self) -> str: ...
    def translate(self, error: BaseException) -> StoreError: ...
    def is_error(self, error: BaseException) -> bool: ...
    def is_lost(self, error: BaseException) -> bool: ...
    def is_race(self, error: BaseException) -> bool: ...


class Halted(BaseException):
    """The process is held to be dead from here on (see `retinue.testing`)."""


Checkpoint = Callable[[str, Sequence[Write]], Sequence[Write] | None]
"""Told when a commit begins (what it gives is written instead), and before and after it. May raise `Halted`."""
Job = tuple[Write | Callable[[Any], object], "asyncio.Future[Any]"]


class Writer:
    """Takes writes from the loop, commits them in groups, gives each its own answer."""

    def __init__(self, dialect: Dialect, connection: Any, clock: Clock) -> None:
        self._dialect, self._connection, self._clock = dialect, connection, clock
        self.clock = DatabaseClock(clock)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._closed = False
        self.halted = False
        self._loop = asyncio.get_running_loop()
        self.listeners: list[Callable[[Commit], None]] = []
        self.checkpoint: Checkpoint | None = None
        self.commits = 0

    def start(self) -> None:
        self._thread = Thread(target=self._work, name="retinue-writer", daemon=True)
        self._thread.start()

    async def do(self, write: Write) -> Any:
        """Commit a write; give its answer once it is on disk."""
        return await self._enqueue(write)

    async def look(self, read: Callable[[Any], T]) -> T:
        """Read on the writer's own connection, between commits."""
        result: T = await self._enqueue(read)
        return result

    def _enqueue(self, job: Write | Callable[[Any], object]) -> asyncio.Future[Any]:
        if self._closed or self.halted:
            raise StoreClosed
        future: asyncio.Future[Any] = self._loop.create_future()
        self._jobs.put((job, future))
        return future

    async def close(self) -> None:
        """Commit what is waiting, then end the thread."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            if self._thread:
                await asyncio.to_thread(self._thread.join)

    # On the thread

    def _work(self) -> None:
        with contextlib.suppress(Halted):
            while jobs := self._gather():
                self._serve(jobs)
        with contextlib.suppress(Exception):
            self._dialect.rollback(self._connection)
        with contextlib.suppress(Exception):
            self._connection.close()

    def _gather(self) -> list[Job]:
        first = self._jobs.get()
        jobs = [] if first is None else [first]
        while first is not None and len(jobs) < LARGEST_BATCH:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            jobs.append(job)
        return jobs

    def _serve(self, jobs: list[Job]) -> None:
        writes: list[tuple[Write, asyncio.Future[Any]]] = []
        reads: list[tuple[Callable[[Any], object], asyncio.Future[Any]]] = []
        for job, future in jobs:
            if callable(job):
                reads.append((job, future))
            else:
                writes.append((job, future))
        answers: list[tuple[asyncio.Future[Any], object]] = []
        commits: list[Commit] = []
        if writes:
            self._commit(writes, answers, commits)
        for read, future in reads:
            try:
                answers.append((future, read(self._connection)))
            except Exception as error:
                answers.append((future, self._as_ours(error)))
        self._loop.call_soon_threadsafe(self._deliver, answers, commits)

    def _commit(
        self,
        writes: list[tuple[Write, asyncio.Future[Any]]],
        answers: list[tuple[asyncio.Future[Any], object]],
        commits: list[Commit],
        *,
        again: bool = False,
    ) -> None:
        try:
            batch = self._transact([write for write, _ in writes])
        except Exception as error:
            self._recover(error)
            ours = self._as_ours(error)
            if len(writes) == 1 and not again and self._dialect.is_race(error):
                self._commit(writes, answers, commits, again=True)
                return
            if len(writes) == 1 or type(ours) in FOR_ALL:
                answers.extend((future, ours) for _, future in writes)
                return
            for alone in writes:
                self._commit([alone], answers, commits)
            return
        commits.append(batch.commit)
        answers.extend((future, batch.results.get(id(write))) for write, future in writes)

    def _transact(self, writes: Sequence[Write]) -> Batch:
        if self.checkpoint:
            writes = self._check("begin", writes) or writes
        batch = execute(self._begin(), writes)
        if self.checkpoint:
            self._check("before", writes)
        self._dialect.commit(self._connection)
        self.commits += 1
        if self.checkpoint:
            self._check("after", writes)
        return batch

    def _begin(self) -> Transaction:
        try:
            return self._try_to_begin()
        except Exception as error:
            if not self._dialect.is_lost(error):
                raise
            self._connection.close()
        self._connection = self._dialect.connect()  # nothing was under way, so nothing is in doubt
        return self._try_to_begin()

    def _try_to_begin(self) -> Transaction:
        asked = self._clock.now_ms()
        tx = self._dialect.begin(self._connection, asked, database_time=self._clock.database)
        self.clock.told(asked, tx.now)
        return tx

    def _check(self, when: str, writes: Sequence[Write]) -> Sequence[Write] | None:
        assert self.checkpoint
        try:
            return self.checkpoint(when, writes)
        except Halted:
            self.halted = True
            self.checkpoint("halted", ())
            raise

    def _recover(self, error: Exception) -> None:
        with contextlib.suppress(Exception):
            self._dialect.rollback(self._connection)
        if self._dialect.is_lost(error):
            self._connection.close()

    def _as_ours(self, error: Exception) -> Exception:
        return self._dialect.translate(error) if self._dialect.is_error(error) else error

    # On the loop again

    def _deliver(self, answers: list[tuple[asyncio.Future[Any], object]], commits: list[Commit]) -> None:
        if self.halted:
            return
        for commit in commits:
            for listener in self.listeners:
                listener(commit)
        for future, answer in answers:
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
