"""One run alone: what a durable step costs, how soon a submitted run starts, how a very long run behaves."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from bench.functions import long_run, many_steps, stamps
from retinue import Retinue
from retinue.core.outcome import Status
from retinue.core.run import fold


async def step_seconds(url: str, steps: int) -> float:
    """Seconds for each of many sequential write steps of one run."""
    async with Retinue.open(url) as app:
        await app.run(many_steps, 1)
        started = time.perf_counter()
        outcome = await app.run(many_steps, steps)
        seconds = time.perf_counter() - started
        assert outcome.output == steps
    return seconds / steps


async def submit_to_start(url: str, runs: int) -> float:
    """Median milliseconds from the call of submit to the first line of the function, in this process."""
    stamps.clear()
    async with Retinue.open(url) as app:
        delays = []
        for number in range(runs):
            asked = time.perf_counter()
            outcome = await app.run("function:bench.functions:stamp", number)
            assert outcome.output == number
            delays.append(stamps[number] - asked)
            await asyncio.sleep(0.003)
    return statistics.median(delays) * 1000


WORKER = """
import asyncio, sys
from retinue import Retinue
async def main():
    async with Retinue.open(sys.argv[1]) as app:
        await app.worker.ready()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


async def submit_to_start_elsewhere(url: str, runs: int) -> float:
    """The same with the worker in another process; the clock of the machine is one for both."""
    async with Retinue.open(url, worker=False) as app:
        command = [sys.executable, "-c", WORKER, url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            delays = []
            for number in range(runs):
                asked = time.monotonic()
                outcome = await app.run("function:bench.functions:when", number)
                assert isinstance(outcome.output, float)
                delays.append(outcome.output - asked)
                await asyncio.sleep(0.01)
            process.communicate()
    return statistics.median(delays[5:]) * 1000


async def long_journal(url: str, events: int) -> tuple[float, float]:
    """Seconds to resume a run with that many events, and how its last thousand steps compare with its first."""
    steps = events // 2
    async with Retinue.open(url) as app:
        run = await app.submit(long_run, steps)
        while not (await run.tickets()):
            await asyncio.sleep(0.02)
        journal = await app.service.events(run.id, limit=events * 2)
        finished = [event.at for event in journal if event.type == "tool.finished"]
        first, last = finished[1000] - finished[0], finished[-1] - finished[-1001]
        row = await run.row()
        assert row.status is Status.WAITING
    async with Retinue.open(url) as app:
        (ticket,) = await app.tickets()
        started = time.perf_counter()
        await app.answer(ticket.id, "go on")
        outcome = await app.get(run.id).outcome()
        seconds = time.perf_counter() - started
        assert outcome.output == steps
        journal = await app.service.events(run.id, limit=events * 2)
        assert fold(run.id, journal).terminal
    return seconds, last / max(1, first)
