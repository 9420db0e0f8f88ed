"""Bites who waits too long for an answer to go on."""

from __future__ import annotations

import asyncio
from typing import Protocol

from retinue.ports.clock import Clock, Timer


class Source(Protocol):
    """Something that is read from, and whose reader an exception reaches."""

    def set_exception(self, error: BaseException, /) -> None: ...


class Watchdog:
    """One timer for the whole of an answer, which looks at when the waiting began."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.seconds, self.bitten = seconds, False
        self._clock, self._patience = clock, round(seconds * 1000)
        self._limit: asyncio.Timeout | None = None
        self._source: Source | None = None
        self._until = 0
        self._timer: Timer = clock.call_later(seconds, self._look)

    def guards(self, limit: asyncio.Timeout | None, source: Source | None = None) -> None:
        """Whom to bite: who waits for an answer to begin; then who reads it."""
        self._limit, self._source = limit, source

    def waits(self) -> None:
        self._until = self._clock.now_ms() + self._patience

    def heard(self) -> None:
        """Something came. As long as its reader is busy with it, nobody waits."""
        self._until = 0

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left = (self._until - self._clock.now_ms()) / 1000 if self._until else self.seconds
        if left > 0:
            self._timer = self._clock.call_later(left, self._look)
            return
        self.bitten = True
        if self._limit:
            self._limit.reschedule(0)
        if self._source:
            self._source.set_exception(TimeoutError())
