"""Notices that a model has fallen silent, for models that have nobody else who does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from retinue.ports.clock import Clock, Timer
from retinue.ports.models import Said


async def until_silent(saying: AsyncGenerator[Said, None], clock: Clock, seconds: float) -> AsyncGenerator[Said, None]:
    """What a model says. Raises `TimeoutError`, and stops it, when nothing comes for so long."""
    listener = _Listener(clock, seconds)
    try:
        async with aclosing(saying):
            while (said := await listener.next(saying)) is not None:
                yield said
    finally:
        listener.stop()


class _Listener:
    """One timer for the whole of an answer, which looks at when the waiting began: pieces come by the thousand."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds, self._patience = clock, seconds, round(seconds * 1000)
        self._waiting: asyncio.Task[object] | None = None
        self._until = 0
        self._struck = False
        self._timer: Timer = clock.call_later(seconds, self._look)

    async def next(self, saying: AsyncGenerator[Said, None]) -> Said | None:
        """The next piece, or nothing at the end. As long as somebody is busy with a piece, nobody waits."""
        task = asyncio.current_task()
        assert task
        cancels = task.cancelling()
        self._waiting, self._until = task, self._clock.now_ms() + self._patience
        try:
            return await anext(saying, None)
        except asyncio.CancelledError:
            if self._struck and task.cancelling() <= cancels + 1:
                raise TimeoutError from None
            raise
        finally:
            self._waiting = None
            if self._struck:
                task.uncancel()

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left = (self._until - self._clock.now_ms()) / 1000 if self._waiting else self._seconds
        if left > 0 or not self._waiting:
            self._timer = self._clock.call_later(left, self._look)
            return
        self._struck = True
        self._waiting.cancel()
