"""A worker as a process: `python -m tests.faults.worker URL CONCURRENCY LEASE`. SIGTERM lets it finish."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Any

from retinue import Retinue


async def main(url: str, concurrency: str, lease: str, **options: Any) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with Retinue.open(url, concurrency=int(concurrency), lease=float(lease), **options) as app:
        await app.worker.ready()
        print(f"working as {app.worker.id}", flush=True)
        await stopped.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(main(*sys.argv[1:]))
