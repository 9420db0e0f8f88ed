"""A clock that is set by hand: time passes when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from retinue.ports.clock import Timer

START_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z


@dataclass(slots=True, eq=False)
class SetTimer:
    """A callback and the time that it waits for."""

    clock: SetClock
    at: int
    callback: Callable[[], object]

    def cancel(self) -> None:
        self.clock.forget(self)


class SetClock:
    """See `retinue.ports.clock.Clock`."""

    database = False

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now = now_ms
        self._timers: list[SetTimer] = []

    def now_ms(self) -> int:
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        if seconds <= 0:
            return asyncio.get_running_loop().call_soon(callback)
        timer = SetTimer(self, self._now + round(seconds * 1000), callback)
        self._timers.append(timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has been moved that far."""
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> None:
        self.set(self._now + round(seconds * 1000))

    def set(self, ms: int) -> None:
        """Move the clock, forward or back; what waits for a time that has come happens, in order of time."""
        self._now = ms
        for timer in sorted(self._timers, key=lambda timer: timer.at):
            if timer.at <= ms and timer in self._timers:
                self._timers.remove(timer)
                timer.callback()

    def forget(self, timer: SetTimer) -> None:
        if timer in self._timers:
            self._timers.remove(timer)
