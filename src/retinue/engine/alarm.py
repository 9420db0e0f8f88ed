"""Something that strikes once, and interrupts whoever works under it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from retinue.ports.clock import Clock


class Rung(Exception):
    """The alarm has struck, and the work under it was left."""


class Alarm:
    """Rings once. It can be rung before anybody listens."""

    def __init__(self) -> None:
        self.rung = False
        self._strikes: dict[Callable[[], None], None] = {}

    def ring(self) -> None:
        self.rung = True
        for strike in list(self._strikes):
            strike()

    @contextmanager
    def calling(self, strike: Callable[[], None]) -> Iterator[None]:
        """Have something called when it rings, also if it has."""
        if self.rung:
            strike()
        self._strikes[strike] = None
        try:
            yield
        finally:
            del self._strikes[strike]

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Cancel this task when it rings, and raise `Rung` where it is left for that and nothing else."""
        if self.rung:
            raise Rung
        task = asyncio.current_task()
        assert task
        struck, cancels = False, task.cancelling()

        def strike() -> None:
            nonlocal struck
            struck = True
            task.cancel()

        self._strikes[strike] = None
        try:
            yield
        except asyncio.CancelledError:
            if struck and task.cancelling() <= cancels + 1:
                raise Rung from None
            raise
        finally:
            del self._strikes[strike]
            if struck:  # also when the code went on in spite of it: a later one must not take this cancel for its own
                task.uncancel()


@contextmanager
def time_limit(clock: Clock, seconds: float | None) -> Iterator[None]:
    """Like asyncio.timeout, on the engine's clock."""
    if seconds is None:
        yield
        return
    alarm = Alarm()
    timer = clock.call_later(seconds, alarm.ring)
    try:
        with alarm.interrupting():
            yield
    except Rung:
        raise TimeoutError from None
    finally:
        timer.cancel()
