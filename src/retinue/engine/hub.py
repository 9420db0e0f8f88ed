"""What is going on in this process: who waits for news of which run, what open turns have said so far."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import msgspec

from retinue.core.delta import OpenTurn, Progress
from retinue.core.events import ModelResponded, ModelRetried, RunFinished, ToolFinished, TurnInterrupted
from retinue.errors import RetinueError, StoreClosed, UnknownRun
from retinue.ports.bus import Notice
from retinue.ports.clock import Clock
from retinue.ports.store import Commit, Recorded, Store

RING = 1024
AT_ONCE = 16
PAGE = 256
POLL_SECONDS = 0.25
TICK_SECONDS = 1.0
CLOSING = {ModelResponded.type, ModelRetried.type, TurnInterrupted.type}


class Living(Protocol):
    """A run that lives in this process."""

    def signalled(self) -> None:
        """Something was said to it."""

    def child_parked(self) -> None:
        """A child of it rests."""


class _Said(msgspec.Struct):
    """Of which try an event is the end. What is so large that it is in a file does not say."""

    turn: int | None = None
    try_: int = msgspec.field(default=1, name="try")


_said = msgspec.json.Decoder(_Said)


def _closes(recorded: Recorded, turn: OpenTurn | None) -> bool:
    """Whether an event is the end of a turn of its run. The next try may have begun before that is on disk."""
    if turn is None or recorded.type not in CLOSING:
        return False
    said = _said.decode(recorded.data)
    return said.turn is None or (turn.turn, turn.try_) <= (said.turn, said.try_)


@dataclass(slots=True, eq=False)
class Tail:
    """The end of a run's or a tree's journal, kept while somebody reads it.

    Readers share it and keep only their place in it, so a slow one costs nothing and slows nobody.
    """

    key: str
    tree: bool
    root: str = ""
    ring: deque[Recorded] = field(default_factory=lambda: deque(maxlen=RING))
    floor: int | None = None
    readers: int = 0
    version: int = 0
    waiting: dict[asyncio.Future[None], int] = field(default_factory=dict)
    waker: asyncio.Task[None] | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    busy: Callable[[], bool] = lambda: False
    turns: dict[str, OpenTurn] = field(default_factory=dict)
    progress: dict[tuple[str, str], Progress] = field(default_factory=dict)
    poller: asyncio.Task[None] | None = None
    poke: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    gone: bool = False
    """It was deleted: nothing comes any more, not even an end."""

    @property
    def end(self) -> int | None:
        """How far it is known; None as long as nobody has read that far."""
        return self.place(self.ring[-1]) if self.ring else self.floor

    def place(self, recorded: Recorded) -> int:
        return recorded.root_seq if self.tree else recorded.seq

    def push(self, recorded: Recorded) -> None:
        place = self.place(recorded)
        if self.ring and place <= self.place(self.ring[-1]):
            return
        if self.ring and place != self.place(self.ring[-1]) + 1:
            self.ring.clear()  # another process wrote in between; readers fetch that from the store
        if _closes(recorded, self.turns.get(recorded.run_id)):
            del self.turns[recorded.run_id]
        if self.progress and recorded.type in (ToolFinished.type, RunFinished.type):
            self.progress = {key: said for key, said in self.progress.items() if key[0] != recorded.run_id}
        self.ring.append(recorded)
        self.stir()

    def after(self, place: int) -> list[Recorded] | None:
        """A page of what follows a place, or None when the ring does not reach back that far."""
        if not self.ring:
            return [] if self.floor is not None and place >= self.floor else None
        begin = place + 1 - self.place(self.ring[0])
        return None if begin < 0 else [self.ring[n] for n in range(begin, min(begin + PAGE, len(self.ring)))]

    def caught_up(self, place: int) -> None:
        """A reader found nothing in the store after this place: what comes from now on is pushed."""
        if not self.ring:
            self.floor = place if self.floor is None else max(place, self.floor)

    def stir(self) -> None:
        """There is something new: wake who waits. A crowd is woken a few at a time, so that the run is not held up."""
        self.version += 1
        if len(self.waiting) <= AT_ONCE or self.closed or self.gone:
            self._wake(len(self.waiting))
        elif self.waker is None or self.waker.done():
            self.waker = asyncio.create_task(self._wake_in_turns())

    def _wake(self, count: int) -> None:
        for future in list(islice(self.waiting, count)):
            del self.waiting[future]
            if not future.done():
                future.set_result(None)

    async def _wake_in_turns(self) -> None:
        """While runs live here, readers get a tenth of the time."""
        while self.waiting and next(iter(self.waiting.values())) < self.version:
            async with self.in_turn():
                self._wake(AT_ONCE)
                await asyncio.sleep(0)  # they are scheduled
                await asyncio.sleep(0)  # they have read

    @asynccontextmanager
    async def in_turn(self) -> AsyncIterator[None]:
        """What a crowd of readers does takes its turn here; while runs live in this process, it rests as it goes."""
        async with self.turn:
            began = time.perf_counter()
            yield
            if self.busy() and self.readers > AT_ONCE:
                await asyncio.sleep(9 * (time.perf_counter() - began))

    async def changed(self, version: int) -> None:
        """Wait until the tail is no longer as it was at `version`."""
        if self.version == version and not self.closed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting[future] = version
            try:
                await future
            finally:
                self.waiting.pop(future, None)
        if self.closed:
            raise StoreClosed


class Hub:
    """Passes on what the store's writer has committed, and what open turns say."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._tails: dict[tuple[str, bool], Tail] = {}
        self._living: dict[str, Living] = {}
        self._ends: dict[str, list[asyncio.Future[Recorded | None]]] = {}
        self._stored: set[str] = set()
        self.turns: dict[str, tuple[str, OpenTurn]] = {}
        self.queued = asyncio.Event()
        self.tick = asyncio.Event()
        self._awaited = asyncio.Event()
        self._ends_poller: asyncio.Task[None] | None = None
        self._closed = False
        store.on_commit(self._committed)

    def _committed(self, commit: Commit) -> None:
        if self._tails or self.turns:
            for recorded in commit.events:
                self._close_turn(recorded)
                self._push(recorded, commit.roots[recorded.run_id])
        if self._ends:
            for recorded in commit.events:
                if recorded.type == RunFinished.type:
                    self._tell_end(recorded)
        if commit.queued:
            self.queued.set()
        for at in commit.due:
            self.due(at - self._clock.now_ms())
        for run_id in commit.signalled:
            self.signal(run_id)

    def _push(self, recorded: Recorded, root_id: str) -> None:
        for key in ((recorded.run_id, False), (root_id, True)):
            if tail := self._tails.get(key):
                tail.push(recorded)

    def _close_turn(self, recorded: Recorded) -> None:
        """What has its end on disk is not open any more, for those who come late."""
        if recorded.run_id in self.turns and _closes(recorded, self.turns[recorded.run_id][1]):
            del self.turns[recorded.run_id]

    def _tell_end(self, recorded: Recorded) -> None:
        for future in self._ends.get(recorded.run_id, ()):
            if not future.done():
                future.set_result(recorded)

    @contextmanager
    def ending(self, run_id: str) -> Iterator[asyncio.Future[Recorded | None]]:
        """The last event of a run, once it is recorded in this process; None when another process has ended it."""
        if self._ends_poller is None and self._store.shared:
            self._ends_poller = asyncio.create_task(self._poll_ends())
        self._awaited.set()
        future: asyncio.Future[Recorded | None] = asyncio.get_running_loop().create_future()
        waiting = self._ends.setdefault(run_id, [])
        waiting.append(future)
        try:
            yield future
        finally:
            waiting.remove(future)
            if not waiting:
                self._ends.pop(run_id, None)
                self._stored.discard(run_id)

    def is_stored(self, run_id: str) -> None:
        """A run whose end is waited for is in the database: once it is there no more, it was deleted."""
        if run_id in self._ends:
            self._stored.add(run_id)

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

    def rest(self, run_id: str, living: Living) -> None:
        """A run ceases to live in this process, unless a later attempt at it has begun."""
        if self._living.get(run_id) is living:
            del self._living[run_id]

    def _is_busy(self) -> bool:
        return bool(self._living)

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
                if turn is None:
                    tail.turns.pop(run_id, None)
                else:
                    tail.turns[run_id] = turn
                tail.stir()

    def progressed(self, root_id: str, progress: Progress) -> None:
        """A call has come further. Who does not read in this very process is not told."""
        for key in ((progress.run_id, False), (root_id, True)):
            if tail := self._tails.get(key):
                tail.progress[progress.run_id, progress.call_id] = progress
                tail.stir()

    def is_open(self, run_id: str, turn: OpenTurn) -> bool:
        """Whether a turn that is said here still has no end on disk."""
        return run_id in self.turns and self.turns[run_id][1] is turn

    @contextmanager
    def watch(self, key: str, *, tree: bool, root: str | None = None) -> Iterator[Tail]:
        """The tail of a run or tree, for as long as somebody reads it. A run below another one has a root."""
        tail = self._tails.get((key, tree)) or self._begin(key, root or key, tree)
        tail.readers += 1
        try:
            yield tail
        finally:
            tail.readers -= 1
            if not tail.readers:
                del self._tails[(key, tree)]
                for task in (tail.poller, tail.waker):
                    if task:
                        task.cancel()

    def _begin(self, key: str, root: str, tree: bool) -> Tail:
        tail = self._tails[(key, tree)] = Tail(key, tree, root, busy=self._is_busy, closed=self._closed)
        for run_id, (root_id, turn) in self.turns.items():
            if key == (root_id if tree else run_id):
                tail.turns[run_id] = turn
        if self._store.shared:
            tail.poller = asyncio.create_task(self._poll(tail))
        return tail

    def heard(self, notice: Notice) -> None:
        """Another process has committed something: look at once instead of at the next regular look."""
        if notice.queued:
            self.queued.set()
        for run_id in notice.signalled:
            self.signal(run_id)
        for run_id in notice.ended:
            self._ended_elsewhere(run_id)
        if self._tails:
            roots = set(notice.roots)
            for tail in self._tails.values():
                if tail.root in roots:
                    tail.poke.set()

    def _ended_elsewhere(self, run_id: str) -> None:
        for future in self._ends.get(run_id, ()):
            if not future.done():
                future.set_result(None)

    async def _poll_ends(self) -> None:
        """See which of the runs that are waited for other processes have ended: one look for all who wait."""
        while True:
            await self._awaited.wait()
            await asyncio.sleep(POLL_SECONDS)
            with suppress(RetinueError):  # the database may be away for a while; the next look tells
                await self._look_for_ends()
            if not self._ends:
                self._awaited.clear()

    async def _look_for_ends(self) -> None:
        waited_for, stored = list(self._ends), set(self._stored)
        found = await self._store.statuses(waited_for)
        for run_id in waited_for:
            if run_id in found and found[run_id].terminal:
                self._ended_elsewhere(run_id)
            elif run_id in found:
                self.is_stored(run_id)
            elif run_id in stored:  # not of one that is only about to be
                for future in self._ends.get(run_id, ()):
                    if not future.done():
                        future.set_exception(UnknownRun(run_id=run_id))

    async def _poll(self, tail: Tail) -> None:
        """See what other processes write: one look for all readers, none while the run lives here."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await tail.poke.wait()
            tail.poke.clear()
            if tail.tree or not self.is_live(tail.key):
                with suppress(RetinueError):  # the database may be away for a while; the next poll tells
                    await self._look(tail)

    async def _look(self, tail: Tail) -> None:
        # Turns first: whoever is shown one has been shown all events before it.
        version, turns = tail.version, await self._turns_elsewhere(tail)
        read = self._store.tree_events if tail.tree else self._store.events
        while (end := tail.end) is not None and (page := await read(tail.key, end, PAGE)):
            for recorded in page:
                tail.push(recorded)
                if _closes(recorded, turns.get(recorded.run_id)):
                    del turns[recorded.run_id]
        if end is None:
            turns = {}  # nobody has read that far: a reader who is about to must not take them for what comes next
        if tail.version == version and await self._store.run(tail.key) is None:
            tail.gone = True
            tail.stir()
            return
        here = {run_id: turn for run_id, turn in tail.turns.items() if run_id in self.turns}
        turns = {run_id: turn for run_id, turn in turns.items() if not self.is_live(run_id)} | here
        if turns != tail.turns:
            tail.turns = turns
            tail.stir()

    async def _turns_elsewhere(self, tail: Tail) -> dict[str, OpenTurn]:
        """What is being said in other processes, as far as they have written it down."""
        if tail.tree:
            return await self._store.open_turns(tail.key)
        turn = await self._store.open_turn(tail.key)
        return {tail.key: turn} if turn else {}

    async def close(self) -> None:
        """End all polling, and leave nobody waiting."""
        self._closed = True
        for tail in self._tails.values():
            tail.closed = True
            tail.stir()
        for future in [future for waiting in self._ends.values() for future in waiting if not future.done()]:
            future.set_exception(StoreClosed())
        pollers = [tail.poller for tail in self._tails.values() if tail.poller]
        pollers += [self._ends_poller] if self._ends_poller else []
        for poller in pollers:
            poller.cancel()
        await asyncio.gather(*pollers, return_exceptions=True)
