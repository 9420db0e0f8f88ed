"""What the workers of the fault tests run: writes that take a while, and leave a line in the world when they happen."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from retinue import FunctionContext, OutcomeUnknown, current_call


def world() -> Path:
    return Path(os.environ["RETINUE_TEST_WORLD"])


async def effect(seconds: float) -> str:
    """Takes effect somewhere in the middle, once for each call: a line that is written whole or not at all."""
    await asyncio.sleep(seconds * random.random())
    line = f"{current_call().run_id} {current_call().call_id}\n".encode()
    file = os.open(world(), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)
    await asyncio.sleep(seconds * random.random())
    return "done"


async def one_write(ctx: FunctionContext, input: float) -> str:
    try:
        return str(await ctx.step("write", effect, input))
    except OutcomeUnknown:
        return "unknown"


async def two_writes(ctx: FunctionContext, input: float) -> list[str]:
    said = []
    for name in ("first", "second"):
        try:
            said.append(str(await ctx.step(name, effect, input)))
        except OutcomeUnknown:
            said.append("unknown")
    return said


async def rests_between(ctx: FunctionContext, input: float) -> str:
    """Each half may be another worker's."""
    await ctx.step("first", effect, input)
    await ctx.sleep(seconds=1)
    return str(await ctx.step("second", effect, input))


async def asks(ctx: FunctionContext, input: None) -> str:
    return f"hello {await ctx.wait('name', {'type': 'string'})}"


async def steps_on_and_on(ctx: FunctionContext, input: float) -> int:
    for number in range(10_000):
        await ctx.step("tick", asyncio.sleep, input, effect="read", key=str(number))
    return 10_000
