"""One at a time, in the order of coming."""

from __future__ import annotations

import asyncio
import threading

from retinue.models.llama import Turns
from tests.engine.reading import turns_of_the_loop


async def waiting(turns: Turns, count: int) -> tuple[list[int], list[asyncio.Task[None]]]:
    """So many who want a turn, and who had one."""
    had: list[int] = []

    async def want(n: int) -> None:
        await turns.take()
        had.append(n)

    tasks = []
    for n in range(count):
        tasks.append(asyncio.create_task(want(n)))
        await asyncio.sleep(0)
    return had, tasks


async def test_who_comes_first_is_first() -> None:
    turns = Turns()
    had, _ = await waiting(turns, 4)
    for n in range(4):
        assert had == list(range(n + 1))
        turns.give_back()
        await turns_of_the_loop()
    await turns.take()


async def test_who_went_away_is_passed_over() -> None:
    turns = Turns()
    had, tasks = await waiting(turns, 4)
    tasks[1].cancel()
    await turns_of_the_loop()
    turns.give_back()
    await turns_of_the_loop()
    assert had == [0, 2]


async def test_a_turn_that_nobody_takes_any_more_goes_on() -> None:
    turns = Turns()
    had, tasks = await waiting(turns, 4)
    turns.give_back()
    tasks[1].cancel()  # its turn is on its way
    await turns_of_the_loop()
    assert had == [0, 2]
    turns.give_back()
    await asyncio.sleep(0)  # it has its turn, and does not know yet
    tasks[3].cancel()
    await turns_of_the_loop()
    async with asyncio.timeout(5):
        await turns.take()
    assert had == [0, 2]


async def test_other_event_loops_wait_in_the_same_line() -> None:
    turns = Turns()
    await turns.take()
    ready = threading.Event()
    had: list[str] = []

    async def elsewhere() -> None:
        taking = asyncio.create_task(turns.take())
        await asyncio.sleep(0)
        ready.set()
        await taking
        had.append("elsewhere")
        turns.give_back()

    other = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    other.start()
    await asyncio.to_thread(ready.wait)
    here = asyncio.create_task(turns.take())
    await asyncio.sleep(0)
    turns.give_back()
    await here
    had.append("here")
    await asyncio.to_thread(other.join)
    assert had == ["elsewhere", "here"]


def test_a_loop_that_is_gone_is_passed_over() -> None:
    turns = Turns()
    asyncio.run(turns.take())

    async def begin_to_wait() -> None:
        waits.send(None)

    waits, gone = turns.take(), asyncio.new_event_loop()
    gone.run_until_complete(begin_to_wait())
    gone.close()
    turns.give_back()
    asyncio.run(turns.take())
    waits.close()
