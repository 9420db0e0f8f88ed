"""C6: reading a branch costs as much as the branch is long, however large its thread is. Work is counted, not timed."""

from __future__ import annotations

from typing import Any

import msgspec

from retinue.core.thread import order
from retinue.store import queries
from retinue.store.sql import SqlStore, open_store
from retinue.testing.clock import SetClock

MESSAGES = 100_000
SHORT, MIDDLE, LONG = 50, 25_000, 50_000
BOTH = (queries.BRANCH, queries.PATH)
COLUMNS = "id text, thread_id text, parent_id text, participant text, parts text, run_id text, created_at bigint"


def chain(name: str, length: int) -> list[tuple[object, ...]]:
    """A branch that goes straight down."""
    parts = '[{"kind":"text","text":"what somebody said"}]'
    return [
        (f"msg_{name}{n}", "thr_1", f"msg_{name}{n - 1}" if n else None, "user:ann", parts, None, n)
        for n in range(length)
    ]


async def fill(store: SqlStore, rows: list[tuple[object, ...]]) -> None:
    """By hand, all at once."""

    def insert(connection: Any) -> None:
        tx = store._dialect.begin(connection, 0, database_time=False)
        tx.insert("messages", COLUMNS, rows)
        store._dialect.commit(connection)
        connection.execute("ANALYZE messages")  # what counts rows in the background may have met none of these

    await store._writer.look(insert)


async def work(store: SqlStore, sql: str, leaf: str) -> int:
    """How much a database does for it: SQLite's steps in tens, the rows that PostgreSQL's plan touches."""
    return await store._look(_steps(sql, leaf) if store.url.startswith("sqlite") else _touched(sql, leaf))


def _steps(sql: str, leaf: str) -> Any:
    def look(connection: Any) -> int:
        seen = 0

        def count() -> None:
            nonlocal seen
            seen += 1

        connection.set_progress_handler(count, 10)
        connection.execute(sql, (leaf,)).fetchall()
        connection.set_progress_handler(None, 0)
        return seen

    return look


def _touched(sql: str, leaf: str) -> Any:
    def rows(plan: dict[str, Any]) -> float:
        mine = sum(plan.get(key, 0) for key in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter"))
        touched = float(mine * plan["Actual Loops"]) if "Scan" in plan["Node Type"] else 0.0
        return touched + sum(map(rows, plan.get("Plans", ())))

    def look(connection: Any) -> int:
        explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql.replace('?', '%s')}"
        ((found,),) = connection.execute(explain, (leaf,)).fetchall()
        return int(rows((msgspec.json.decode(found) if isinstance(found, str) else found)[0]["Plan"]))

    return look


async def test_C6_a_branch_is_read_in_as_many_steps_as_it_is_long(shared_url: str, clock: SetClock) -> None:
    store = await open_store(shared_url, clock)
    await fill(store, chain("s", SHORT))
    alone = {sql: await work(store, sql, f"msg_s{SHORT - 1}") for sql in BOTH}
    await fill(store, chain("l", MESSAGES - SHORT))
    assert (await store.stats()).rows["messages"] == MESSAGES
    for sql in BOTH:
        short = await work(store, sql, f"msg_s{SHORT - 1}")
        assert short <= 1.1 * alone[sql] + 5, "what else is in the thread costs nothing"
        if shared_url.startswith("postgres"):
            assert short <= 5 * SHORT
        middle, long = [await work(store, sql, f"msg_l{length - 1}") for length in (MIDDLE, LONG)]
        assert long <= 2.1 * middle
    last = f"msg_l{MESSAGES - SHORT - 1}"
    branch = order(await store.branch(last), last)
    assert (len(branch), branch[0].id, branch[1].parent_id) == (MESSAGES - SHORT, "msg_l0", "msg_l0")
    await store.close()
