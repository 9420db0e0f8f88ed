"""A run with everything in it, and an outside world that remembers what was done to it."""

from __future__ import annotations

import os
from pathlib import Path

from retinue import Done, FunctionContext, OutcomeUnknown, Retinue, Run, current_call
from retinue.testing import Scenario


class World:
    """A file with a line for each effect, so that it outlives the process."""

    @property
    def path(self) -> Path:
        return Path(os.environ["RETINUE_TEST_WORLD"])

    def reset(self) -> None:
        self.path.write_text("")

    def effects(self) -> list[str]:
        return self.path.read_text().splitlines()

    def done(self, name: str) -> int:
        return sum(line.split()[0] == name for line in self.effects())

    def knows(self, key: str) -> bool:
        return any(line.split()[1] == key for line in self.effects())


world = World()


async def act(name: str) -> str:
    with world.path.open("a") as file:
        file.write(f"{name} {current_call().idempotency_key}\n")
    return f"did {name}"


async def put(name: str) -> str:
    return f"did {name}" if world.knows(current_call().idempotency_key) else await act(name)


async def look(name: str) -> str:
    return f"saw {name}"


async def happened(key: str) -> Done | None:
    return Done("did checked") if world.knows(key) else None


async def child(ctx: FunctionContext, input: str) -> str:
    await ctx.sleep(minutes=5)
    return str(await guarded(ctx, f"child-{input}"))


async def quick(ctx: FunctionContext, input: str) -> str:
    return str(await guarded(ctx, f"quick-{input}"))


async def endless(ctx: FunctionContext, input: None) -> None:
    await ctx.wait("never")


async def guarded(ctx: FunctionContext, name: str) -> str:
    """A write that says `unknown` when nobody can tell."""
    try:
        return str(await ctx.step(name, act, name))
    except OutcomeUnknown:
        return f"unknown {name}"


async def reference(ctx: FunctionContext, input: str) -> list[object]:
    said: list[object] = [await ctx.step("look", look, input, effect="read")]
    said.append(await ctx.step("put", put, "put", effect="idempotent"))
    said.append(await guarded(ctx, "write"))
    said.append(await ctx.step("checked", act, "checked", check=happened))
    await ctx.sleep(hours=1)
    said.append(await ctx.wait("name", {"type": "string"}))
    background = await ctx.start(child, "beside")
    doomed = await ctx.start(endless)
    said.append(await ctx.child(quick, "front"))
    said.append(await ctx.child("model:test", "hello"))
    said.append((await background.outcome()).output)
    said.append((await doomed.outcome()).status)
    if world.done("mended") == 0:
        await ctx.step("broken", fail, effect="read")
    said.append(await ctx.step("mended", look, "mended", effect="read"))
    return said


async def fail() -> None:
    raise ConnectionError("not yet")


async def people(app: Retinue, run: Run) -> bool:
    """Answers what it is asked, and stops what would never end."""
    did = False
    for ticket in await run.tickets():
        if ticket.title == "name":
            await app.answer(ticket.id, "Ada")
        else:
            await app.get(ticket.run_id).cancel("enough")
        did = True
    return did


async def mend_and_retry(app: Retinue, run: Run) -> Run | None:
    if (await run.outcome()).status == "completed":
        return None
    if world.done("mended") == 0:
        with world.path.open("a") as file:
            file.write("mended by-hand\n")
    return await run.retry(idempotency_key=f"retry-{run.id}")


scenario = Scenario(target=reference, input="tea", people=people, then=mend_and_retry, begin=world.reset)
