"""The folder that a tree of runs works in: who goes on with it, and when it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retinue import Retinue, Run
from retinue.testing import Reply, SetClock, call, drain
from tests.agents.acting import Actor, acting, finish, told
from tests.outside import ended

ALLOW = {"tool": "*", "action": "allow"}
KEYS: dict[str, Any] = {"tools": ["read", "write", "list"], "policy": [ALLOW]}
DAY = 86_400
WRITES = call("write", path="notes.txt", content="tea")
NO = Reply(error=ValueError("no"))


def folders(url: str) -> list[str]:
    """The trees that have a workspace."""
    work = Path(url.removeprefix("sqlite:///")).with_suffix(".work")
    return sorted(path.name for path in work.iterdir()) if work.exists() else []


async def test_a_workspace_goes_when_its_run_is_pruned(file_url: str, clock: SetClock) -> None:
    async with acting(clock, Actor(WRITES, finish(), WRITES, finish()), file_url, **KEYS) as app:
        old = await app.submit("agent:guide", "One.")
        await ended(app, old)
        clock.advance(DAY)
        young = await app.submit("agent:guide", "Two.")
        await ended(app, young)
        assert folders(file_url) == sorted([old.id, young.id])
        assert [pruned.roots async for pruned in app.service.prune(clock.now_ms() - 1000)] == [(old.id,)]
        assert folders(file_url) == [young.id]


@pytest.mark.parametrize("ended_before", [True, False])
async def test_a_workspace_goes_with_its_thread(file_url: str, clock: SetClock, ended_before: bool) -> None:
    last = finish() if ended_before else call("write", path="more.txt", content="milk")
    rules = [{"tool": "write", "action": "ask", "arguments": {"path": "more.txt"}}, ALLOW]
    async with acting(clock, Actor(WRITES, last), file_url, **{**KEYS, "policy": rules}) as app:
        run = await app.submit("agent:guide", "One.")
        await drain(app)
        assert folders(file_url) == [run.id]
        assert await app.service.threads.delete((await run.row()).thread_id or "")
        assert folders(file_url) == []


async def test_what_is_still_a_source_keeps_its_workspace(file_url: str, clock: SetClock) -> None:
    async with acting(clock, Actor(WRITES, NO, finish()), file_url, **KEYS) as app:
        run = await app.submit("agent:guide", "One.")
        await ended(app, run)
        clock.advance(DAY)
        again = await run.retry()
        await ended(app, again)
        assert [pruned.roots async for pruned in app.service.prune(clock.now_ms() - 1000)] == []
        assert run.id in folders(file_url)


async def read_after(app: Retinue, run: Run, actor: Actor) -> object:
    assert (await ended(app, run)).output == "done"
    return told(actor.requests[-1])[0]


async def test_a_retry_of_a_retry_finds_what_the_first_run_wrote(file_url: str, clock: SetClock) -> None:
    actor = Actor(WRITES, NO, NO, call("read", path="notes.txt"), finish())
    async with acting(clock, actor, file_url, **KEYS) as app:
        run = await app.submit("agent:guide", "One.")
        for _ in range(2):
            await ended(app, run)
            run = await run.retry()
        assert "tea" in str(await read_after(app, run, actor))


async def test_a_fresh_retry_finds_nothing(file_url: str, clock: SetClock) -> None:
    actor = Actor(WRITES, NO, call("list"), finish())
    async with acting(clock, actor, file_url, **KEYS) as app:
        run = await app.submit("agent:guide", "One.")
        await ended(app, run)
        assert await read_after(app, await run.retry(fresh=True), actor) == "[There is nothing in it.]"
