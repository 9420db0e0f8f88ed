"""`retinue worker` as a process: its start line, draining, leaving at once, and how `retinue doctor` sees it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from retinue import Retinue, Run
from retinue.core.outcome import Status
from tests.conftest import eventually

pytestmark = pytest.mark.slow

WORK = """
import asyncio, pathlib

async def until_told(ctx, input):
    first = await ctx.step("first", told, input, effect="read")
    return [first, await ctx.step("second", told, input, effect="read")]

async def told(name):
    while not pathlib.Path(name).exists():
        await asyncio.sleep(0.01)
    return "told"
"""


class Commands:
    """The command line in processes of their own, on one database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        (folder / "work.py").write_text(WORK)

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "retinue", *arguments, "--db", self.url),
            cwd=self.folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def said(self, *arguments: str) -> tuple[int | None, str]:
        process = await self.start(*arguments)
        out, err = await process.communicate()
        assert b"Traceback" not in err
        return process.returncode, out.decode()

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """A worker that has said its start line."""
        process = await self.start("worker")
        assert process.stdout
        line = (await process.stdout.readline()).decode()
        assert line.startswith("worker wrk_")
        assert "100 at once" in line
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def doctor(self) -> Any:
        return json.loads((await self.said("doctor", "--json"))[1])


@pytest.fixture
async def commands(shared_url: str, tmp_path: Path) -> Commands:
    commands = Commands(tmp_path, shared_url)
    code, _ = await commands.said("db", "upgrade")
    assert code == 0
    return commands


async def in_a_step(commands: Commands, app: Retinue) -> Run:
    """A run whose first step is under way in the worker, until there is a file `go`."""
    _, out = await commands.said("run", "function:work:until_told", "go", "--detach", "--json")
    run = app.get(json.loads(out)["run_id"])

    async def began() -> bool:
        return any(event.type == "tool.started" for event in await app.service.events(run.id))

    await eventually(began)
    return run


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout
    return (await process.stdout.readline()).decode().strip()


async def test_the_first_sigterm_drains_and_doctor_shows_it(commands: Commands) -> None:
    async with Retinue.open(commands.url, worker=False) as app, commands.worker() as worker:
        run = await in_a_step(commands, app)
        assert [(w["pid"], w["state"], w["holds"]) for w in (await commands.doctor())["workers"]] == [
            (worker.pid, "alive", 1)
        ]
        worker.send_signal(signal.SIGTERM)
        assert "waiting for the steps of 1 run" in await line_of(worker)
        assert [w["state"] for w in (await commands.doctor())["workers"]] == ["draining"]
        (commands.folder / "go").touch()
        assert await line_of(worker) == "stopped: 1 let go"
        assert await worker.wait() == 0
        assert [event.type for event in await app.service.events(run.id)][-1] == "tool.finished"
        assert ((await run.row()).status, (await run.row()).crashes) == (Status.QUEUED, 0)
        assert (await commands.doctor())["workers"] == []


async def test_the_second_sigterm_leaves_at_once_and_counts_no_crash(commands: Commands) -> None:
    async with Retinue.open(commands.url, worker=False) as app, commands.worker() as worker:
        run = await in_a_step(commands, app)
        worker.send_signal(signal.SIGTERM)
        await line_of(worker)
        worker.send_signal(signal.SIGTERM)
        assert "1 run left in the middle of a step" in await line_of(worker)
        assert await worker.wait() == 0
        assert ((await run.row()).status, (await run.row()).crashes) == (Status.QUEUED, 0)


async def test_what_a_killed_worker_held_goes_on_elsewhere_before_its_lease_is_over(commands: Commands) -> None:
    async with Retinue.open(commands.url, worker=False) as app, commands.worker() as doomed:
        run = await in_a_step(commands, app)
        doomed.kill()
        await doomed.wait()
        examined = await commands.doctor()
        assert [w["state"] for w in examined["workers"]] == ["dead"]
        assert [left["run_id"] for left in examined["left_behind"]] == [run.id]
        assert not examined["ok"]
        (commands.folder / "go").touch()
        async with commands.worker():
            assert (await run.outcome()).output == ["told", "told"]
        assert (await run.row()).crashes == 1
        resumed = next(event.at for event in await app.service.events(run.id) if event.type == "run.resumed")
        began = (await run.row()).started_at or 0
        print(f"with a lease of 30 s, a killed worker's run went on {(resumed - began) / 1000:.1f} s after it began")
