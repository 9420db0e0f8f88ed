"""Databases that are not as they should be: each says what is wrong and what to do, and nothing is half stored."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import psycopg
import pytest

from retinue import errors
from retinue.ports.clock import SystemClock
from retinue.store.sql import SqlStore, open_store
from retinue.testing.clock import SetClock
from tests.conftest import Postgres

from .steps import by_hand, draft, gapless, held, new_run, note, queued, together


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "retinue.db"


@asynccontextmanager
async def opened(url: str | Path) -> AsyncIterator[SqlStore]:
    store = await open_store(f"sqlite:///{url}" if isinstance(url, Path) else url, SystemClock())
    try:
        yield store
    finally:
        await store.close()


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "retinue.db"
    with pytest.raises(errors.DatabaseMissing, match="nowhere does not exist"):
        await open_store(f"sqlite:///{missing}", SystemClock())
    assert not missing.parent.exists()


async def test_a_folder_is_not_a_database(tmp_path: Path) -> None:
    with pytest.raises(errors.DatabaseMissing):
        await open_store(f"sqlite:///{tmp_path}", SystemClock())


async def test_another_file_is_left_as_it_is(file: Path) -> None:
    file.write_text("Dear diary, " * 200)
    with pytest.raises(errors.NotADatabase, match="RETINUE_DATABASE_URL"):
        await open_store(f"sqlite:///{file}", SystemClock())
    assert file.read_text() == "Dear diary, " * 200
    assert list(file.parent.iterdir()) == [file]


async def test_a_database_of_something_else_is_left_as_it_is(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE diary (day TEXT)")
    before = file.read_bytes()
    with pytest.raises(errors.NotADatabase, match="diary"):
        await open_store(f"sqlite:///{file}", SystemClock())
    assert file.read_bytes() == before


@pytest.mark.postgres
async def test_a_postgres_database_of_something_else_is_left_as_it_is(postgres: Postgres) -> None:
    with postgres.bare() as url:
        postgres.execute("CREATE TABLE diary (day TEXT)", url=url)
        with pytest.raises(errors.NotADatabase, match="diary"):
            await open_store(url, SystemClock())


async def test_a_file_that_cannot_be_written_says_so_and_can_be_read(file: Path) -> None:
    async with opened(file) as store:
        run_id = await queued(store)
    async with opened(f"sqlite:///{file}?mode=ro") as store:
        with pytest.raises(errors.DatabaseReadOnly, match="permissions"):
            await queued(store)
        assert [row.id for row in await store.runs()] == [run_id]


async def test_a_new_file_that_cannot_be_written_says_so(file: Path) -> None:
    file.touch()
    with pytest.raises(errors.DatabaseReadOnly):
        await open_store(f"sqlite:///{file}?mode=ro", SystemClock())


@pytest.mark.postgres
async def test_a_postgres_database_that_cannot_be_written_says_so(postgres: Postgres) -> None:
    with postgres.database() as url:
        async with opened(f"{url}&options=-cdefault_transaction_read_only%3Don") as store:
            with pytest.raises(errors.DatabaseReadOnly):
                await queued(store)
            assert await store.runs() == []


async def test_a_lock_that_is_held_too_long_is_named(file: Path) -> None:
    async with opened(f"sqlite:///{file}?timeout=0.05") as store:
        run = await held(store)
        with locked(file):
            with pytest.raises(errors.DatabaseLocked, match=r"0\.05 s"):
                await queued(store)
            assert len(await store.events(run.id)) == 2
        await run.work()
        assert len(await store.runs()) == 1


@pytest.mark.postgres
async def test_a_postgres_lock_that_is_held_too_long_is_named(postgres: Postgres) -> None:
    with postgres.database() as url:
        async with opened(url) as store:
            run = await held(store)
            await by_hand(store, "SET lock_timeout = '20ms'")
            with psycopg.connect(url) as other:
                other.execute("SELECT 1 FROM runs FOR UPDATE")
                with pytest.raises(errors.DatabaseLocked, match="locked"):
                    await run.work()
                assert len(await store.events(run.id)) == 2
            await run.work()
            await gapless(store, run.id)


async def test_a_database_that_is_locked_from_the_start_says_so(file: Path) -> None:
    file.touch()
    with locked(file), pytest.raises(errors.DatabaseLocked):
        await open_store(f"sqlite:///{file}?timeout=0.05", SystemClock())


async def test_a_lock_that_is_given_back_in_time_is_waited_for(file: Path) -> None:
    async with opened(file) as store:
        with locked(file):
            waiting = asyncio.ensure_future(queued(store))
            await asyncio.sleep(0)
        assert await store.run(await waiting)


def locked(file: Path) -> closing[sqlite3.Connection]:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    return closing(connection)


# Full


@pytest.fixture(params=["memory", "sqlite"])
async def small(request: pytest.FixtureRequest, file: Path, clock: SetClock) -> AsyncIterator[SqlStore]:
    store = await open_store("sqlite://" if request.param == "memory" else f"sqlite:///{file}", clock)
    yield store
    await store.close()


async def test_a_full_database_takes_nothing_and_goes_on_when_there_is_room(small: SqlStore) -> None:
    run = await held(small)
    await by_hand(small, "PRAGMA max_page_count = 1")  # as many as there are
    big = note("x" * 100_000)
    with pytest.raises(errors.DatabaseFull, match="what was accepted before is safe"):
        await run.append(big)
    assert len(await small.events(run.id)) == 2
    await by_hand(small, "PRAGMA max_page_count = 100000")
    await run.append(big)
    await gapless(small, run.id)


async def test_all_that_shares_a_commit_with_what_does_not_fit_fails_whole(small: SqlStore) -> None:
    run = await held(small)
    await by_hand(small, "PRAGMA max_page_count = 1")
    big = new_run(queued=draft(note("x" * 100_000)))
    answers = await together(small, run.work(), small.submit(big))
    assert [type(answer) for answer in answers] == [errors.DatabaseFull] * 2
    assert ([row.id for row in await small.runs()], len(await small.events(run.id))) == ([run.id], 2)


FILL = (  # what a server says whose disk is full
    "CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$",
    "CREATE TRIGGER disk_full BEFORE INSERT ON events EXECUTE FUNCTION disk_full()",
)
FREE = ("DROP FUNCTION disk_full CASCADE",)


@pytest.mark.postgres
async def test_a_full_postgres_takes_nothing_and_goes_on_when_there_is_room(postgres: Postgres) -> None:
    with postgres.database() as url:
        async with opened(url) as store:
            run = await held(store)
            postgres.execute(*FILL, url=url)
            answers = await together(store, run.work(), store.submit(new_run()))
            assert [type(answer) for answer in answers] == [errors.DatabaseFull] * 2
            assert ([row.id for row in await store.runs()], len(await store.events(run.id))) == ([run.id], 2)
            postgres.execute(*FREE, url=url)
            await run.work()
            await gapless(store, run.id)


@pytest.mark.postgres
def test_a_full_postgres_is_told_from_one_that_is_away() -> None:
    from retinue.store.postgres import PostgresDialect

    dialect = PostgresDialect("postgresql://ann:secret@db/retinue")
    full = dialect.translate(psycopg.errors.DiskFull("could not extend file"))
    assert isinstance(full, errors.DatabaseFull)
    assert "postgresql://ann@db/retinue has no room: could not extend file" in str(full)
    assert not dialect.is_lost(psycopg.errors.DiskFull())
    assert dialect.is_lost(psycopg.errors.AdminShutdown())


# Away


async def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(errors.DatabaseUnavailable, match="cannot be reached") as caught:
        await open_store(f"postgresql://ann:secret@/retinue?host={tmp_path}", SystemClock())
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
async def test_an_unknown_database_name_is_said_to_be_unknown(postgres: Postgres) -> None:
    url = postgres.url.replace("/postgres?", "/nowhere?")
    with pytest.raises(errors.DatabaseMissing, match='database "nowhere" does not exist'):
        await open_store(url, SystemClock())


@pytest.mark.postgres
async def test_a_connection_that_was_lost_while_idle_is_replaced(postgres: Postgres) -> None:
    with postgres.database() as url:
        async with opened(url) as store:
            run_id = await queued(store)
            await store.run(run_id)
            postgres.hang_up(url)
            assert await store.run(run_id)
            assert await queued(store)


@pytest.mark.postgres
async def test_a_write_whose_connection_is_lost_fails_and_can_be_sent_again(postgres: Postgres) -> None:
    with postgres.database() as url:
        async with opened(url) as store:
            run = await held(store)
            store._writer.checkpoint = lambda when, _: postgres.hang_up(url) if when == "before" else None
            with pytest.raises(errors.DatabaseUnavailable):
                await run.work()
            store._writer.checkpoint = None
            await run.append(note("x"), again=True)
            await gapless(store, run.id)


@pytest.mark.postgres
async def test_a_process_that_slept_within_a_transaction_can_send_it_again(postgres: Postgres) -> None:
    def sleep(when: str, writes: object) -> None:
        if when == "before":
            store._writer._connection.execute("SET idle_in_transaction_session_timeout = '1ms'")
            while not postgres.alone(url):
                pass

    with postgres.database() as url:
        async with opened(url) as store:
            run = await held(store)
            store._writer.checkpoint = sleep
            with pytest.raises(errors.DatabaseUnavailable):
                await run.work()
            store._writer.checkpoint = None
            await run.append(note("x"), again=True)
            await gapless(store, run.id)


async def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(errors.BadInput, match="no database URL"):
        await open_store("mysql://ann@db/retinue", SystemClock())
