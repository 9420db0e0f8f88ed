"""Processes that read, readers that remember what they saw, and a store that counts what it is asked.

As a program (`python -m tests.engine.reading URL RUN`) it is a reader in a process of its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from retinue import Delta, Retinue
from retinue.core.events import Event
from retinue.core.secrets import Secrets
from retinue.engine.codec import Codec
from retinue.engine.follow import Followed, Follower
from retinue.engine.hub import Hub
from retinue.engine.speech import Speech
from retinue.files.local import MemoryFiles
from retinue.models.scripted import Reply, ScriptedModel
from retinue.ports import store as port
from retinue.store import queries
from retinue.store.sql import SqlStore, open_store
from retinue.store.transaction import Row
from retinue.testing.clock import SetClock
from tests.contract.steps import Held


class CountingStore(SqlStore):
    """Counts reads. `meanwhile` happens once between a read and its answer; `fails` is what the next words meet."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store._dialect, store._writer, store._clock)
        self.reads: Counter[str] = Counter()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.fails: list[Exception] = []
        self.fails_late = False

    async def _read(self, sql: str, *params: object) -> list[Row]:
        rows = await super()._read(sql, *params)
        self.reads[sql] += 1
        if self.meanwhile and sql in (queries.EVENTS, queries.TREE_EVENTS):
            happen, self.meanwhile = self.meanwhile, None
            await happen()
        return rows

    async def speak(self, write: port.Speak) -> None:
        error = self.fails.pop() if self.fails else None
        if error is None or self.fails_late:
            await super().speak(write)
        if error:
            raise error


class Reader:
    """Reads until the end, or until it is stopped, and keeps what it saw."""

    def __init__(self, stream: AsyncIterator[Followed]) -> None:
        self.seen: list[Followed] = []
        self.task = asyncio.create_task(self._read(stream))

    async def _read(self, stream: AsyncIterator[Followed]) -> None:
        async with aclosing(stream):  # type: ignore[type-var]
            async for seen in stream:
                self.seen.append(seen)

    @property
    def events(self) -> list[Event]:
        return [seen for seen in self.seen if isinstance(seen, Event)]

    @property
    def seqs(self) -> list[int]:
        return [event.seq for event in self.events]

    @property
    def places(self) -> list[int]:
        return [event.root_seq for event in self.events]

    @property
    def types(self) -> list[str]:
        return [seen.type for seen in self.seen]

    @property
    def deltas(self) -> list[Delta]:
        return [seen for seen in self.seen if isinstance(seen, Delta)]

    def heard(self, kind: str = "text", try_: int = 1) -> str:
        """The text that the deltas of a try make: they fit together without a hole or an overlap."""
        text = ""
        for delta in self.deltas:
            if (delta.kind, delta.try_) == (kind, try_):
                assert delta.offset == len(text)
                text += delta.text
        return text

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@dataclass
class Desk:
    """What a process needs to read, and to say something."""

    store: CountingStore
    hub: Hub
    clock: SetClock

    def follow(self, run_id: str, after: int = 0, *, tree: bool = False) -> AsyncIterator[Followed]:
        return Follower(self.store, self.hub, Codec(Secrets(None), MemoryFiles())).follow(run_id, after, tree=tree)

    def read(self, run_id: str, after: int = 0, *, tree: bool = False) -> Reader:
        return Reader(self.follow(run_id, after, tree=tree))

    def speech(self, run: Held) -> Speech:
        return Speech(self.store, self.hub, self.clock, run.row)


@asynccontextmanager
async def a_desk(store: SqlStore, clock: SetClock) -> AsyncIterator[Desk]:
    counting = CountingStore(store)
    hub = Hub(counting, clock)
    yield Desk(counting, hub, clock)
    await hub.close()
    await counting.close()


@asynccontextmanager
async def another_desk(url: str, clock: SetClock) -> AsyncIterator[Desk]:
    """One that could as well be in another process: all that it shares is the database."""
    store = await open_store(url, clock)
    async with a_desk(store, clock) as desk:
        yield desk
    await store.close()


async def until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what happens on other threads or in other processes."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.001)


async def turns_of_the_loop(count: int = 5) -> None:
    """Let everything happen that waits for nothing outside."""
    for _ in range(count):
        await asyncio.sleep(0)


class Slow:
    """A model that says as many pieces as it is allowed to."""

    def __init__(self, *pieces: str, thinking: str = "") -> None:
        self.model = ScriptedModel(lambda _: Reply(pieces=pieces, thinking=thinking, before=self._wait), "slow")
        self._allowed = asyncio.Semaphore(0)
        self.said = 0

    async def _wait(self, n: int) -> None:
        self.said = n
        await self._allowed.acquire()

    async def say(self, count: int = 1) -> None:
        """Let it say some pieces; return when it has said them (all but the last of all, after which it is done)."""
        before = self.said
        for _ in range(count):
            self._allowed.release()
        await until(lambda: self.said >= before + count)

    def finish(self) -> None:
        for _ in range(1000):
            self._allowed.release()


async def _main(url: str, run_id: str) -> None:
    async with Retinue.open(url, worker=False) as app:
        async for seen in app.get(run_id).follow():
            if isinstance(seen, Delta):
                print("delta", seen.offset, seen.text, flush=True)
            elif isinstance(seen, Event):
                print("event", seen.seq, seen.type, flush=True)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
