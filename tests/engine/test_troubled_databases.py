"""A database that takes nothing for a while: who asks is told, what runs waits, nothing that was done is forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from typing import Any

import psycopg
import pytest

from retinue import FunctionContext, Retinue
from retinue.errors import DatabaseFull, DatabaseLocked, DatabaseReadOnly, StoreError
from retinue.store.sql import SqlStore
from retinue.testing import SetClock
from tests.contract.steps import by_hand
from tests.contract.test_bad_databases import FILL, FREE
from tests.outside import outside, types_of

Trouble = Callable[[SqlStore], AbstractAsyncContextManager[None]]
LARGE = "x" * 100_000  # more than there is room for in what is left of a page


async def work(ctx: FunctionContext, input: Any) -> int:
    return len(await ctx.step("write", outside.wait_at_door, LARGE))


@asynccontextmanager
async def read_only(store: SqlStore) -> AsyncIterator[None]:
    sql = "PRAGMA query_only = {}" if _is_sqlite(store) else "SET default_transaction_read_only = {}"
    await by_hand(store, sql.format("on"))
    yield
    await by_hand(store, sql.format("off"))


@asynccontextmanager
async def full(store: SqlStore) -> AsyncIterator[None]:
    for sql in ["PRAGMA max_page_count = 1"] if _is_sqlite(store) else FILL:
        await by_hand(store, sql)
    yield
    for sql in ["PRAGMA max_page_count = 100000"] if _is_sqlite(store) else FREE:
        await by_hand(store, sql)


@asynccontextmanager
async def locked(store: SqlStore) -> AsyncIterator[None]:
    if _is_sqlite(store):
        await by_hand(store, "PRAGMA busy_timeout = 20")
        with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
    else:
        await by_hand(store, "SET lock_timeout = '20ms'")
        with psycopg.connect(store.url) as other:
            other.execute("LOCK TABLE events IN EXCLUSIVE MODE")
            yield


def _is_sqlite(store: SqlStore) -> bool:
    return store.url.startswith("sqlite")


@pytest.mark.parametrize(
    ("trouble", "error"), [(read_only, DatabaseReadOnly), (full, DatabaseFull), (locked, DatabaseLocked)]
)
async def test_a_database_that_takes_nothing_for_a_while_forgets_no_step(
    shared_url: str, clock: SetClock, trouble: Trouble, error: type[StoreError]
) -> None:
    async with Retinue.open(shared_url, clock=clock, grace=0) as app:
        store = app.services.store
        assert isinstance(store, SqlStore)
        run = await app.submit(work)
        await outside.at_door.wait()
        async with trouble(store):
            outside.door.set()
            with pytest.raises(error):
                await app.submit(work, LARGE)
            assert (await types_of(run))[-1] == "tool.started"
        assert (await run.outcome()).output == len(LARGE)
        assert (await app.run(work)).output == len(LARGE)
        assert [(row.attempt, row.crashes) for row in await app.service.runs()] == [(1, 0)] * 2
    assert len(outside.done) == 2
