"""A reader as a process: `python -m tests.agents.onlooker URL RUN_ID` prints what it sees, a line of JSON each."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from retinue import Delta, Retinue
from retinue.core.events import Event, as_dict


async def main(url: str, run_id: str) -> None:
    async with Retinue.open(url, worker=False) as app:
        async for seen in app.get(run_id).follow():
            if isinstance(seen, Delta):
                print(msgspec.json.encode({"offset": seen.offset, "text": seen.text}).decode(), flush=True)
            elif isinstance(seen, Event):
                print(msgspec.json.encode({"type": seen.type, "data": as_dict(seen.data)}).decode(), flush=True)


asyncio.run(main(*sys.argv[1:]))
