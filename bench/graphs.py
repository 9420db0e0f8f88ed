"""Graphs: what they add to the runs of their nodes, in time and in memory.

`python -m bench.graphs URL ITEMS` runs one node over so many items and says how much memory the process had at most.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import Figure
from bench.mock_server import mock_server
from retinue import Graph, Retinue
from retinue.models.config import ProviderConfig
from retinue.settings import Settings

WIDE, DELAY = 100, 0.1
NODES, ITEMS, AT_ONCE = 10_000, 100_000, 64
Nodes = dict[str, dict[str, Any]]


def figures(rounds: int, fresh: Callable[[], str]) -> list[Figure]:
    over, shares = [], {n: list[float]() for n in (WIDE, NODES)}
    with mock_server() as url:
        for _ in range(rounds):
            over.append((asyncio.run(makespan(fresh(), url)) - 3 * DELAY) * 1e3)
    for _ in range(rounds):
        for count, found in shares.items():
            found.append(asyncio.run(share(count)) * 1e3)
    return [
        Figure(f"1 → {WIDE} → 1 over HTTP, durable, over the critical path of three calls", over, "ms", "≤ 60"),
        *(
            Figure(
                f"CPU for each of {count:,} nodes on `test`, over the same runs without a graph", found, "ms", "≤ 0.3"
            )
            for count, found in shares.items()
        ),
        Figure(f"a graph {NODES:,} deep is read and checked", [_check(deep(NODES)) for _ in range(rounds)], "s", "≤ 1"),
        Figure(f"a graph {NODES:,} wide is read and checked", [_check(wide(NODES)) for _ in range(rounds)], "s", "≤ 1"),
        Figure(f"memory of a process that runs a node for each of {ITEMS:,} items", [memory()], "MiB", "≤ 300"),
    ]


def deep(count: int) -> Nodes:
    return {f"n{n}": {"run": "model:test", "needs": [f"n{n - 1}"] if n else [], "input": "x"} for n in range(count)}


def wide(count: int) -> Nodes:
    return {f"n{n}": {"run": "model:test", "input": "x"} for n in range(count)}


async def makespan(database: str, url: str) -> float:
    """Seconds from the submit until the end of one call, then a hundred at once, then one."""
    slow = {"run": f"model:openai:pace-1-{DELAY * 1000:.0f}", "input": "Say something."}
    nodes: Nodes = {"first": slow, **{f"n{n}": {**slow, "needs": ["first"]} for n in range(WIDE)}}
    nodes["last"] = {**slow, "needs": [f"n{n}" for n in range(WIDE)]}
    there = ProviderConfig(api_key="sk-mock", base_url=url, concurrency=2 * WIDE)
    graph = Graph("fan", nodes=nodes, limits={"parallel": 2 * WIDE})
    settings = Settings(providers={"openai": there})
    async with Retinue.open(database, graphs=[graph], settings=settings, concurrency=2 * WIDE) as app:
        await app.run(slow["run"], "Hello")  # a connection is there, and what is loaded when first used
        began = time.perf_counter()
        outcome = await app.run("graph:fan")
        took = time.perf_counter() - began
    assert outcome.status == "completed", outcome.error
    return took


async def share(count: int) -> float:
    """Seconds of CPU for each node, without what its run costs when no graph asks for it."""
    times = max(1, NODES // count // 5)
    graph = Graph("wide", nodes=wide(count), output="done", limits={"parallel": AT_ONCE})
    async with Retinue.open("sqlite://", graphs=[graph], concurrency=2 * AT_ONCE) as app:
        await app.run("model:test", "x")
        began = time.process_time()
        for _ in range(times):
            outcome = await app.run("graph:wide")
            assert outcome.output == "done", outcome.error
        whole = time.process_time() - began
        numbers = iter(range(count * times))

        async def one_after_another() -> None:
            for _ in numbers:
                await app.run("model:test", "x")

        began = time.process_time()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(one_after_another())
        return (whole - (time.process_time() - began)) / (count * times)


def _check(nodes: Nodes) -> float:
    began = time.perf_counter()
    Graph("large", nodes=nodes)
    return time.perf_counter() - began


def memory() -> float:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=".") as folder:
        command = [sys.executable, "-m", "bench.graphs", f"sqlite:///{folder}/items.db", str(ITEMS)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def over_items(url: str, items: str) -> None:
    node = {"run": "model:test", "each": "{{ range(input) | list }}", "input": "Say {{ item }}"}
    async with Retinue.open(url, graphs=[Graph("items", nodes={"every": node})]) as app:
        outcome = await app.run("graph:items", int(items))
    assert isinstance(outcome.output, dict), outcome.error
    assert len(outcome.output["every"]) == int(items)


def most_memory() -> int:
    """In MiB."""
    said = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(said["VmHWM"].split()[0]) // 1024


if __name__ == "__main__":
    asyncio.run(over_items(*sys.argv[1:]))
    print(most_memory())
