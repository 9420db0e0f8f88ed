"""Time for tests of agents: a model whose delays pass on the set clock, and ways to wait for what others do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from retinue.core.messages import text_of
from retinue.ports.models import ModelRequest
from retinue.testing import Reply, SetClock
from tests.agents.acting import Actor

NEVER = Reply(first=1e9)
"""An answer for which nobody waits until it comes."""


class Paced(Actor):
    """An actor on the set clock. A line may also be made of what it was asked."""

    def __init__(self, clock: SetClock, *lines: Any, **options: Any) -> None:
        super().__init__(*lines, **options)
        self._clock = clock

    def _next(self, request: ModelRequest) -> Reply:
        line: Any = self._lines[min(len(self.requests), len(self._lines) - 1)]
        if not callable(line):
            return super()._next(request)
        self.requests.append(request)
        made: Reply = line(request)
        return made


async def until(true: Callable[[], bool]) -> None:
    """Let others work until it is so."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0)


async def pass_slowly(clock: SetClock, seconds: float) -> None:
    """Move the clock, and let others do what is due."""
    clock.advance(seconds)
    for _ in range(50):
        await asyncio.sleep(0)


def said_to(request: ModelRequest) -> list[str]:
    """What people and the run itself said, one text for each user turn."""
    return [text_of(message.parts) for message in request.messages if message.role == "user"]
