"""The journal of an attempt: in order, whole, with large data as files and secrets by reference."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.engine.codec import LARGEST_INLINE
from retinue.errors import FileMissing
from retinue.files.local import LocalFiles, MemoryFiles
from retinue.ports.store import Store
from retinue.store.sql import SqlStore
from retinue.testing import SetClock, drain
from tests.outside import ended, outside, pass_time

LARGE = "ö" * (LARGEST_INLINE * 2 // 3)  # fewer characters than the limit, more bytes
SECRET = 'hunter2-"quoted"\n'


async def large(ctx: FunctionContext, input: Any) -> list[Any]:
    got = await ctx.step("large", outside.act, LARGE)
    await ctx.sleep(hours=1)
    return [got == LARGE, await ctx.step("again", outside.act, got) == LARGE]


async def test_what_is_large_goes_to_a_file_and_comes_back(shared_url: str, clock: SetClock, tmp_path: Path) -> None:
    async with Retinue.open(shared_url, clock=clock, files=LocalFiles(tmp_path / "files")) as app:
        run = await app.submit(large)
        await drain(app)
        await pass_time(app, clock, 3600)
        assert (await run.outcome()).output == [True, True]
        assert any(getattr(event.data, "result", None) == LARGE for event in await app.service.events(run.id))
        stored = await app.services.store.events(run.id)
    assert max(len(recorded.data) for recorded in stored) < 1000
    assert list((tmp_path / "files").rglob("*"))


async def test_a_file_that_is_missing_is_a_typed_error(clock: SetClock) -> None:
    files = MemoryFiles()
    async with Retinue.open("sqlite://", clock=clock, files=files) as app:
        run = await app.submit(large)
        await drain(app)
        files._files.clear()
        with pytest.raises(FileMissing, match="file:sha256"):
            await app.service.events(run.id)


class SlowFiles(MemoryFiles):
    """Takes a while, like a real store."""

    async def put(self, data: bytes) -> str:
        for _ in range(30):
            await asyncio.sleep(0)
        return await super().put(data)


async def beside(ctx: FunctionContext, input: Any) -> int:
    async def small() -> None:
        for n in range(20):
            await ctx.step("small", outside.act, n, effect="read", key=str(n))

    await asyncio.gather(ctx.step("large", outside.act, "x" * LARGEST_INLINE), small())
    return len(outside.done)


async def test_what_is_noted_while_a_large_event_is_stored_is_not_lost(clock: SetClock) -> None:
    async with Retinue.open("sqlite://", clock=clock, files=SlowFiles()) as app:
        run = await app.submit(beside)
        assert (await ended(app, run)).output == 21
        events = await app.service.events(run.id)
        assert [event.type for event in events].count("tool.finished") == 21


async def cut_off(ctx: FunctionContext, input: int) -> str:
    step = asyncio.create_task(ctx.step("write", outside.act))
    for _ in range(input):
        await asyncio.sleep(0)
    step.cancel()
    await asyncio.wait([step])
    await ctx.step("after", outside.act, "after")
    return "done"


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_a_step_that_the_code_cancels_while_it_is_written_leaves_the_journal_whole(
    app: Retinue, turns: int
) -> None:
    run = await app.submit(cut_off, turns)
    assert (await ended(app, run)).output == "done"
    assert (await ended(app, await run.retry())).status == "completed"


async def with_secret(ctx: FunctionContext, input: str) -> bool:
    got = await ctx.step("use", outside.act, f"Bearer {input}")
    await ctx.sleep(hours=1)
    return bool(await ctx.step("again", outside.act, got) == f"Bearer {SECRET}")


async def test_a_secret_is_never_in_the_database_and_always_in_the_step(
    shared_url: str, clock: SetClock, tmp_path: Path
) -> None:
    async with Retinue.open(shared_url, clock=clock, secrets={"TOKEN": SECRET}) as app:
        run = await app.submit(with_secret, SECRET)
        await drain(app)
        await pass_time(app, clock, 3600)
        assert (await run.outcome()).output is True
        shown = [repr(event) async for event in run.follow()]
        stored = await everything(app.services.store)
    assert outside.done == [f"Bearer {SECRET}"] * 2
    assert any("Bearer ${secret:TOKEN}" in text for text in shown)
    assert not any("hunter2" in text for text in shown)
    assert b"hunter2" not in b"".join(path.read_bytes() for path in tmp_path.glob("retinue.db*"))
    assert "hunter2" not in stored
    assert stored.count("${secret:TOKEN}") >= 4


async def everything(store: Store) -> str:
    """All rows of all tables."""
    assert isinstance(store, SqlStore)
    dialect = store._dialect

    def read(connection: Any) -> str:
        return repr([dialect.read(connection, f"SELECT * FROM {table}", ()) for table in dialect.tables(connection)])

    return await store._writer.look(read)


async def slow(ctx: FunctionContext, input: Any) -> str:
    await ctx.step("first", outside.wait_at_door, effect="read")
    await ctx.step("second", outside.act)
    return "done"


async def test_a_clock_that_jumps_back_leaves_seq_gapless(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(slow)
    await outside.at_door.wait()
    clock.advance(-3600)
    outside.door.set()
    assert (await ended(app, run)).output == "done"
    events = await app.service.events(run.id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].at < events[0].at


async def unreadable(ctx: FunctionContext, input: None) -> None:
    await ctx.step("huge", huge, effect="read")
    await ctx.wait("go on")


async def huge() -> str:
    return LARGE


async def test_a_run_whose_journal_cannot_be_read_any_more_is_ended(app: Retinue) -> None:
    run = await app.submit(unreadable)
    await drain(app)
    files = app.services.codec._files
    assert isinstance(files, MemoryFiles | LocalFiles)
    await lose_all(files)
    (ticket,) = await app.tickets()
    await app.answer(ticket.id, "now")
    await drain(app)
    outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == ("failed", "internal")
    assert outcome.error
    assert "Restore it" in outcome.error.message


async def lose_all(files: MemoryFiles | LocalFiles) -> None:
    if isinstance(files, MemoryFiles):
        files._files.clear()
    else:
        shutil.rmtree(files._folder)


async def test_an_input_too_large_for_a_journal_is_a_file(app: Retinue) -> None:
    run = await app.submit(measures, "y" * 300_000)
    await drain(app)
    assert (await run.outcome()).output == [300_000, 600_000]
    for row in await app.service.tree(run.id):
        (queued,) = await app.services.store.events(row.id, 0, 1)
        assert queued.data.startswith('{"$file":')


async def measures(ctx: FunctionContext, input: str) -> list[object]:
    below = await ctx.child(measures, input * 2) if len(input) == 300_000 else []
    return [len(input), *below]
