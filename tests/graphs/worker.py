"""A worker that knows a graph, as a process: `python -m tests.graphs.worker URL CONCURRENCY LEASE`."""

from __future__ import annotations

import asyncio
import sys

from retinue import FunctionContext, Graph
from tests.faults.jobs import effect
from tests.faults.worker import main


async def items(ctx: FunctionContext, input: int) -> list[int]:
    return list(range(input))


async def one(ctx: FunctionContext, input: int) -> int:
    """An effect that is there once for each key, however often it is tried."""
    await ctx.step("write", effect, 0.02, effect="idempotent")
    return input * 2


EVERY = Graph(
    "every",
    nodes={
        "list": {"run": "function:tests.graphs.worker:items"},
        "every": {
            "run": "function:tests.graphs.worker:one",
            "needs": ["list"],
            "each": "{{ list.output }}",
            "parallel": 8,
        },
        "sum": {"run": "model:test", "needs": ["every"], "input": "{{ every.output | sum }}"},
    },
    output="{{ every.output }}",
)

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:], graphs=[EVERY]))
