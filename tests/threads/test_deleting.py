"""Deleting a conversation: what runs in it is stopped, then all that belongs to it is gone, whatever breaks off."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.core.messages import Text
from retinue.errors import BadFile, FileMissing, UnknownMessage, UnknownRun, UnknownThread
from retinue.files.local import LocalFiles
from retinue.ports.store import Drop, Purge, Write
from retinue.service import Said
from retinue.store.writer import Halted
from retinue.testing import ScriptedModel, SetClock, drain
from tests.engine.reading import Reader, until
from tests.outside import outside

from .talk import ASKS, HERE, Doors, Heard, counts, ends, say, told

REMAINS = {"threads": 1, "messages": 2, "runs": 1, "events": 5}


async def ignores(ctx: FunctionContext, input: Any) -> None:
    """Does not let itself be stopped."""
    outside.at_door.set()
    while not outside.door.is_set():
        with suppress(asyncio.CancelledError):
            await outside.door.wait()


async def parent(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.child("model:gated", "child")


async def is_gone(app: Retinue, said: Said) -> None:
    """Nobody can see anything of it any more."""
    threads = app.service.threads
    for asking in (threads.thread(said.thread_id), told(app, said), threads.delete(said.thread_id)):
        with pytest.raises(UnknownThread):
            await asking
    with pytest.raises((UnknownThread, UnknownMessage)):
        await threads.message(said.message_id or "")
    assert said.thread_id not in [row.id for row in await threads.threads()]


async def test_C11_a_thread_is_deleted_with_all_that_runs_in_it(
    app: Retinue, clock: SetClock, doors: Doors, ann: Heard, tmp_path: Path
) -> None:
    stays = await say(app, "stays", "model:ann")
    threads = app.service.threads
    file = await threads.upload(b"a text", "text/plain", "a.txt")
    said = await say(app, (Text(text="first"), file), "model:gated", ASKS, f"function:{__name__}:parent")
    behind = await say(app, "behind", "model:ann", thread=said, parent=said.answers[1].message_id)
    await doors.reached("child")
    await app.worker.duty()
    reader = Reader(app.service.follow(said.answers[0].run_id))
    assert await threads.delete(said.thread_id)
    await is_gone(app, said)
    assert await counts(app) == REMAINS | {"files": 1}, "what was stored a moment ago stays for an hour"
    assert await app.services.files.get(file.uri)
    for path in tmp_path.glob("files/*/*"):
        os.utime(path, (0, 0))
    clock.advance(3700)
    await app.worker.duty()
    assert await counts(app) == REMAINS
    assert await told(app, stays) == ["stays", "ann heard 1"]
    with suppress(UnknownRun):
        await reader.task
    assert reader.types[-1] in ("run.finished", "delta")
    for one in (*said.answers, *behind.answers):
        with pytest.raises(UnknownRun):
            await app.service.run(one.run_id)
    with pytest.raises(FileMissing):
        await app.services.files.get(file.uri)
    assert await app.tickets() == []
    assert len(ann.shown) == 1


@pytest.fixture
def both(shared_url: str, clock: SetClock, models: dict[str, ScriptedModel], files: LocalFiles) -> Any:
    """Opens apps as if they were in processes of their own."""

    def open(**options: Any) -> Any:
        return Retinue.open(shared_url, clock=clock, models=models, files=files, grace=0, **options)

    return open


async def test_C11_what_another_process_runs_is_stopped_too(both: Any, doors: Doors, ann: Heard) -> None:
    async with both() as works, both(worker=False) as deletes:
        await ends(works, await say(works, "stays", "model:ann"))
        said = await say(deletes, "first", "model:gated")
        await doors.reached("first")
        reader = Reader(deletes.service.follow(said.answers[0].run_id))
        outcome = asyncio.create_task(deletes.service.outcome(said.answers[0].run_id))
        assert await deletes.service.threads.delete(said.thread_id)
        await is_gone(works, said)
        assert await counts(works) == REMAINS
        await until(reader.task.done)
        with suppress(UnknownRun):
            await reader.task
        with suppress(UnknownRun):
            assert (await outcome).status == "cancelled"


async def test_a_reader_of_a_run_that_is_deleted_meanwhile_does_not_wait_for_ever(
    both: Any, clock: SetClock, ann: Heard
) -> None:
    async with both(worker=False) as reads, both() as works:
        said = await say(reads, "hello", ASKS)
        await drain(works)
        run_id = said.answers[0].run_id
        readers = [Reader(reads.service.follow(run_id, tree=tree)) for tree in (False, True)]
        await until(lambda: all(len(reader.seen) == 4 for reader in readers))
        await works.service.threads.delete(said.thread_id)
        await until(lambda: all(reader.task.done() for reader in readers))
        for reader in readers:
            assert isinstance(reader.task.exception(), UnknownRun | None)


@pytest.mark.parametrize("last", [Drop, Purge])
async def test_C11_what_a_crash_left_of_a_deletion_is_done_by_a_worker(
    both: Any, clock: SetClock, last: type[Write]
) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def die(when: str, writes: Sequence[Write]) -> None:
        if when == "halted":
            loop.call_soon_threadsafe(over.set)
        elif when == ("after" if last is Drop else "before") and any(isinstance(write, last) for write in writes):
            raise Halted

    async with both(worker=False, checkpoint=die) as doomed:
        said = await say(doomed, "hello", ASKS)
        await say(doomed, "behind", "model:ann", thread=said)
        deleting = asyncio.create_task(doomed.service.threads.delete(said.thread_id))
        await over.wait()
        deleting.cancel()
        await asyncio.gather(deleting, return_exceptions=True)
    clock.advance(31)
    async with both(worker=False) as app:
        await is_gone(app, said)
        await app.worker.renew()
        await app.worker.duty()
        assert await counts(app) == {}


async def test_what_no_worker_can_load_is_deleted_all_the_same(both: Any, clock: SetClock) -> None:
    async with both(worker=False) as app:
        said = await say(app, "hello", f"{HERE}asks")
        await app.services.store.drop(Drop(thread_id=said.thread_id))
    async with both(worker=False) as other:
        await other.worker.renew()
        await other.worker.duty()
        assert await counts(other) == {}


async def test_a_deletion_that_takes_long_is_finished_later(app: Retinue) -> None:
    said = await say(app, "hello", f"function:{__name__}:ignores")
    await outside.at_door.wait()
    assert not await app.service.threads.delete(said.thread_id, patience=0.05)
    await is_gone(app, said)
    await app.worker.duty()
    assert (await counts(app))["messages"] == 2
    outside.door.set()
    await drain(app)
    await app.worker.duty()
    assert await counts(app) == {}


async def test_a_thread_is_deleted_where_nobody_works(app: Retinue, database_url: str) -> None:
    async with Retinue.open("sqlite://", worker=False) as idle:
        said = await say(idle, "hello")
        await say(idle, "more", thread=said)
        assert await idle.service.threads.delete(said.thread_id)
        assert await counts(idle) == {}


async def test_two_that_delete_at_once_are_both_told_what_holds(app: Retinue) -> None:
    said = await say(app, "hello")
    deletions = await asyncio.gather(
        *(app.service.threads.delete(said.thread_id) for _ in range(3)), return_exceptions=True
    )
    assert [one for one in deletions if not isinstance(one, UnknownThread)] == [True]
    assert await counts(app) == {}


async def test_a_file_that_is_said_again_meanwhile_stays(app: Retinue, clock: SetClock, tmp_path: Path) -> None:
    threads = app.service.threads
    file = await threads.upload(b"a text", "text/plain")
    first = await say(app, (Text(text="look"), file), f"{HERE}orders")
    assert await threads.delete(first.thread_id)
    with pytest.raises(BadFile):
        await say(app, (Text(text="look"), file), f"{HERE}orders")
    await threads.upload(b"a text", "text/plain")
    second = await say(app, (Text(text="look"), file), f"{HERE}orders")
    await drain(app)
    for path in tmp_path.glob("files/*/*"):
        os.utime(path, (0, 0))
    clock.advance(3700)
    await app.worker.duty()
    assert await app.services.files.get(file.uri) == b"a text"
    assert (await counts(app))["files"] == 1
    assert await threads.delete(second.thread_id)
    with pytest.raises(FileMissing):
        await app.services.files.get(file.uri)


async def test_a_file_on_disk_goes_with_the_last_that_refers_to_it(tmp_path: Path, clock: SetClock) -> None:
    async with Retinue.open(f"sqlite:///{tmp_path / 'x.db'}", clock=clock, grace=0) as app:
        threads = app.service.threads
        files = [await threads.upload(b"a text", "text/plain") for _ in range(2)]
        assert files[0] == files[1]
        both = [await say(app, (Text(text="look"), file), f"{HERE}orders") for file in files]
        await drain(app)
        (stored,) = [path for path in tmp_path.rglob("*") if path.is_file() and len(path.name) == 64]
        os.utime(stored, (0, 0))  # nobody is about to use it
        for n, said in enumerate(both):
            assert stored.exists()
            assert await threads.delete(said.thread_id)
            assert stored.exists() == (n == 0)
