"""What is asked all the time costs the same, however much there is: every statement finds its rows by an index."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.store.sqlite import SqliteDialect
from retinue.testing import SetClock, drain
from tests.outside import outside, pass_time

# These hold one row for each kind of thing, or what a statement has found so far.
SMALL = {"workers", "requirements", "limits", "json_each", "b", "below", "branch"}
OF_WHAT_LIVES = {"runs_to_claim", "runs_of_worker", "runs_to_wake", "tickets_open", "threads_dropped"}
LIST_FOR_PEOPLE = "ORDER BY id DESC LIMIT"


async def everything(ctx: FunctionContext, input: Any) -> Any:
    await ctx.step("write", outside.act)
    await ctx.sleep(seconds=1)
    beside = await ctx.start("function:tests.contract.test_plans:child")
    await ctx.child("model:test", "hello")
    await beside.outcome()
    return await ctx.wait("name", expires_in=3600)


async def child(ctx: FunctionContext, input: Any) -> None:
    await ctx.sleep(seconds=1)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that SQLite is asked from now on."""
    asked: list[str] = []
    connect = SqliteDialect.connect

    def listened_to(self: SqliteDialect) -> sqlite3.Connection:
        connection = connect(self)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(SqliteDialect, "connect", listened_to)
    return asked


async def test_nothing_that_is_asked_all_the_time_reads_a_whole_table(
    statements: list[str], file_url: str, clock: SetClock, tmp_path: Path
) -> None:
    async with Retinue.open(file_url, clock=clock, owner_limit=5) as app:
        statements.clear()
        run = await app.submit(everything, idempotency_key="k", owner="ann", expires_at=clock.now_ms() + 9_000_000)
        said = await app.submit("model:test", "hello")
        await drain(app)
        for _ in range(3):
            await pass_time(app, clock, 1)
            await app.worker.renew()
            await app.worker.learn()
            await app.worker.look()
        await run.pause()
        await drain(app)
        await run.resume()
        async for _ in said.follow(tree=True):
            pass
        (ticket,) = await run.tickets()
        await app.answer(ticket.id, "Ada")
        await run.outcome()
        await (await app.submit(everything)).cancel()
        await run.retry()
        await drain(app)
    with sqlite3.connect(tmp_path / "retinue.db") as connection:
        read_whole = {
            (detail, " ".join(statement.split()))
            for statement in set(statements)
            if statement.startswith(("SELECT", "WITH", "UPDATE", "DELETE")) and LIST_FOR_PEOPLE not in statement
            for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}")
            if _is_whole(detail)
        }
    assert not read_whole


def _is_whole(detail: str) -> bool:
    found = re.match(r"SCAN ([a-z]\w*)(?: USING (?:COVERING )?INDEX (\w+))?", detail)
    return found is not None and found[1] not in SMALL and found[2] not in OF_WHAT_LIVES
