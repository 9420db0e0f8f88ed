"""What the benchmarks run."""

from __future__ import annotations

import asyncio
import time

from retinue import FunctionContext

stamps: dict[int, float] = {}


async def nothing(n: int) -> int:
    return n


async def three(ctx: FunctionContext, input: int) -> int:
    a = await ctx.step("a", nothing, input)
    b = await ctx.step("b", nothing, a)
    return int(await ctx.step("c", nothing, b))


async def many_steps(ctx: FunctionContext, input: int) -> int:
    for number in range(input):
        await ctx.step("step", nothing, number)
    return input


async def long_run(ctx: FunctionContext, input: int) -> int:
    for number in range(input):
        await ctx.step("step", nothing, number)
    await ctx.wait("go on")
    return input


async def stamp(ctx: FunctionContext, input: int) -> int:
    stamps[input] = time.perf_counter()
    return input


async def when(ctx: FunctionContext, input: int) -> float:
    return time.monotonic()


async def waits(ctx: FunctionContext, input: int) -> object:
    return await ctx.wait("something")


async def paced_steps(ctx: FunctionContext, input: int) -> int:
    """Works in small bites, as an agent does: two steps, then two milliseconds of thought."""
    for number in range(input):
        await ctx.step("look", nothing, number, effect="read")
        await ctx.step("write", nothing, number)
        await asyncio.sleep(0.002)
    return input
