"""What a question costs from the moment it is asked: service, engine, database and the model's request together."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import floor
from bench.measure import Figure
from bench.mock_server import mock_server, receipts
from bench.models import OURS, WAYS
from retinue import Delta, Retinue
from retinue.core.outcome import Status
from retinue.ids import new_id
from retinue.models.config import ProviderConfig
from retinue.settings import Settings
from retinue.store.sql import SqlStore

OWNER = "bench"
FLOOR = floor.NAME
BRANCH, THREAD = 1_000, 100_000
FIRST = "submit to the model's receipt of the request, p50"
WORD = "submit to the first word at a reader, p50"
MANY = "200 concurrent durable runs of one call over HTTP"
LONG = f"a new message on a branch of {BRANCH:,} in a thread of {THREAD:,}, to the model's receipt, p50"
REPLY = "retinue run, whole process, answer complete"
UNITS = {
    FIRST: ("ms", "≤ 5"),
    WORD: ("ms", ""),
    MANY: ("runs/s", "≥ 1,000"),
    LONG: ("ms", "≤ 20"),
    REPLY: ("s", "≤ 0.7"),
}


@dataclass(frozen=True)
class Way:
    """Whom the questions go to: a provider, and where it is."""

    provider: str
    server: str

    @property
    def target(self) -> str:
        return f"model:{self.provider}:say-5"

    @property
    def settings(self) -> Settings:
        return Settings(providers={self.provider: ProviderConfig(base_url=self.server, api_key="none")})


def figures(rounds: int, runs: int, fresh: Callable[[], str]) -> list[Figure]:
    """Every row for every way of asking a model."""
    values: dict[tuple[str, str], list[float]] = {}
    with mock_server() as server:
        for _ in range(rounds):
            for what, value in _floor(server, fresh, runs).items():
                values.setdefault((what, FLOOR), []).append(value)
            for who, provider in WAYS.items():
                way = Way(provider, server)
                found = {
                    FIRST: asyncio.run(submit_to_request(fresh(), way, 100)),
                    WORD: asyncio.run(submit_to_word(fresh(), way, 100)),
                    MANY: asyncio.run(at_once(fresh(), way, runs, 200)),
                    LONG: asyncio.run(on_a_long_branch(fresh(), way, 20)),
                    REPLY: first_reply(way),
                }
                for what, value in found.items():
                    values.setdefault((what, who), []).append(value)
    order = {what: n for n, what in enumerate(UNITS)}
    rows = sorted(values.items(), key=lambda row: order[row[0][0]])
    return [
        Figure(f"{what}: {who}", found, UNITS[what][0], UNITS[what][1] if who == OURS else "")
        for (what, who), found in rows
    ]


def _floor(server: str, fresh: Callable[[], str], runs: int) -> dict[str, float]:
    """Every row without us."""
    return {
        FIRST: asyncio.run(floor.submit_to_request(fresh(), server, 100)),
        WORD: asyncio.run(floor.submit_to_word(fresh(), server, 100)),
        MANY: asyncio.run(floor.at_once(fresh(), server, runs, 200)),
        LONG: asyncio.run(floor.on_a_long_branch(fresh(), server, 20)),
        REPLY: floor.first_reply(server),
    }


async def submit_to_request(url: str, way: Way, count: int) -> float:
    """Milliseconds from the submit until the model has the whole request, the median."""
    took = []
    async with Retinue.open(url, settings=way.settings) as app:
        for _ in range(count):
            receipts(way.server)
            began = time.monotonic()
            await (await app.submit(way.target, "hello")).outcome()
            took.append((receipts(way.server)[0] - began) * 1000)
    return statistics.median(took)


async def submit_to_word(url: str, way: Way, count: int) -> float:
    """Milliseconds from the submit until a reader has the first word, the median."""
    took = []
    async with Retinue.open(url, settings=way.settings) as app:
        for _ in range(count):
            began = time.perf_counter()
            run = await app.submit(way.target, "hello")
            async for seen in run.follow():
                if isinstance(seen, Delta) or seen.type == "model.responded":
                    took.append((time.perf_counter() - began) * 1000)
                    break
            await run.outcome()
    return statistics.median(took)


async def at_once(url: str, way: Way, runs: int, concurrency: int) -> float:
    """Durable runs a second, so many under way at once; every one of them is looked at afterwards."""
    async with Retinue.open(url, settings=way.settings, concurrency=concurrency) as app:
        place = asyncio.Semaphore(concurrency)

        async def one(n: int) -> None:
            async with place:
                outcome = await app.run(way.target, f"question {n}", owner=OWNER)
                assert outcome.status is Status.COMPLETED, outcome

        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for n in range(runs):
                tasks.create_task(one(n))
        seconds = time.perf_counter() - began
        assert (await app.service.stats()).statuses == {"completed": runs}
    return runs / seconds


async def on_a_long_branch(url: str, way: Way, count: int) -> float:
    """Milliseconds from a new message on a long branch of a large thread until the model has it, the median."""
    took = []
    async with Retinue.open(url, settings=way.settings) as app:
        run = await app.submit(way.target, "the first of them", owner=OWNER)
        await run.outcome()
        row = await run.row()
        assert row.thread_id
        assert row.message_id
        leaf = await _fill(app, row.thread_id, row.message_id, way.target)
        for _ in range(count):
            receipts(way.server)
            began = time.monotonic()
            outcome = await app.run(way.target, "and now?", thread=row.thread_id, parent=leaf, owner=OWNER)
            assert outcome.status is Status.COMPLETED, outcome
            took.append((receipts(way.server)[0] - began) * 1000)
    return statistics.median(took)


async def _fill(app: Retinue, thread_id: str, at: str, target: str) -> str:
    """Messages by hand: a branch that goes on from a leaf, and many beside it. The new leaf."""
    store = app.services.store
    assert isinstance(store, SqlStore)
    words = '[{"kind":"text","text":"some words that somebody said about this and that"}]'
    rows, root = [], at
    for n in range(BRANCH - 2):
        message = new_id("msg")
        rows.append((message, thread_id, at, target if n % 2 else f"user:{OWNER}", words, 0))
        at = message
    rows += [(new_id("msg"), thread_id, root, f"user:{OWNER}", words, 0) for _ in range(THREAD - BRANCH)]
    sql = "INSERT INTO messages (id, thread_id, parent_id, participant, parts, created_at) VALUES (?, ?, ?, ?, ?, ?)"

    def insert(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(sql, rows)
        connection.execute("COMMIT")

    await store._writer.look(insert)
    return at


def first_reply(way: Way) -> float:
    """Seconds of a whole `retinue run` in a new folder, from the start of the process to its end."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        settings = f'[providers.{way.provider}]\nbase_url = "{way.server}"\napi_key = ""\n'
        (Path(folder) / "retinue.toml").write_text(settings)
        command = [sys.executable, "-m", "retinue", "run", way.target, "hello", "--json"]
        began = time.perf_counter()
        done = subprocess.run(command, cwd=folder, env={**os.environ}, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - began
    assert '"status":"completed"' in done.stdout, done.stdout
    return seconds
