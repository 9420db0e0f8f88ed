"""What the nodes of the tests' graphs run: durable functions that say what they were given."""

from __future__ import annotations

from typing import Any

from retinue import FunctionContext, Graph
from tests.outside import outside


def does(name: str, **more: Any) -> dict[str, Any]:
    """A node that runs one of these functions."""
    return {"run": f"function:tests.graphs.work:{name}", **more}


def graph(nodes: dict[str, Any], **more: Any) -> Graph:
    return Graph("g", nodes=nodes, **more)


async def echo(ctx: FunctionContext, input: Any) -> Any:
    return input


async def note(ctx: FunctionContext, input: Any) -> Any:
    """An effect."""
    return await ctx.step("note", outside.put, input, effect="idempotent")


async def door(ctx: FunctionContext, input: Any) -> Any:
    """It runs until the door is open."""
    return await ctx.step("wait", outside.wait_at_door, input)


async def fail(ctx: FunctionContext, input: Any) -> Any:
    raise ValueError(f"no {input}")


async def fail_twice(ctx: FunctionContext, input: Any) -> Any:
    outside.done.append(input)
    if len(outside.done) < 3:
        raise ValueError("not yet")
    return len(outside.done)


async def items(ctx: FunctionContext, input: Any) -> Any:
    return list(range(int(input)))


async def odd_fails(ctx: FunctionContext, input: Any) -> Any:
    if input % 2:
        raise ValueError(f"{input} is odd")
    return input


async def revise(ctx: FunctionContext, input: Any) -> Any:
    """Content with the third draft."""
    return {"verdict": "ok" if input >= 3 else "revise"}


async def spawn(ctx: FunctionContext, input: Any) -> Any:
    return {"nodes": {f"more{n}": does("note", input=n) for n in range(int(input))}}


async def sleep(ctx: FunctionContext, input: Any) -> Any:
    """It takes a day."""
    await ctx.sleep(hours=24)
    return input
