"""Places with a provider: never too many, in the order of coming, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.errors import ModelBusy
from retinue.models.lane import Lane
from retinue.testing import SetClock


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def begun(*entering: Awaitable[None]) -> list[asyncio.Task[None]]:
    return [asyncio.ensure_future(one) for one in entering]


async def test_so_many_at_once_and_the_first_to_come_is_the_next(clock: SetClock) -> None:
    lane = Lane(clock, at_once=2)
    calls = begun(*(lane.enter("m") for _ in range(5)))
    await settle()
    assert [call.done() for call in calls] == [True, True, False, False, False]
    lane.leave()
    await settle()
    assert [call.done() for call in calls] == [True, True, True, False, False]
    assert (lane.under_way, lane.waiting) == (2, 2)
    lane.leave()
    lane.leave()
    await asyncio.gather(*calls)


async def test_who_comes_now_does_not_overtake_who_waits(clock: SetClock) -> None:
    lane = Lane(clock, at_once=1)
    await lane.enter("m")
    (waiting,) = begun(lane.enter("m"))
    await settle()
    lane.leave()
    (late,) = begun(lane.enter("m"))
    await settle()
    assert (waiting.done(), late.done()) == (True, False)
    lane.leave()
    await late


async def test_so_many_a_minute(clock: SetClock) -> None:
    lane = Lane(clock, per_minute=2)
    await lane.enter("m")
    clock.advance(20)
    await lane.enter("m")
    calls = begun(*(lane.enter("m") for _ in range(3)))
    await settle()
    started = []
    for _ in range(12):
        clock.advance(10)
        await settle()
        started.append(sum(call.done() for call in calls))
    assert started == [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("given_place", [False, True])
async def test_a_place_of_one_who_is_cancelled_goes_to_the_next(clock: SetClock, given_place: bool) -> None:
    lane = Lane(clock, at_once=1)
    await lane.enter("m")
    first, second = begun(lane.enter("m"), lane.enter("m"))
    await settle()
    if given_place:
        lane.leave()
        first.cancel()
    else:
        first.cancel()
        await settle()
        lane.leave()
    await second
    assert first.cancelled()
    assert (lane.under_way, lane.waiting) == (1, 0)


async def test_a_start_of_one_who_is_cancelled_does_not_count(clock: SetClock) -> None:
    lane = Lane(clock, at_once=1, per_minute=2)
    await lane.enter("m")
    first, second = begun(lane.enter("m"), lane.enter("m"))
    await settle()
    lane.leave()
    first.cancel()
    await settle()
    assert second.done()


async def test_a_wait_for_a_place_ends_with_the_deadline(clock: SetClock) -> None:
    lane = Lane(clock, at_once=1)
    await lane.enter("m")
    late, patient = begun(lane.enter("m", clock.now_ms() + 5000), lane.enter("m", clock.now_ms() + 50_000))
    await settle()
    clock.advance(5)
    with pytest.raises(ModelBusy, match="past the deadline") as caught:
        await late
    assert caught.value.too_late
    lane.leave()
    await patient


async def test_a_wait_that_would_end_after_the_deadline_does_not_begin(clock: SetClock) -> None:
    lane = Lane(clock, per_minute=1)
    await lane.enter("m")
    begun(lane.enter("m"))
    await settle()
    with pytest.raises(ModelBusy):
        await lane.enter("m", clock.now_ms() + 119_999)
    soon = lane.enter("m", clock.now_ms() + 120_001)
    (call,) = begun(soon)
    await settle()
    for _ in range(2):
        clock.advance(60)
        await settle()
    assert call.done()


@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.lists(st.sampled_from(["enter", "leave", "cancel", "second", "minute"]), max_size=60),
)
def test_whatever_happens_no_place_is_lost_and_none_given_twice(
    at_once: int, per_minute: int, story: list[str]
) -> None:
    async def play() -> None:
        clock = SetClock()
        lane = Lane(clock, at_once, per_minute)
        calls: list[asyncio.Task[None]] = []
        starts: list[int] = []
        left = 0
        for step in story:
            inside = [call for call in calls if call.done() and not call.cancelled()]
            match step:
                case "enter":
                    calls += begun(lane.enter("m"))
                case "leave" if len(inside) > left:
                    lane.leave()
                    left += 1
                case "cancel" if waiting := [call for call in calls if not call.done()]:
                    waiting[0].cancel()
                case "second":
                    clock.advance(1)
                case "minute":
                    clock.advance(60)
            await settle()
            inside = [call for call in calls if call.done() and not call.cancelled()]
            starts += [clock.now_ms()] * (len(inside) - len(starts))
            assert lane.under_way == len(inside) - left <= at_once
            assert sum(at > clock.now_ms() - 60_000 for at in starts) <= per_minute
        for _ in range(3 * len(calls)):
            while lane.under_way:
                lane.leave()
            clock.advance(60)
            await settle()
        assert all(call.done() for call in calls)

    asyncio.run(play())
