"""What durable code of the tests acts on, and how the tests live with an app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from retinue import Outcome, Retinue, Run, current_call
from retinue.core import events as e
from retinue.engine.worker import LEASE_SECONDS
from retinue.ports.store import Write
from retinue.store.writer import Halted
from retinue.testing import SetClock, drain


class Outside:
    """The outside world: what was done to it, and a door at which code waits until the test opens it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.done: list[Any] = []
        self.keys: set[str] = set()
        self.at_door = asyncio.Event()
        self.door = asyncio.Event()

    async def act(self, what: Any = "act") -> Any:
        """An effect."""
        self.done.append(what)
        return what

    async def put(self, what: Any = "put") -> Any:
        """An effect that there is only once for each key."""
        key = current_call().idempotency_key
        if key not in self.keys:
            self.keys.add(key)
            self.done.append(what)
        return what

    async def wait_at_door(self, what: Any = "door") -> Any:
        """An effect that is under way until the door is open."""
        self.done.append(what)
        self.at_door.set()
        await self.door.wait()
        return what


outside = Outside()


def seconds(n: float) -> int:
    """In milliseconds."""
    return int(n * 1000)


async def pass_time(app: Retinue, clock: SetClock, seconds: float) -> None:
    """Move the clock, and let happen what was due."""
    clock.advance(seconds)
    await app.worker.duty()
    await drain(app)


async def ended(app: Retinue, run: Run) -> Outcome:
    """Let all come to rest; the run has ended."""
    await drain(app)
    row = await run.row()
    assert row.status.terminal, f"it is {row.status}, for {row.waits_for}"
    return await run.outcome()


async def heard(app: Retinue, run: Run) -> None:
    """Wait until a run that is under way has taken what was said to it."""
    signal_seq = (await run.row()).signal_seq
    while not app.worker.attempts[run.id].has_seen(signal_seq):
        await asyncio.sleep(0)


async def data_of(run: Run, kind: type[e.EventData]) -> list[Any]:
    """The data of a run's events of one type."""
    return [event.data async for event in _events(run) if isinstance(event.data, kind)]


async def _events(run: Run) -> AsyncIterator[e.Event]:
    for event in await run._service.events(run.id, limit=100_000):
        yield event


async def types_of(run: Run) -> list[str]:
    return [event.type async for event in _events(run)]


@asynccontextmanager
async def doomed(url: str, clock: SetClock, **options: Any) -> AsyncIterator[Retinue]:
    """An app that dies at the end: no code of it, not even a `finally`, reaches the database any more.

    Afterwards its leases have run out.
    """
    loop, over, dead = asyncio.get_running_loop(), asyncio.Event(), False
    ready: asyncio.Future[Retinue] = loop.create_future()

    def checkpoint(at: str, writes: Sequence[Write]) -> None:
        if at == "halted":
            loop.call_soon_threadsafe(over.set)
        elif dead:
            raise Halted

    async def live() -> None:
        async with Retinue.open(url, clock=clock, checkpoint=checkpoint, grace=0, **options) as app:
            ready.set_result(app)
            await asyncio.Event().wait()

    life = asyncio.create_task(live())
    app = await ready
    yield app
    for _ in range(2):  # what was noted so far is on disk
        await app.worker.renew()
    dead = True
    last = asyncio.create_task(app.worker.renew())
    await over.wait()
    last.cancel()
    life.cancel()
    await asyncio.gather(life, last, return_exceptions=True)
    clock.advance(LEASE_SECONDS + 1)
