"""Waiting for what servers do, on a clock that is set by hand."""

from __future__ import annotations

import asyncio

import pytest

from retinue.testing.clock import SetClock
from retinue.tools.mcp.pool import McpPool
from tests.conftest import eventually


async def logged(log: pytest.LogCaptureFixture, text: str) -> None:
    """A server has said it."""

    async def holds() -> bool:
        return text in log.text

    await eventually(holds)


async def problems_after(
    pool: McpPool, clock: SetClock, seconds: float, said: str, log: pytest.LogCaptureFixture
) -> list[str]:
    """The problems of one who waits that long for the shared servers, from when one of them has said something."""

    async def problems() -> list[str]:
        async with pool.connected(pool.names) as box:
            return list(box.problems)

    waiting = asyncio.create_task(problems())
    await logged(log, said)
    clock.advance(seconds)
    return await waiting
