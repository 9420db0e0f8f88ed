"""The journal of one attempt: what is noted is in the state at once and on disk soon, in order.

When the run is held by somebody else, or the database refuses, `error` says so and whoever writes is left by `Lost`:
no code of a run can catch that and go on.

`note` returns at once; `record` and `sync` return when everything noted so far is on disk. What is noted while
an append is under way goes into the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from retinue.core import events as e
from retinue.core.run import RunState
from retinue.engine.codec import Codec, is_large
from retinue.engine.submit import store_large
from retinue.errors import (
    DatabaseFull,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseUnavailable,
    Lost,
    RetinueError,
)
from retinue.ports.clock import Clock
from retinue.ports.store import Append, Appended, Draft, RunRow, Store, Submit

# The database may come back, or another server take its place; what a step did must not be forgotten meanwhile.
WAIT_OUT = (DatabaseFull, DatabaseLocked, DatabaseReadOnly, DatabaseUnavailable)
LONGEST_PAUSE = 2.0
T = TypeVar("T")


class Journal:
    """Appends to one run as one attempt."""

    def __init__(self, store: Store, codec: Codec, clock: Clock, row: RunRow, state: RunState) -> None:
        self._store, self._codec, self._clock = store, codec, clock
        self._run_id, self._attempt = row.id, row.attempt
        self.state = state
        self._stored_seq = state.seq
        self._drafts: list[Draft] = []
        self._children: list[Submit] = []
        self._files: list[tuple[str, int]] = []
        self._turn = asyncio.Lock()
        self._background: asyncio.Task[None] | None = None
        self._scheduled = False
        self.error: RetinueError | None = None
        self.on_error: Callable[[], None] = lambda: None

    def note(
        self,
        *events: e.EventData,
        children: tuple[Submit, ...] = (),
        files: Iterable[tuple[str, int]] = (),
        soon: bool = True,
    ) -> None:
        """Take events into the state; they go to disk with the next append, `soon` at the latest. `files` are stored
        files that they refer to, with their sizes."""
        if self.error:
            raise Lost
        for data in events:
            draft = self._codec.encode(data)
            self._apply(data)
            self._drafts.append(draft)
        self._children += children
        self._files += files
        if soon and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_soon)

    async def record(self, *events: e.EventData, children: tuple[Submit, ...] = ()) -> None:
        """Note events and wait until they are on disk."""
        self.note(*events, children=children)
        await self.sync()

    async def sync(self) -> None:
        """Wait until all that was noted is on disk."""
        await asyncio.sleep(0)  # what begins at the same moment goes into the same append
        # Who waits may be cancelled. The append goes on: whether it is on disk must be known here.
        await asyncio.shield(self._flush_now())
        if self.error:
            raise Lost

    async def park(self, waiting: e.RunWaiting, signal_seen: int) -> bool:
        """Park the run, with what is noted; False when a signal came first, and the run goes on."""
        async with self._turn:
            if self.error:
                raise Lost
            parked = await self._append(self._codec.encode(waiting), signal_seen=signal_seen)
            if parked:
                self._apply(waiting)
            else:
                await self._append()
            return parked

    async def finish(
        self, finished: e.RunFinished, *, signal_seen: int, cancel_children: bool, answer: str | None = None
    ) -> bool:
        """End the run, with what is noted and the parts of the message that it answers with, in one transaction; False
        when a signal came first, of which the end does not say yet what became of it."""
        async with self._turn:
            if self.error:
                raise Lost
            last = self._codec.encode(finished)
            ended = await self._append(last, signal_seen=signal_seen, cancel_children=cancel_children, answer=answer)
            if ended:
                self._apply(finished)
            return ended

    async def close(self, *, abandon: bool) -> None:
        """Wait for what is under way, or give it up; write nothing more."""
        if self._background:
            if abandon:
                self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)

    def _apply(self, data: e.EventData) -> None:
        seq = self.state.seq + 1
        self.state.apply(e.Event(self._run_id, seq, 0, self._attempt, self._clock.now_ms(), data))

    def _flush_soon(self) -> None:
        self._scheduled = False
        if self._drafts and not self.error and not self._turn.locked():
            self._flush_now()

    def _flush_now(self) -> asyncio.Task[None]:
        """The flush that is under way, or a new one: it ends when nothing is left to write."""
        if self._background is None or self._background.done():
            self._background = asyncio.create_task(self._flush())
        return self._background

    async def _flush(self) -> None:
        async with self._turn:
            if not self.error:
                with suppress(Lost):  # whoever waits, or writes next, is told
                    await self._append()

    async def _append(
        self,
        last: Draft | None = None,
        *,
        signal_seen: int | None = None,
        cancel_children: bool = False,
        answer: str | None = None,
    ) -> bool:
        """Put what is noted on disk, and `last` with it. False when a signal forbade that: nothing was written."""
        while self._drafts or last:
            # Taken before the first await: what is noted meanwhile goes into the next append.
            drafts, self._drafts = self._drafts, []
            children, self._children = self._children, []
            files, self._files = self._files, []
            sent = [*drafts, last] if last else drafts
            large: list[tuple[str, int]] = []
            if any(map(is_large, sent)):
                sent, large = await self._store_large(sent)
            write = Append(
                run_id=self._run_id,
                attempt=self._attempt,
                last_seq=self._stored_seq,
                drafts=tuple(sent),
                children=tuple([await self._child(child) for child in children]),
                files=(*files, *large),
                signal_seen=signal_seen,
                cancel_children=cancel_children,
                answer=answer,
            )
            if not await self._send(write):
                self._drafts, self._children = drafts + self._drafts, children + self._children
                self._files = files + self._files
                return False
            self._stored_seq += len(sent)
            if last:
                return True
        return True

    async def _store_large(self, drafts: list[Draft]) -> tuple[list[Draft], list[tuple[str, int]]]:
        async def store(_: bool) -> tuple[list[Draft], list[tuple[str, int]]]:
            stored = [await self._codec.store_large(draft) for draft in drafts]
            return [draft for draft, _ in stored], [file for _, file in stored if file]

        return await self.outlast(store)

    async def _child(self, child: Submit) -> Submit:
        if not is_large(child.run.queued):
            return child
        return await self.outlast(lambda _: store_large(self._codec, child))

    async def _send(self, write: Append) -> bool:
        def send(again: bool) -> Awaitable[Appended | None]:
            return self._store.append(replace(write, again=True) if again else write)

        return await self.outlast(send) is not None

    async def outlast(self, ask: Callable[[bool], Awaitable[T]]) -> T:
        """Ask the store until it answers, and say whether it is asked again; when it refuses, the attempt is lost."""
        pause, again = 0.05, False
        while True:
            try:
                return await ask(again)
            except WAIT_OUT:
                await asyncio.sleep(pause)
                pause, again = min(pause * 2, LONGEST_PAUSE), True
            except RetinueError as error:
                self.lose(error)
                raise Lost from error

    def lose(self, error: RetinueError) -> None:
        """Nothing can be written any more."""
        self.error = self.error or error
        self.on_error()
