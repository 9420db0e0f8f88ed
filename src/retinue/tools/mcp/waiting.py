"""Time limits by the clock that everybody here goes by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from retinue.ports.clock import Clock


@contextmanager
def at_most(clock: Clock, seconds: float) -> Iterator[None]:
    """What is inside is cancelled when the time is over: `TimeoutError`."""
    with anyio.CancelScope() as scope:
        timer = clock.call_later(seconds, scope.cancel)
        try:
            yield
        finally:
            timer.cancel()
    if scope.cancelled_caught:
        raise TimeoutError
