"""Knows when the code of a run can go no further, and leaves it then.

The code calls durable operations, several at once if it likes. One that must wait blocks here. When none is
under way and some are blocked, the run is idle: the code is left by raising `Parked` where it blocks, and is
replayed when what it waits for is there. Waits that may be short (children that run in this very moment) keep
the run in memory for a while: it is idle then too, gives back its slot and stops its clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from weakref import WeakSet

from retinue.core.outcome import Waits
from retinue.errors import Parked, ParkedSwallowed, Unwind

# After an operation ends, the code may need some turns of the loop (a gather, a task group) to begin the next one.
PATIENCE = 8


@dataclass(slots=True, eq=False)
class Wait:
    """One blocked operation."""

    waits: Waits
    until: int | None
    in_memory: bool
    future: asyncio.Future[None]


class Gate:
    """Counts what a run's code has under way. `on_idle` and `on_busy` tell when the run stops and starts to work,
    `on_leave` when its code is left."""

    def __init__(self, on_idle: Callable[[], None], on_busy: Callable[[], None], on_leave: Callable[[], None]) -> None:
        self._on_idle, self._on_busy, self._on_leave = on_idle, on_busy, on_leave
        self._active = 0
        self._waits: set[Wait] = set()
        self._left: WeakSet[asyncio.Task[object]] = WeakSet()
        self._used_by: WeakSet[asyncio.Task[object]] = WeakSet()
        self._check: asyncio.Handle | None = None
        self._patience = 0
        self._kind: Unwind | None = None
        self._in_memory = True
        self.idle = False
        self.leaving: Unwind | None = None
        self.left_for: tuple[Waits, ...] = ()
        self.left_until: int | None = None
        self.swallowed: ParkedSwallowed | None = None

    def enter(self, what: str) -> None:
        """An operation begins."""
        self.pass_by(what)
        self._active += 1
        self._in_memory = True
        if self.idle:
            self.idle = False
            self._on_busy()

    def leave(self) -> None:
        """An operation has ended."""
        self._active -= 1
        if self._waits:
            self._look_soon()

    def pass_by(self, what: str) -> None:
        """Any use of the context comes by here: code that was left may not use it any more."""
        task = asyncio.current_task()
        assert task
        self._used_by.add(task)
        if task in self._left:
            self.swallowed = ParkedSwallowed(where=what)
            raise self.swallowed
        if self.leaving:
            self._left.add(task)
            raise self.leaving

    async def block(self, what: str, waits: Waits, until: int | None = None, *, in_memory: bool = False) -> None:
        """Wait until something has changed; the caller looks whether it is what it waits for. Or leave the code."""
        await self.block_for(what, {waits: until}, in_memory=in_memory)

    async def block_for(self, what: str, waits: Mapping[Waits, int | None], *, in_memory: bool = False) -> None:
        """The same for several things at once, each with the time when it is over by itself. `in_memory` is said of
        children: they may run just now."""
        self.pass_by(what)
        future = asyncio.get_running_loop().create_future()
        held = [Wait(kind, until, in_memory and kind is Waits.CHILDREN, future) for kind, until in waits.items()]
        self._waits.update(held)
        self._look_soon()
        try:
            await future
        except Unwind:
            task = asyncio.current_task()
            assert task
            self._left.add(task)
            raise
        finally:
            self._waits.difference_update(held)

    def stir(self) -> None:
        """Something has changed: let all that is blocked look again."""
        if self.leaving:
            return
        for wait in list(self._waits):
            if not wait.future.done():
                wait.future.set_result(None)

    def unwind(self, kind: Unwind) -> None:
        """Leave the code wherever it blocks, now and from now on."""
        if self.leaving:
            return
        self.leaving = kind
        self._on_leave()
        self.left_for = tuple(sorted({wait.waits for wait in self._waits}))
        self.left_until = min((wait.until for wait in self._waits if wait.until is not None), default=None)
        for wait in list(self._waits):
            if not wait.future.done():
                wait.future.set_exception(kind)

    def reset(self) -> None:
        """The code is about to be run from the top again."""
        self.leaving = self.swallowed = None
        self._active, self._in_memory, self.idle = 0, True, False
        self._waits.clear()

    def hold(self, kind: Unwind | None) -> None:
        """Leave the code in this way as soon as nothing is under way; with None, only when it can go no further."""
        self._kind = kind
        if kind:
            self.park_now()

    def stragglers(self) -> list[asyncio.Task[object]]:
        """Tasks of the code that still run although its main task has ended."""
        return [task for task in self._used_by if not task.done()]

    def _look_soon(self) -> None:
        self._patience = PATIENCE
        if self._check is None:
            self._check = asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._check = None
        if self._active or self.leaving or not self._waits or any(wait.future.done() for wait in self._waits):
            return
        if self._patience:
            self._patience -= 1
            self._check = asyncio.get_running_loop().call_soon(self._look)
            return
        if not self.idle:
            self.idle = True
            self._on_idle()
        if not (self._in_memory and any(wait.in_memory for wait in self._waits)):
            self.unwind(self._kind or Parked())

    def park_now(self) -> None:
        """Keep nothing in memory any more: what blocks is parked as soon as nothing is under way."""
        self._in_memory = False
        self._look_soon()
