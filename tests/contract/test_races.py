"""Processes of their own on one database: nothing is done twice, nothing is lost, nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import psycopg
import pytest

from retinue.core.outcome import Waits
from retinue.ports.clock import SystemClock
from retinue.ports.store import Renew
from retinue.store import schema
from retinue.store.sql import SqlStore, dialect_of, open_store

from .racers import appender, breeder, claimer, decider, migrator, opener, quitter, race, signaller, submitter
from .steps import Held, child_started, claim, gapless, held, queued, ticket, together, types, worker


@pytest.fixture
async def store(shared_url: str) -> AsyncIterator[SqlStore]:
    before = deadlocks(shared_url)
    store = await open_store(shared_url, SystemClock())
    yield store
    await store.close()
    assert deadlocks(shared_url) == before  # the store would get over one, after a second


def deadlocks(url: str) -> int:
    """How often writes have waited for each other in a circle; SQLite has but one lock."""
    if url.startswith("sqlite"):
        return 0
    sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    with psycopg.connect(url) as connection:
        return int(connection.execute(sql).fetchall()[0][0])


async def test_a_run_is_claimed_by_one_process(store: SqlStore) -> None:
    queue = await together(store, *(queued(store) for _ in range(200)))
    first, second = await race(claimer, (store.url, "wrk_1", {}), (store.url, "wrk_2", {}))
    assert sorted(first + second) == sorted(map(str, queue))
    assert {(row.attempt, row.crashes) for row in await store.runs(limit=500)} == {(1, 0)}
    assert await types(store, str(queue[0])) == ["run.queued", "run.started"]


async def test_an_owners_limit_holds_for_all_processes_together(store: SqlStore) -> None:
    await together(store, *(queued(store, owner="ann") for _ in range(40)))
    rest = {"owner_limit": 7}
    claimed = await race(claimer, (store.url, "wrk_1", rest), (store.url, "wrk_2", rest))
    assert sum(map(len, claimed)) == 7


async def test_a_key_is_one_run_for_all_processes(store: SqlStore) -> None:
    keys = [str(n) for n in range(60)]
    first, second = await race(submitter, (store.url, keys), (store.url, keys[::-1]))
    assert first == second[::-1]
    assert len(await store.runs(limit=500)) == len(keys)


async def test_a_ticket_is_taken_by_one_process(store: SqlStore) -> None:
    run = await held(store)
    tickets = [f"tkt_{n}" for n in range(50)]
    await run.park(tickets=tuple(map(ticket, tickets)))
    first, second = await race(decider, (store.url, run.id, tickets), (store.url, run.id, tickets))
    assert sorted(first + second) == sorted(tickets)
    assert len(await store.signals(run.id, 0)) == len(tickets)


async def test_a_run_that_parks_between_signals_of_two_processes_hears_them_all(store: SqlStore) -> None:
    run = await held(store)
    await store.renew(Renew(worker=worker(), lease_ms=600_000))
    signals = race(signaller, (store.url, run.id, "a", 100), (store.url, run.id, "b", 100))
    sent = asyncio.ensure_future(signals)
    heard: list[tuple[str, str]] = []
    async with asyncio.timeout(15):  # who misses a signal waits for ever
        while len(heard) < 200:
            new = await store.signals(run.id, len(heard))
            heard += [(signal.kind, signal.data) for signal in new]
            if len(heard) < 200 and await run.park(Waits.INPUT, seen=len(heard)):
                run = await _woken(store)
    first, second = await sent
    assert sorted(first + second) == list(range(1, 201))
    assert [data for kind, data in heard if kind == "a"] == [str(n) for n in range(100)]
    assert [data for kind, data in heard if kind == "b"] == [str(n) for n in range(100)]
    await gapless(store, run.id)


async def _woken(store: SqlStore) -> Held:
    """Claim the run once somebody has woken it."""
    while not (await store.runs(status="queued") and (claimed := await claim(store))):
        pass
    return Held.just(store, *claimed)


async def test_a_hundred_appenders_of_two_processes_leave_no_hole(store: SqlStore) -> None:
    await store.renew(Renew(worker=worker(), lease_ms=600_000))
    await together(store, *(queued(store) for _ in range(4)))
    roots = [Held.just(store, claimed) for claimed in await claim(store)]
    for root in roots:
        below = [root.child(f"c{n}") for n in range(25)]
        await root.append(*map(child_started, below), children=tuple(below))
    children = [claimed.row.id for claimed in await claim(store, limit=200)]
    halves = children[::2], children[1::2]
    await race(appender, *((store.url, "wrk_1", half, 8) for half in halves))
    for root in roots:
        await gapless(store, root.id)
        kinds = [signal.kind for signal in await store.signals(root.id, 0)]
        assert (kinds.count("child"), kinds.count("steer")) == (25, 25)
        assert len(await store.tree(root.id)) == 51


async def test_a_child_that_is_started_while_another_process_cancels_its_run_is_refused_or_cancelled(
    store: SqlStore,
) -> None:
    await store.renew(Renew(worker=worker(), lease_ms=600_000))
    await together(store, *(queued(store) for _ in range(40)))
    roots = [claimed.row.id for claimed in await claim(store)]
    started, reached = await race(breeder, (store.url, roots, False), (store.url, roots, True))
    assert (reached, started) == (len(roots), sum([len(await store.children(root_id)) for root_id in roots]))
    for root_id in roots:
        assert {row.cancelled for row in await store.tree(root_id)} == {True}
        await gapless(store, root_id)


async def test_claiming_letting_go_and_signals_do_not_block_each_other(store: SqlStore) -> None:
    root = await held(store)
    for n in range(20):
        await root.start(f"c{n}")
    async with asyncio.timeout(60):
        await race(quitter, *((store.url, name, root.id, 100) for name in ("wrk_1", "")))
    await gapless(store, root.id)
    assert {row.crashes for row in await store.tree(root.id)} == {0}


async def test_processes_may_open_a_new_database_at_the_same_time(bare_url: str) -> None:
    await race(opener, *((bare_url,) for _ in range(3)))
    store = await open_store(bare_url, SystemClock())
    assert len(await store.runs()) == 3
    await store.close()


def test_processes_may_migrate_a_database_at_the_same_time(bare_url: str) -> None:
    asyncio.run(race(migrator, (bare_url,), (bare_url,)))
    dialect = dialect_of(bare_url)
    with closing(dialect.connect()) as connection:
        assert dialect.read(connection, "SELECT version_num FROM alembic_version", ()) == [(schema.HEAD,)]
