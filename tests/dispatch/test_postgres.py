"""Notices between processes on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import psycopg
import pytest

from retinue import FunctionContext, Retinue, Run
from retinue.dispatch.postgres import CHANNEL, MOST_IDS, PostgresBus
from retinue.ports.bus import Notice
from retinue.ports.store import Commit
from tests.conftest import Postgres, eventually

pytestmark = pytest.mark.postgres
TO_LOOK_AT_EVERYTHING = Notice(queued=True)


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.database() as url:
        yield url


class Ear:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[Notice] = []

    async def hears(self, notice: Notice, times: int = 1) -> None:
        async def has_heard() -> bool:
            return self.heard.count(notice) >= times

        await eventually(has_heard)


@asynccontextmanager
async def listening(url: str, ear: Ear) -> AsyncIterator[PostgresBus]:
    bus = PostgresBus(url, ear.heard.append)
    await bus.listening.wait()
    yield bus
    await bus.close()


def signalled(*run_ids: str) -> Commit:
    return Commit(signalled=set(run_ids))


async def test_what_one_commits_the_others_hear_and_not_itself(url: str) -> None:
    mine, yours = Ear(), Ear()
    async with listening(url, mine) as me, listening(url, yours):
        me.committed(Commit(queued=True, roots={"run_2": "run_1"}, signalled={"run_3"}))
        await yours.hears(Notice(queued=True, signalled=("run_3",), roots=("run_1",)))
    assert mine.heard == [TO_LOOK_AT_EVERYTHING]


async def test_many_commits_are_few_notices(url: str) -> None:
    ear = Ear()
    async with listening(url, Ear()) as me, listening(url, ear):
        for number in range(1000):
            me.committed(signalled(f"run_{number % 7}"))
        me.committed(signalled("run_7"))

        async def has_heard_all() -> bool:
            return {run_id for notice in ear.heard for run_id in notice.signalled} == {f"run_{n}" for n in range(8)}

        await eventually(has_heard_all)
    assert len(ear.heard) <= 3


async def test_what_is_too_long_for_one_notice_comes_in_several(url: str) -> None:
    ear = Ear()
    run_ids = {f"run_{number:026}" for number in range(3 * MOST_IDS)}
    async with listening(url, Ear()) as me, listening(url, ear):
        me.committed(signalled(*run_ids))

        async def has_heard_all() -> bool:
            return {run_id for notice in ear.heard for run_id in notice.signalled} == run_ids

        await eventually(has_heard_all)


async def test_who_closes_at_once_has_said_it_all(url: str) -> None:
    ear = Ear()
    async with listening(url, ear):
        bus = PostgresBus(url, Ear().heard.append)
        bus.committed(signalled("run_1"))
        await bus.close()
        await ear.hears(Notice(signalled=("run_1",)))


async def test_who_was_cut_off_looks_at_everything_and_hears_again(url: str, postgres: Postgres) -> None:
    ear = Ear()
    async with listening(url, Ear()) as me, listening(url, ear) as you:
        you.listening.clear()
        postgres.hang_up(url)
        await you.listening.wait()
        await ear.hears(TO_LOOK_AT_EVERYTHING, times=2)
        await me.listening.wait()
        me.committed(signalled("run_1"))
        await ear.hears(Notice(signalled=("run_1",)))


async def test_what_nobody_can_read_is_passed_over(url: str) -> None:
    ear = Ear()
    async with listening(url, ear), listening(url, Ear()) as other:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_notify(%s, 'hello?')", (CHANNEL,))
        other.committed(signalled("run_1"))
        await ear.hears(Notice(signalled=("run_1",)))


async def hello(ctx: FunctionContext, input: str) -> str:
    return f"hello {await ctx.wait('name')}"


async def test_processes_hear_of_work_answers_and_ends_without_looking(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for look in ("hub.POLL_SECONDS", "worker.LOOK_SECONDS"):
        monkeypatch.setattr(f"retinue.engine.{look}", 3600)
    async with Retinue.open(url) as working, Retinue.open(url, worker=False) as asking:
        await working.worker.ready()
        run = await asking.submit(hello)
        seen = []
        async for event in run.follow():
            seen.append(event.type)
            if event.type == "ticket.opened":
                (ticket,) = await run.tickets()
                await asking.answer(ticket.id, "Ada")
        assert (await run.outcome()).output == "hello Ada"
        assert seen[-1] == "run.finished"
        run = await asking.submit(hello)
        end = asyncio.create_task(run.outcome())
        await eventually(partial(_asks, run))
        (ticket,) = await run.tickets()
        await asking.answer(ticket.id, "Eve")
        assert (await end).output == "hello Eve"


async def _asks(run: Run) -> bool:
    return bool(await run.tickets())
