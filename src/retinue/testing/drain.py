"""Letting an app run until there is nothing to do."""

from __future__ import annotations

import asyncio

from retinue.app import Retinue
from retinue.core.outcome import Status


async def drain(app: Retinue, *, seconds: float = 20.0) -> None:
    """Wait until nothing runs and nothing is queued: all has ended or waits for people or for time to pass."""
    async with asyncio.timeout(seconds):
        while not await at_rest(app):
            await asyncio.sleep(0.001)


async def at_rest(app: Retinue) -> bool:
    if app.worker.attempts:
        return False
    now = await app.services.store.now()
    queued = await app.services.store.runs(status=Status.QUEUED.value, limit=1000)
    running = await app.services.store.runs(status=Status.RUNNING.value, limit=1)
    return not running and not any(row.due_at <= now and row.after_run_id is None for row in queued)
