"""The gate: idle when nothing is under way and something blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from retinue.core.outcome import Waits
from retinue.engine.gate import Gate
from retinue.errors import Parked, ParkedSwallowed, Released


class Told:
    """A gate, and what it tells."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.gate = Gate(
            lambda: self.words.append("idle"), lambda: self.words.append("busy"), lambda: self.words.append("leave")
        )

    def begin(self, code: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(code)

    async def operation(self, door: asyncio.Event) -> None:
        self.gate.enter("work")
        try:
            await door.wait()
        finally:
            self.gate.leave()


async def turns(n: int = 30) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


@pytest.fixture
async def told() -> Told:
    return Told()


async def test_what_blocks_alone_is_left(told: Told) -> None:
    with pytest.raises(Parked):
        await told.gate.block("nap", Waits.TIMER, 7)
    assert (told.gate.left_for, told.gate.left_until) == ((Waits.TIMER,), 7)
    assert told.words == ["idle", "leave"]


async def test_nothing_is_left_while_an_operation_is_under_way(told: Told) -> None:
    door = asyncio.Event()
    working = told.begin(told.operation(door))
    blocked = told.begin(told.gate.block("nap", Waits.TIMER, 7))
    await turns()
    assert told.words == []
    door.set()
    await turns()
    assert told.words == ["idle", "leave"]
    assert isinstance(blocked.exception(), Parked)
    await working


async def test_all_that_blocks_is_left_for_all_reasons_until_the_first_time(told: Told) -> None:
    waits = [(Waits.TIMER, 9), (Waits.INPUT, None), (Waits.TIMER, 5)]
    tasks = [told.begin(told.gate.block("x", why, until)) for why, until in waits]
    await turns()
    assert all(isinstance(task.exception(), Parked) for task in tasks)
    assert (told.gate.left_for, told.gate.left_until) == ((Waits.INPUT, Waits.TIMER), 5)


async def test_what_may_be_short_stays_in_memory_until_it_may_not(told: Told) -> None:
    blocked = told.begin(told.gate.block("child", Waits.CHILDREN, in_memory=True))
    await turns()
    assert told.words == ["idle"]
    assert not blocked.done()
    told.gate.park_now()
    await turns()
    assert isinstance(blocked.exception(), Parked)


async def test_a_stir_lets_what_blocks_look_again(told: Told) -> None:
    blocked = told.begin(told.gate.block("child", Waits.CHILDREN, in_memory=True))
    await turns()
    told.gate.stir()
    await blocked
    await told.operation(_open())
    assert told.words == ["idle", "busy"]


async def test_a_held_run_is_left_as_it_was_told(told: Told) -> None:
    blocked = told.begin(told.gate.block("child", Waits.CHILDREN, in_memory=True))
    await turns()
    told.gate.hold(Released())
    await turns()
    assert isinstance(blocked.exception(), Released)


async def test_code_that_was_left_may_not_begin_again(told: Told) -> None:
    with pytest.raises(Parked):
        await told.gate.block("nap", Waits.TIMER, 7)
    with pytest.raises(ParkedSwallowed):
        told.gate.enter("step")
    assert told.gate.swallowed


async def test_after_a_reset_it_is_as_new(told: Told) -> None:
    for _ in range(2):
        blocked = told.begin(told.gate.block("child", Waits.CHILDREN, in_memory=True))
        await turns()
        assert told.words == ["idle"]
        told.gate.unwind(Parked())
        await asyncio.wait([blocked])
        assert isinstance(blocked.exception(), Parked)
        told.gate.reset()
        told.words.clear()


def _open() -> asyncio.Event:
    door = asyncio.Event()
    door.set()
    return door
