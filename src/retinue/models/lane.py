"""The way to one provider: so many calls at once, so many a minute from this process; who comes first goes first."""

from __future__ import annotations

import asyncio
from collections import deque

from retinue.errors import ModelBusy
from retinue.ports.clock import Clock, Timer

MINUTE = 60_000


class Lane:
    """A place in it is taken with `enter` and given back with `leave`."""

    def __init__(self, clock: Clock, at_once: int | None = None, per_minute: int | None = None) -> None:
        self._clock, self._at_once, self._per_minute = clock, at_once, per_minute
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._started: deque[int] = deque()
        self._timer: Timer | None = None
        self.under_way = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def enter(self, model: str, deadline: int | None = None) -> None:
        """Return when it is one's turn. Raises `ModelBusy` where that is after the deadline."""
        if not self._waiting and self._open():
            self._take()
            return
        if deadline is not None and self._opens_at(len(self._waiting)) >= deadline:
            raise self._too_late(model)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        timer = None
        if deadline is not None:
            timer = self._clock.call_later((deadline - self._clock.now_ms()) / 1000, lambda: self._give_up(turn, model))
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and not turn.exception():
                self._undo()  # it was given a place in the very moment in which it was cancelled
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        finally:
            if timer:
                timer.cancel()

    def leave(self) -> None:
        self.under_way -= 1
        self._admit()

    def _open(self) -> bool:
        if self._at_once is not None and self.under_way >= self._at_once:
            return False
        return self._per_minute is None or self._opens_at(0) <= self._clock.now_ms()

    def _opens_at(self, ahead: int) -> int:
        """The earliest time at which a call with so many before it may start, by the calls that have started."""
        now = self._clock.now_ms()
        if self._per_minute is None:
            return now
        while self._started and self._started[0] <= now - MINUTE:
            self._started.popleft()
        minutes, before = divmod(len(self._started) + ahead, self._per_minute)
        if minutes == 0:
            return now
        first = self._started[before] if before < len(self._started) else now
        return first + minutes * MINUTE

    def _take(self) -> None:
        self.under_way += 1
        if self._per_minute is not None:
            self._started.append(self._clock.now_ms())

    def _undo(self) -> None:
        if self._started:
            self._started.pop()
        self.leave()

    def _admit(self) -> None:
        """Give places to those who wait, in their order, and look again when the minute has a place."""
        while self._waiting and self._open():
            turn = self._waiting.popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)
        if self._waiting and self._timer is None and self._per_minute is not None:
            wait = (self._opens_at(0) - self._clock.now_ms()) / 1000
            if wait > 0:
                self._timer = self._clock.call_later(wait, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._admit()

    def _give_up(self, turn: asyncio.Future[None], model: str) -> None:
        if not turn.done():
            turn.set_exception(self._too_late(model))

    def _too_late(self, model: str) -> ModelBusy:
        problem = f"{self.under_way} calls are under way and {self.waiting} wait, so that its turn is past the deadline"
        return ModelBusy(model=model, problem=problem, too_late=True)
