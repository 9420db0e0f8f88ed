"""The clock that is set by hand."""

from __future__ import annotations

import asyncio

from retinue.testing.clock import SetClock


async def test_a_sleeper_wakes_when_the_clock_is_moved_far_enough(clock: SetClock) -> None:
    sleeper = asyncio.ensure_future(clock.sleep(10))
    await asyncio.sleep(0)
    clock.advance(9.999)
    await asyncio.sleep(0)
    assert not sleeper.done()
    clock.advance(0.001)
    await sleeper


async def test_who_sleeps_for_no_time_goes_on(clock: SetClock) -> None:
    await clock.sleep(0)


async def test_timers_happen_once_in_order_of_time(clock: SetClock) -> None:
    happened: list[str] = []
    clock.call_later(3, lambda: happened.append("late"))
    clock.call_later(1, lambda: happened.append("early"))
    clock.call_later(9, lambda: happened.append("never"))
    clock.advance(5)
    clock.advance(-5)
    clock.advance(5)
    assert happened == ["early", "late"]


async def test_a_timer_that_is_cancelled_does_not_happen(clock: SetClock) -> None:
    happened: list[str] = []
    second = clock.call_later(2, lambda: happened.append("second"))
    clock.call_later(1, second.cancel)
    clock.advance(5)
    assert happened == []
