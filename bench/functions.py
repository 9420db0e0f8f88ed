"""What the benchmarks run."""

from __future__ import annotations

from retinue import FunctionContext


async def nothing(n: int) -> int:
    return n


async def three(ctx: FunctionContext, input: int) -> int:
    a = await ctx.step("a", nothing, input)
    b = await ctx.step("b", nothing, a)
    return int(await ctx.step("c", nothing, b))
