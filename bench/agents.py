"""What an agent's turns cost: tools, many runs at once, very long runs. Every run is looked at afterwards.

`python -m bench.agents LOAD URL RUNS` does one load in a process of its own and prints what it took: so that its memory
is that of this load alone.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

from bench import floor
from bench.measure import Figure
from bench.mock_server import mock_server
from retinue import Agent, Retinue, tool
from retinue.core.events import Event
from retinue.core.run import fold
from retinue.models.config import ProviderConfig
from retinue.ports.models import ModelRequest
from retinue.settings import Settings
from retinue.testing import Reply, ScriptedModel, call

TURNS, LONG, EVENTS, CALLS_AT_ONCE = 20, 300, 10_000, 10
MANY, FEW = 200, 32
TURN = f"a durable tool turn over HTTP, of {TURNS} in a run, over the floor"
HTTP = f"{MANY} concurrent durable runs of 3 turns over HTTP"
MEMORY = "memory of the process meanwhile"
TEST = f"{FEW} concurrent runs of 4 model calls and 3 tool calls, test model"
UNITS = {
    TURN: ("ms", "≤ 0.6"),
    HTTP: ("runs/s", "≥ 600"),
    MEMORY: ("MB", "≤ 100"),
    f"{TEST}, in memory": ("runs/s", "≥ 1,000"),
    f"{TEST}, durable": ("runs/s", "≥ 500"),
    f"a run of {LONG} turns: its last 50 over its first 50": ("×", "about 1"),
    f"a run of {EVENTS:,} events of an agent resumes and ends": ("s", "≤ 0.3"),
}
Fresh = Callable[[], str]

numbers = count()


@tool
async def look(n: int = 0) -> int:
    """Gives another number each time."""
    return next(numbers)


@tool
async def ask_first() -> str:
    """Is called when a person allows it."""
    return "allowed"


def agent(model: str, *tools: object) -> Agent:
    limits = {"max_turns": None, "max_minutes": None}
    return Agent(
        "worker",
        description="Works.",
        instructions="You work.",
        tools=tools or [look],
        policy=[{"tool": "ask_first", "action": "ask"}],
        model=model,
        finish="text",
        limits=limits,
    )


def calling(times: int, at_once: int = 1, last: str = "") -> ScriptedModel:
    """A model that calls so often, then says that it is done; `last` is what it calls before that."""

    def script(request: ModelRequest) -> Reply:
        turn = len(request.messages) // 2
        if turn < times:
            return Reply(calls=[call("look", n=turn * at_once + place) for place in range(at_once)])
        return Reply(calls=[call(last)]) if last and turn == times else Reply(pieces=["done"])

    return ScriptedModel(script, "test")


def figures(rounds: int, runs: int, fresh: Fresh) -> list[Figure]:
    values: dict[str, list[float]] = {what: [] for what in UNITS}
    bare: list[float] = []
    with mock_server() as server:
        for _ in range(rounds):
            per_turn = asyncio.run(floor.tool_turns(fresh(), server, TURNS)) * 1000
            values[TURN].append(asyncio.run(tool_turns(fresh(), server)) * 1000 - per_turn)
            bare.append(asyncio.run(floor.runs_of_turns(fresh(), server, runs, MANY)))
            over_http, megabytes = elsewhere("http", fresh(), runs, server)
            values[HTTP].append(over_http)
            values[MEMORY].append(megabytes)
            values[f"{TEST}, in memory"].append(elsewhere("test", "sqlite://", runs)[0])
            values[f"{TEST}, durable"].append(elsewhere("test", fresh(), runs)[0])
            values[f"a run of {LONG} turns: its last 50 over its first 50"].append(asyncio.run(long_run(fresh())))
            values[f"a run of {EVENTS:,} events of an agent resumes and ends"].append(asyncio.run(resumed(fresh())))
    rows = [Figure(what, values[what], unit, target) for what, (unit, target) in UNITS.items()]
    return [*rows[:2], Figure(f"{HTTP}: {floor.NAME}", bare, "runs/s"), *rows[2:]]


def settings(server: str) -> Settings:
    return Settings(providers={"openai": ProviderConfig(base_url=server, api_key="none")})


async def tool_turns(url: str, server: str) -> float:
    """Seconds for each tool turn of a run, the median of some runs."""
    took = []
    async with Retinue.open(url, settings=settings(server), agents=[agent(f"openai:calls-{TURNS}")]) as app:
        for n in range(12):
            began = time.perf_counter()
            run = await app.submit("agent:worker", f"question {n}")
            outcome = await run.outcome()
            took.append((time.perf_counter() - began) / (TURNS + 1))
            assert outcome.reason == "goal", outcome
        await verify(app, 12, TURNS)
    return statistics.median(took[2:])


async def long_run(url: str) -> float:
    """How long the last turns of a long run took, over its first ones."""
    async with Retinue.open(url, agents=[agent("test")], models={"test": calling(LONG)}) as app:
        run = await app.submit("agent:worker", "go on and on")
        outcome = await run.outcome()
        assert outcome.reason == "goal", outcome
        began = [event.at async for event in journal(app, run.id) if event.type == "turn.started"]
        await verify(app, 1, LONG)
    return (began[-1] - began[-51]) / max(1, began[52] - began[2])


async def resumed(url: str) -> float:
    """Seconds from a person's word until the run has ended, in a process that has not seen it."""
    turns = EVENTS // (2 + 2 * CALLS_AT_ONCE)
    model, worker = calling(turns, CALLS_AT_ONCE, "ask_first"), agent("test", look, ask_first)
    async with Retinue.open(url, agents=[worker], models={"test": model}) as app:
        run = await app.submit("agent:worker", "go on and on")
        while not await run.tickets():
            await asyncio.sleep(0.02)
        assert (await run.row()).last_seq >= EVENTS * 0.99
    async with Retinue.open(url, agents=[worker], models={"test": model}) as app:
        (ticket,) = await app.tickets()
        began = time.perf_counter()
        await app.approve(ticket.id)
        outcome = await app.get(run.id).outcome()
        seconds = time.perf_counter() - began
        assert outcome.reason == "goal", outcome
        await verify(app, 1, turns * CALLS_AT_ONCE + 1)
    return seconds


async def journal(app: Retinue, run_id: str) -> AsyncIterator[Event]:
    after = 0
    while page := await app.service.events(run_id, after, 2000):
        for event in page:
            yield event
        after = page[-1].seq


async def verify(app: Retinue, runs: int, calls: int) -> None:
    """All of them ended well, and made each call once."""
    seen, before = 0, None
    while rows := await app.service.runs(before=before, limit=500):
        for row in rows:
            state = fold(row.id, [event async for event in journal(app, row.id)])
            assert state.outcome
            assert state.outcome.status == "completed", row
            assert [made.try_ for made in state.calls.values()] == [1] * calls, row
        seen, before = seen + len(rows), rows[-1].id
    assert seen == runs, f"{seen} of {runs} runs"


# Loads in processes of their own


def elsewhere(load: str, url: str, runs: int, *more: str) -> tuple[float, float]:
    """Runs a second, and the most memory that the process had until all had ended."""
    command = [sys.executable, "-m", "bench.agents", load, url, str(runs), *more]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    took = json.loads(said)
    return runs / took["seconds"], took["megabytes"]


@asynccontextmanager
async def worker_of(load: str, url: str, server: str) -> AsyncIterator[tuple[Retinue, int, int]]:
    """An app for a load, with how many runs are under way at once, and how many calls each makes."""
    if load == "http":
        opened, at_once, calls = (
            Retinue.open(url, settings=settings(server), agents=[agent("openai:calls-2")], concurrency=MANY),
            MANY,
            2,
        )
    else:
        opened, at_once, calls = Retinue.open(url, agents=[agent("test")], models={"test": calling(3)}), FEW, 3
    async with opened as app:
        yield app, at_once, calls


async def one_load(load: str, url: str, runs: int, server: str = "") -> dict[str, float]:
    """So many runs, some of them always under way."""
    async with worker_of(load, url, server) as (app, at_once, calls):
        questions = iter(range(runs))

        async def one_after_another() -> None:
            for n in questions:
                outcome = await app.run("agent:worker", f"question {n}")
                assert outcome.reason == "goal", outcome

        began = time.perf_counter()
        await together(one_after_another, at_once)
        seconds = time.perf_counter() - began
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        await verify(app, runs, calls)
    return {"seconds": seconds, "megabytes": megabytes}


async def together(work: Callable[[], Awaitable[None]], times: int) -> None:
    async def one() -> None:
        await work()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(times):
            tasks.create_task(one())


if __name__ == "__main__":
    load, url, runs, *more = sys.argv[1:]
    print(json.dumps(asyncio.run(one_load(load, url, int(runs), *more))))
