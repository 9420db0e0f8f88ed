"""What is going on in this process: who waits for news of which run, what open turns have said so far."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from typing import Protocol

from retinue.core.delta import OpenTurn
from retinue.errors import RetinueError
from retinue.ports.clock import Clock
from retinue.ports.store import Commit, Recorded, Store

RING = 1024
POLL_SECONDS = 0.25
TICK_SECONDS = 1.0


class Living(Protocol):
    """A run that lives in this process."""

    def signalled(self) -> None:
        """Something was said to it."""

    def child_parked(self) -> None:
        """A child of it rests."""


@dataclass(slots=True, eq=False)
class Tail:
    """The end of a run's or a tree's journal, kept while somebody reads it.

    Readers share it and keep only their place in it, so a slow one costs nothing and slows nobody.
    """

    key: str
    tree: bool
    ring: deque[Recorded] = field(default_factory=lambda: deque(maxlen=RING))
    floor: int | None = None
    readers: int = 0
    version: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)
    turns: dict[str, OpenTurn] = field(default_factory=dict)
    poller: asyncio.Task[None] | None = None

    def place(self, recorded: Recorded) -> int:
        return recorded.root_seq if self.tree else recorded.seq

    def push(self, recorded: Recorded) -> None:
        place = self.place(recorded)
        if self.ring and place <= self.place(self.ring[-1]):
            return
        if self.ring and place != self.place(self.ring[-1]) + 1:
            self.ring.clear()  # another process wrote in between; readers fetch that from the store
        self.ring.append(recorded)
        self.stir()

    def after(self, place: int) -> list[Recorded] | None:
        """What follows a place, or None when the ring does not reach back that far."""
        if not self.ring:
            return [] if self.floor is not None and place >= self.floor else None
        if self.place(self.ring[0]) > place + 1:
            return None
        first = self.place(self.ring[0])
        return [self.ring[n] for n in range(place + 1 - first, len(self.ring))]

    def caught_up(self, place: int) -> None:
        """A reader found nothing in the store after this place: what comes from now on is pushed."""
        if not self.ring:
            self.floor = place if self.floor is None else max(place, self.floor)

    def stir(self) -> None:
        self.version += 1
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def changed(self, version: int) -> None:
        """Wait until the tail is no longer as it was at `version`."""
        if self.version == version:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(future)
            await future


class Hub:
    """Passes on what the store's writer has committed, and what open turns say."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._tails: dict[tuple[str, bool], Tail] = {}
        self._living: dict[str, Living] = {}
        self.turns: dict[str, tuple[str, OpenTurn]] = {}
        self.queued = asyncio.Event()
        self.tick = asyncio.Event()
        store.on_commit(self._committed)

    def _committed(self, commit: Commit) -> None:
        if self._tails:
            for recorded in commit.events:
                self._push(recorded, commit.roots[recorded.run_id])
        if commit.queued:
            self.queued.set()
        for run_id in commit.signalled:
            self.signal(run_id)

    def _push(self, recorded: Recorded, root_id: str) -> None:
        if tail := self._tails.get((recorded.run_id, False)):
            tail.push(recorded)
        if tail := self._tails.get((root_id, True)):
            tail.push(recorded)

    def signal(self, run_id: str) -> None:
        """A run has something to look at, if it lives here."""
        if living := self._living.get(run_id):
            living.signalled()

    def parked(self, parent_id: str | None) -> None:
        """A run rests; its parent may have nothing to stay in memory for any more."""
        if parent_id and (living := self._living.get(parent_id)):
            living.child_parked()

    def due(self, in_ms: int) -> None:
        """Something waits for a time. What comes before the next regular look is looked for when it comes."""
        if in_ms < TICK_SECONDS * 1000:
            self._clock.call_later(max(0, in_ms) / 1000, self.tick.set)

    def live(self, run_id: str, living: Living) -> None:
        """A run begins to live in this process."""
        self._living[run_id] = living

    def rest(self, run_id: str) -> None:
        """A run ceases to live in this process."""
        self._living.pop(run_id, None)

    def is_live(self, run_id: str) -> bool:
        return run_id in self._living

    def said(self, run_id: str, root_id: str, turn: OpenTurn | None) -> None:
        """An open turn has said something more, or (with None) is closed."""
        if turn is None:
            self.turns.pop(run_id, None)
        else:
            self.turns[run_id] = (root_id, turn)
        for key in ((run_id, False), (root_id, True)):
            if tail := self._tails.get(key):
                tail.stir()

    def open_turns(self, tail: Tail) -> list[tuple[str, OpenTurn]]:
        """What is being said now in a run or tree: here, or as far as other processes have written it down."""
        here = [
            (run_id, turn)
            for run_id, (root_id, turn) in (
                self.turns.items()
                if tail.tree
                else [(tail.key, self.turns[tail.key])]
                if tail.key in self.turns
                else []
            )
            if not tail.tree or root_id == tail.key
        ]
        return here + [(run_id, turn) for run_id, turn in tail.turns.items() if run_id not in self.turns]

    @contextmanager
    def watch(self, key: str, *, tree: bool) -> Iterator[Tail]:
        """The tail of a run or tree, for as long as somebody reads it."""
        tail = self._tails.setdefault((key, tree), Tail(key, tree))
        tail.readers += 1
        if tail.poller is None and self._store.shared:
            tail.poller = asyncio.create_task(self._poll(tail))
        try:
            yield tail
        finally:
            tail.readers -= 1
            if not tail.readers:
                del self._tails[(key, tree)]
                if tail.poller:
                    tail.poller.cancel()

    async def _poll(self, tail: Tail) -> None:
        """See what other processes write: one query for all readers, none while the run lives here."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            place = tail.place(tail.ring[-1]) if tail.ring else tail.floor
            if place is None or (not tail.tree and self.is_live(tail.key)):
                continue
            with suppress(RetinueError):  # the database may be away for a while; the next poll tells
                read = self._store.tree_events if tail.tree else self._store.events
                for recorded in await read(tail.key, place, RING):
                    tail.push(recorded)
                await self._poll_turns(tail)

    async def _poll_turns(self, tail: Tail) -> None:
        runs = [tail.key]
        if tail.tree:
            runs = [row.id for row in await self._store.tree(tail.key) if not row.status.terminal]
        turns = {run_id: turn for run_id in runs if (turn := await self._store.open_turn(run_id))}
        if turns or tail.turns:
            tail.turns = turns
            tail.stir()

    async def close(self) -> None:
        """End all polling."""
        pollers = [tail.poller for tail in self._tails.values() if tail.poller]
        for poller in pollers:
            poller.cancel()
        await asyncio.gather(*pollers, return_exceptions=True)
