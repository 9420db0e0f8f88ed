"""Children: one tree, one slot at a time, nobody left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from retinue import ChildFailed, FunctionContext, Retinue
from retinue.testing import SetClock, drain
from tests.outside import ended, outside, types_of


@pytest.fixture
async def narrow(clock: SetClock) -> AsyncIterator[Retinue]:
    """An app with a single slot."""
    async with Retinue.open("sqlite://", clock=clock, grace=0, concurrency=1) as app:
        yield app


async def leaf(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.step("leaf", outside.act, input)


async def busy(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.step("work", outside.wait_at_door, effect="read")


async def ask(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.wait("question")


async def broken(ctx: FunctionContext, input: Any) -> None:
    raise ValueError("no")


async def chain(ctx: FunctionContext, input: int) -> Any:
    return await ctx.child(chain, input - 1) if input else "end"


async def parent(ctx: FunctionContext, input: str) -> Any:
    return await ctx.child(input)


NAMES = {function.__name__: f"function:{__name__}:{function.__name__}" for function in (leaf, busy, ask, broken)}


async def test_a_parent_gives_its_slot_back_while_its_children_run(narrow: Retinue) -> None:
    run = await narrow.submit(chain, 5)
    assert (await ended(narrow, run)).output == "end"
    assert "run.waiting" not in await types_of(run)


async def test_a_parent_parks_after_thirty_seconds_in_memory(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(parent, NAMES["busy"])
    await outside.at_door.wait()
    while app.worker.attempts[run.id]._active_since is not None:
        await asyncio.sleep(0)
    clock.advance(29)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (await run.row()).status == "running"
    clock.advance(1)
    while (await run.row()).status == "running":
        await asyncio.sleep(0)
    assert (await run.row()).waits_for == "children"
    outside.door.set()
    assert (await ended(app, run)).output == "door"


async def test_a_parent_parks_at_once_when_its_only_child_parks(app: Retinue) -> None:
    run = await app.submit(parent, NAMES["ask"])
    await drain(app)
    assert (await run.row()).waits_for == "children"
    await app.answer((await run.tickets())[0].id, "yes")
    assert (await ended(app, run)).output == "yes"


async def many(ctx: FunctionContext, input: int) -> Any:
    return await asyncio.gather(*(ctx.child(leaf, n, key=str(n)) for n in range(input)))


async def test_many_children_at_once_give_their_outputs_in_order(narrow: Retinue) -> None:
    assert (await ended(narrow, await narrow.submit(many, 20))).output == list(range(20))


async def in_background(ctx: FunctionContext, input: Any) -> str:
    await ctx.start(busy)
    return "went ahead"


async def test_a_run_ends_when_its_background_children_have(app: Retinue) -> None:
    run = await app.submit(in_background)
    await outside.at_door.wait()
    while (await run.row()).status == "running":
        await asyncio.sleep(0)
    assert (await run.row()).waits_for == "children"
    outside.door.set()
    assert (await ended(app, run)).output == "went ahead"


async def catching(ctx: FunctionContext, input: Any) -> Any:
    try:
        await ctx.child(broken)
    except ChildFailed as error:
        return [error.status, error.reason, error.message]


async def test_a_failed_child_raises_child_failed(app: Retinue) -> None:
    assert (await ended(app, await app.submit(catching))).output == ["failed", "tool_error", "no"]
    outcome = await ended(app, await app.submit(parent, NAMES["broken"]))
    assert (outcome.status, outcome.error and outcome.error.kind) == ("failed", "ChildFailed")


async def failing(ctx: FunctionContext, input: Any) -> None:
    await ctx.start(ask)
    await ctx.start(busy)
    await ctx.step("look", outside.at_door.wait, effect="read")
    raise ValueError("no")


async def test_a_parent_that_fails_cancels_its_children(app: Retinue) -> None:
    run = await app.submit(failing)
    assert (await ended(app, run)).status == "failed"
    assert [row.status.value for row in await app.service.tree(run.id)] == ["failed", "cancelled", "cancelled"]


async def test_children_inherit_owner_and_priority(app: Retinue) -> None:
    run = await app.submit(chain, 2, owner="ada", priority=7)
    await ended(app, run)
    rows = await app.service.tree(run.id)
    assert {(row.owner, row.priority) for row in rows} == {("ada", 7)}
    assert sorted(row.depth for row in rows) == [0, 1, 2]


async def twice(ctx: FunctionContext, input: Any) -> Any:
    handles = [await ctx.start(leaf, n, key="same") for n in range(2)]
    return [(await handle.outcome()).output for handle in handles]


async def at_once(ctx: FunctionContext, input: Any) -> Any:
    return await asyncio.gather(*(ctx.child(leaf, 0, key="same") for _ in range(2)))


@pytest.mark.parametrize("function", [twice, at_once])
async def test_one_call_has_one_child(app: Retinue, function: Any) -> None:
    run = await app.submit(function)
    assert (await ended(app, run)).output == [0, 0]
    assert len(await app.service.tree(run.id)) == 2


async def test_a_child_that_ends_as_its_parent_parks_is_not_missed(app: Retinue, clock: SetClock) -> None:
    for turns in range(30):
        outside.reset()
        run = await app.submit(parent, NAMES["busy"])
        await outside.at_door.wait()
        while app.worker.attempts[run.id]._active_since is not None:
            await asyncio.sleep(0)
        clock.advance(30)
        for _ in range(turns):
            await asyncio.sleep(0)
        outside.door.set()
        assert (await ended(app, run)).output == "door"
