"""Workers as processes of their own, and what must hold when the dust has settled."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from retinue import Retinue
from retinue.core.events import Event
from retinue.core.run import fold
from retinue.errors import StoreError
from retinue.ports.store import RunRow
from retinue.service import Followed

ROOT = Path(__file__).parents[2]
LEASE = 3.0


@dataclass
class Fleet:
    """The workers of one test. All that are left are ended with it."""

    url: str
    world: Path
    module: str = "tests.faults.worker"
    workers: list[asyncio.subprocess.Process] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)

    async def start(
        self, *, concurrency: int = 200, lease: float = LEASE, release: Path = ROOT / "src"
    ) -> asyncio.subprocess.Process:
        """Start a worker, of another release if need be; it is at work when this returns."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self.module, self.url, str(concurrency), str(lease)),
            cwd=ROOT,
            env=self.environment(release),
            stdout=asyncio.subprocess.PIPE,
        )
        self.workers.append(process)
        assert process.stdout
        line = (await process.stdout.readline()).decode()
        assert line.startswith("working as ")
        self.ids[process.pid] = line.split()[-1]
        return process

    async def held_by(self, app: Retinue, process: asyncio.subprocess.Process) -> list[str]:
        """The runs that the database says a worker holds."""
        return list(await app.services.store.held(self.ids[process.pid]))

    def environment(self, release: Path) -> dict[str, str]:
        return os.environ | {"RETINUE_TEST_WORLD": str(self.world), "PYTHONPATH": str(release)}

    async def end(self) -> None:
        for process in self.workers:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            await process.communicate()

    def effects(self) -> Counter[str]:
        return Counter(self.world.read_text().splitlines()) if self.world.exists() else Counter()

    async def effects_begun(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.effects().total() < count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def fleet(url: str, folder: Path, module: str = "tests.faults.worker") -> AsyncIterator[Fleet]:
    workers = Fleet(url, folder / "world", module)
    try:
        yield workers
    finally:
        await workers.end()


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of all runs."""

    runs: int
    statuses: dict[str, int]
    events: int
    effects: int
    unknown: int
    crashed: int

    def __str__(self) -> str:
        return (
            f"{self.runs} runs {self.statuses}, {self.events} events, {self.effects} effects, "
            f"{self.unknown} unknown, {self.crashed} runs whose worker died"
        )


@dataclass
class Readers:
    """People who watch some of the runs. Each goes away now and then, or is cut off, and comes back where it was."""

    app: Retinue
    seen: dict[str, list[int]] = field(default_factory=dict)
    returns: int = 0

    async def read(self, run_id: str) -> None:
        seen = self.seen[run_id] = []
        while True:
            with suppress(StoreError):  # the database may be away
                following = self.app.service.follow(run_id, after=seen[-1] if seen else 0)
                async with aclosing(cast(AsyncGenerator[Followed], following)) as events:
                    async for event in events:
                        assert isinstance(event, Event)
                        seen.append(event.seq)
                        if event.type == "run.finished":
                            return
                        if event.seq % 3 == 0:
                            break
            self.returns += 1
            await asyncio.sleep(0.1)

    async def check(self) -> None:
        for run_id, seen in self.seen.items():
            assert seen == list(range(1, (await self.app.service.run(run_id)).last_seq + 1)), run_id


@asynccontextmanager
async def readers(app: Retinue, run_ids: Sequence[str], *, count: int = 25) -> AsyncIterator[Readers]:
    """Readers of some of the runs, who have each seen every stored event once when all has ended."""
    crowd = Readers(app)
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        for run_id in run_ids[:: max(1, len(run_ids) // count)]:
            tasks.create_task(crowd.read(run_id))
        yield crowd
    await crowd.check()
    print(f"{len(crowd.seen)} readers came back {crowd.returns} times and saw each event once")


async def settle(app: Retinue, run_ids: Sequence[str], *, seconds: float = 90) -> None:
    """Wait until all have ended."""
    left = set(run_ids)
    async with asyncio.timeout(seconds):
        while left:
            left -= {row.id for row in await rows(app) if row.status.terminal}
            if left:
                await asyncio.sleep(0.1)


async def rows(app: Retinue) -> list[RunRow]:
    found: list[RunRow] = []
    while page := await app.service.runs(before=found[-1].id if found else None, limit=500):
        found += page
    return found


async def check(app: Retinue, fleet: Fleet, run_ids: Sequence[str], *, settled: bool = True) -> Tally:
    """One terminal state each, no effect twice, an `unknown` for each that is missing, journals without a gap."""
    effects, unknown, events, writes = fleet.effects(), set(), 0, set()
    found = {row.id: row for row in await rows(app)}
    for run_id in run_ids:
        assert run_id in found, f"{run_id} was accepted and is gone"
        assert found[run_id].status.terminal or not settled, f"{run_id} is {found[run_id].status}"
        journal = await app.service.events(run_id, limit=100_000)
        check_journal(journal, settled=settled)
        events += len(journal)
        for call in fold(run_id, journal).calls.values():
            if call.effect == "write" and call.finished:
                writes.add(f"{run_id} {call.call_id}")
                if call.unknown:
                    unknown.add(f"{run_id} {call.call_id}")
    twice = [line for line, times in effects.items() if times > 1]
    assert not twice, f"{len(twice)} effects happened twice: {twice[:3]}"
    missing = writes - set(effects) - unknown
    assert not missing, f"{len(missing)} effects are missing and nobody knows: {sorted(missing)[:3]}"
    ours = [found[run_id] for run_id in run_ids]
    return Tally(
        runs=len(ours),
        statuses=dict(Counter(row.status.value for row in ours)),
        events=events,
        effects=effects.total(),
        unknown=len(unknown),
        crashed=sum(row.crashes > 0 for row in ours),
    )


def check_journal(journal: Sequence[Event], *, settled: bool) -> None:
    assert [event.seq for event in journal] == list(range(1, len(journal) + 1))
    ends = [event.seq for event in journal if event.type == "run.finished"]
    if settled or ends:
        assert ends == [len(journal)]


async def inside_a_write(app: Retinue, run_ids: Sequence[str]) -> int:
    """How many runs have begun a write that has no result yet: all are writes here, and a run does one at a time."""
    events = await app.services.store.events_of(run_ids, ("tool.started", "tool.finished"))
    last = {event.run_id: event.type for event in sorted(events, key=lambda event: event.seq)}
    return Counter(last.values())["tool.started"]
