"""Workers as processes of their own, and what must hold when the dust has settled."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from retinue import Retinue
from retinue.core.events import Event
from retinue.core.run import fold
from retinue.ports.store import RunRow

ROOT = Path(__file__).parents[2]
LEASE = 3.0


@dataclass
class Fleet:
    """The workers of one test. All that are left are ended with it."""

    url: str
    world: Path
    workers: list[asyncio.subprocess.Process] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    """What each process is called as a worker."""

    async def start(
        self, *, concurrency: int = 200, lease: float = LEASE, release: Path = ROOT / "src"
    ) -> asyncio.subprocess.Process:
        """Start a worker, of another release if need be; it is at work when this returns."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.worker", self.url, str(concurrency), str(lease)),
            cwd=ROOT,
            env=self.environment(release),
            stdout=asyncio.subprocess.PIPE,
        )
        self.workers.append(process)
        assert process.stdout
        said = (await process.stdout.readline()).decode()
        assert said.startswith("working as "), said
        self.ids[process.pid] = said.split()[-1]
        return process

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
async def fleet(url: str, folder: Path) -> AsyncIterator[Fleet]:
    workers = Fleet(url, folder / "world")
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
    """How many runs have begun a write that has no result yet."""
    inside = 0
    for run_id in run_ids:
        events = await app.service.events(run_id, limit=100)
        inside += any(call.effect == "write" for call in fold(run_id, events).open_calls.values())
    return inside
