"""Time, as the engine sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Where time comes from. `database` says that a database server's own clock is to be used where there is one."""

    database: bool

    def now_ms(self) -> int: ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    database = True

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
