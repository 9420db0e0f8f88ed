"""What a question costs from the moment it is asked: service, engine, database and the model's request together."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.mock_server import receipts
from retinue import Delta, Retinue
from retinue.core.outcome import Status
from retinue.ids import new_id
from retinue.ports.models import Model
from retinue.store.sql import SqlStore

OWNER = "bench"
Models = Mapping[str, Model]


async def submit_to_request(url: str, models: Models, server: str, count: int) -> float:
    """Milliseconds from the submit until the model has the whole request, the median."""
    took = []
    async with Retinue.open(url, models=models) as app:
        for _ in range(count):
            receipts(server)
            began = time.monotonic()
            run = await app.submit("model:one", "hello")
            await run.outcome()
            took.append((receipts(server)[0] - began) * 1000)
            await asyncio.sleep(0)
    return statistics.median(took)


async def submit_to_word(url: str, models: Models, count: int) -> float:
    """Milliseconds from the submit until a reader has the first word, the median."""
    took = []
    async with Retinue.open(url, models=models) as app:
        for _ in range(count):
            began = time.perf_counter()
            run = await app.submit("model:one", "hello")
            async for seen in run.follow():
                if isinstance(seen, Delta):
                    took.append((time.perf_counter() - began) * 1000)
                    break
            await run.outcome()
    return statistics.median(took)


async def at_once(url: str, models: Models, runs: int, concurrency: int) -> float:
    """Durable runs of one call a second, so many at once; every one of them is looked at afterwards."""
    async with Retinue.open(url, models=models, concurrency=concurrency) as app:
        place = asyncio.Semaphore(concurrency)

        async def one(n: int) -> None:
            async with place:
                outcome = await (await app.submit("model:one", f"question {n}", owner=OWNER)).outcome()
                assert outcome.status is Status.COMPLETED, outcome

        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for n in range(runs):
                tasks.create_task(one(n))
        seconds = time.perf_counter() - began
        assert (await app.service.stats()).statuses == {"completed": runs}
    return runs / seconds


async def on_a_long_branch(url: str, models: Models, server: str, branch: int, thread: int, count: int) -> float:
    """Milliseconds from a new message on a long branch of a large thread until the model has it, the median."""
    took = []
    async with Retinue.open(url, models=models) as app:
        run = await app.submit("model:one", "the first of them", owner=OWNER)
        await run.outcome()
        row = await run.row()
        assert row.thread_id
        assert row.message_id
        leaf = await _fill(app, row.thread_id, row.message_id, branch, thread)
        for _ in range(count):
            receipts(server)
            began = time.monotonic()
            again = await app.submit("model:one", "and now?", thread=row.thread_id, parent=leaf, owner=OWNER)
            outcome = await again.outcome()
            assert outcome.status is Status.COMPLETED, outcome
            took.append((receipts(server)[0] - began) * 1000)
    return statistics.median(took)


async def _fill(app: Retinue, thread_id: str, leaf: str, branch: int, thread: int) -> str:
    """Messages by hand, as nobody would say them: a branch from a leaf, and many beside it. The new leaf."""
    store = app.services.store
    assert isinstance(store, SqlStore)
    rows, at = [], leaf
    for n in range(branch - 2):
        message = new_id("msg")
        author = OWNER if n % 2 == 0 else "model:one"
        author = f"user:{author}" if n % 2 == 0 else author
        rows.append((message, thread_id, at, author, '[{"kind":"text","text":"some words that somebody said"}]', 0))
        at = message
    beside = [
        (new_id("msg"), thread_id, leaf, f"user:{OWNER}", '[{"kind":"text","text":"something else"}]', 0)
        for _ in range(thread - branch)
    ]
    sql = "INSERT INTO messages (id, thread_id, parent_id, participant, parts, created_at) VALUES (?, ?, ?, ?, ?, ?)"
    await store._writer.look(lambda connection: connection.executemany(sql, rows + beside))
    return at


def first_reply_seconds(folder: Path, server: str) -> float:
    """Seconds of a whole `retinue run` against a server that answers at once, from the start of the process."""
    environment = {**os.environ, "OPENAI_BASE_URL": server, "OPENAI_API_KEY": "none"}
    command = [sys.executable, "-m", "retinue", "run", "model:openai:say-5", "hello", "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    assert '"status":"completed"' in done.stdout, done.stdout
    return seconds
