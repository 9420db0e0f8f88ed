"""The database's time."""

from __future__ import annotations

from collections.abc import Callable

from retinue.ports.clock import Clock, Timer


class DatabaseClock:
    """What the database's clock said at the last commit, and what has passed here since.

    Machines whose own clocks differ agree on it: who sleeps on one is woken at the same time on another.
    """

    def __init__(self, here: Clock) -> None:
        self._here, self._ahead_ms = here, 0
        self.database = here.database

    def now_ms(self) -> int:
        return self._here.now_ms() + self._ahead_ms

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return self._here.call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        await self._here.sleep(seconds)

    def told(self, asked_ms: int, answer_ms: int) -> None:
        """The database was asked for the time at `asked_ms` by the clock here."""
        self._ahead_ms = answer_ms - asked_ms
