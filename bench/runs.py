"""Concurrent runs of three write steps, beside a bare writer that inserts the same rows in the same batches."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.functions import three
from retinue import Retinue
from retinue.core.run import fold
from retinue.ports.clock import SystemClock
from retinue.ports.store import Commit, Recorded
from retinue.store import schema
from retinue.store.sql import dialect_of
from retinue.store.writer import Dialect

CONCURRENT = 32

EVENT_COLUMNS = "run_id text, seq bigint, root_id text, root_seq bigint, attempt int, at bigint, type text, data text"
RUN_COLUMNS = (
    "id text, root_id text, depth int, owner text, target text, requires text, durability text, priority int, "
    "due_at bigint, status text, recovered bool, cause text, cancelled bool, attempt int, crashes int, "
    "last_seq bigint, tree_seq bigint, signal_seq bigint, created_at bigint"
)


@dataclass(slots=True)
class Load:
    """What one round did: how many runs in how long, and what each commit inserted."""

    runs: int
    seconds: float = 0.0
    batches: list[list[Recorded]] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return self.runs / self.seconds


async def run_load(url: str, runs: int) -> Load:
    """Submit runs, so that 32 are always under way, and wait for each; then verify every journal."""
    load = Load(runs)

    def keep(commit: Commit) -> None:
        if commit.events:
            load.batches.append(commit.events)

    async with Retinue.open(url, concurrency=CONCURRENT) as app:
        await app.run(three, 0)
        app.services.store.on_commit(keep)
        numbers = iter(range(runs))

        async def one_after_another() -> None:
            for number in numbers:
                outcome = await app.run(three, number)
                assert outcome.output == number

        started = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONCURRENT):
                tasks.create_task(one_after_another())
        load.seconds = time.perf_counter() - started
        await _verify(app, runs + 1)
    return load


async def _verify(app: Retinue, expected: int) -> None:
    seen, before = 0, None
    while rows := await app.service.runs(before=before, limit=500):
        for row in rows:
            state = fold(row.id, await app.service.events(row.id))
            assert state.outcome
            assert state.outcome.status == "completed", row
            assert [call.try_ for call in state.calls.values()] == [1, 1, 1], row
        seen, before = seen + len(rows), rows[-1].id
    assert seen == expected, f"{seen} of {expected} runs"


def bare_writer(url: str, batches: Sequence[Sequence[Recorded]], *, updates: bool) -> float:
    """Insert the same rows in the same batches, production schema and sync, and nothing around it; seconds.

    With `updates` the row of each run that has a new event is updated too, as any writer must to know where it is.
    """
    dialect = dialect_of(url)
    with closing(dialect.connect()) as connection:
        schema.prepare(dialect, connection)
        started = time.perf_counter()
        for batch in batches:
            _insert(dialect, connection, batch, updates=updates)
        return time.perf_counter() - started


def _insert(dialect: Dialect, connection: sqlite3.Connection, batch: Sequence[Recorded], *, updates: bool) -> None:
    tx = dialect.begin(connection, 0, database_time=False)
    runs = [
        (
            *(r.run_id, r.run_id, 0, "", "function:bench.functions:three", "x" * 32, "effects", 0),
            *(r.at, "done", False, "submit", False, 1, 0, 9, 9, 0, r.at),
        )
        for r in batch
        if r.type == "run.queued"
    ]
    if runs:
        tx.insert("runs", RUN_COLUMNS, runs)
    events = [(r.run_id, r.seq, r.run_id, r.root_seq, r.attempt, r.at, r.type, r.data) for r in batch]
    tx.insert("events", EVENT_COLUMNS, events)
    if updates:
        last = {r.run_id: r.seq for r in batch if r.type != "run.queued"}
        tx.rows(_UPDATE, "id text, last bigint", list(last.items()))
    dialect.commit(connection)


_UPDATE = "WITH b(id, last) AS ({rows}) UPDATE runs SET last_seq = b.last FROM b WHERE runs.id = b.id"


def bare_commit(url: str, times: int) -> float:
    """Seconds that one commit of one event row takes."""
    dialect = dialect_of(url)
    now = SystemClock().now_ms()
    with closing(dialect.connect()) as connection:
        schema.prepare(dialect, connection)
        started = time.perf_counter()
        for seq in range(times):
            row = ("run_" + "0" * 26, seq, "run_" + "0" * 26, seq, 1, now, "tool.finished", '{"call_id":"a","ok":true}')
            tx = dialect.begin(connection, 0, database_time=False)
            tx.insert("events", EVENT_COLUMNS, [row])
            dialect.commit(connection)
        return (time.perf_counter() - started) / times


def clear(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()
