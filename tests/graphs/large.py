"""A node over very many items, in a process of its own: `python -m tests.graphs.large URL ITEMS` says what it took."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from retinue import Graph, Retinue
from retinue.testing import Reply, ScriptedModel

EVERY = Graph(
    "every", nodes={"every": {"run": "model:m", "each": "{{ range(input) | list }}", "input": "Say {{ item }}"}}
)


async def main(url: str, items: str) -> None:
    model = ScriptedModel(lambda request: Reply(pieces=["said"]))
    async with Retinue.open(url, graphs=[EVERY], models={"m": model}) as app:
        outcome = await app.run("graph:every", int(items))
    assert outcome.output == {"every": ["said"] * int(items)}, outcome.error
    said = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    print(int(said["VmHWM"].split()[0]) // 1024)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
