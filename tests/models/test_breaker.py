"""When a model is left alone, and who tries it again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.errors import CircuitOpen
from retinue.models.breaker import SLICES, Breaker, Result
from retinue.models.config import BreakerConfig
from retinue.testing import SetClock

CONFIG = BreakerConfig(failures=3, window=60, share=0.5, cool_down=30)
results = st.sampled_from(["answered", "failed", "neither"])


def made(clock: SetClock, config: BreakerConfig = CONFIG) -> Breaker:
    return Breaker("acme:any", config, clock.now_ms)


def call(breaker: Breaker, result: Result) -> None:
    breaker.leave(breaker.enter(), result, "it is down")


def opened(clock: SetClock) -> Breaker:
    breaker = made(clock)
    for _ in range(3):
        call(breaker, "failed")
    return breaker


def test_G15_failures_open_it_and_say_what_the_last_one_was(clock: SetClock) -> None:
    breaker = opened(clock)
    clock.advance(10.5)
    with pytest.raises(CircuitOpen, match=r"left alone for 20 s more. The last problem: it is down") as caught:
        breaker.enter()
    assert (caught.value.retry_after, breaker.state, breaker.opens_in) == (20, "open", 19.5)


def test_G15_failures_that_are_far_apart_do_not_open_it(clock: SetClock) -> None:
    breaker = made(clock)
    for _ in range(20):
        call(breaker, "failed")
        clock.advance(31)
    assert breaker.state == "closed"


def test_G15_occasional_failures_among_successes_do_not_open_it(clock: SetClock) -> None:
    breaker = made(clock)
    for _ in range(100):
        for result in ("answered", "answered", "failed"):
            call(breaker, result)
    assert breaker.state == "closed"


def test_a_healthy_past_does_not_keep_it_closed_for_long(clock: SetClock) -> None:
    breaker = made(clock)
    for _ in range(1000):
        call(breaker, "answered")
    clock.advance(61)
    for _ in range(3):
        call(breaker, "failed")
    assert breaker.state == "open"


def test_G15_the_callers_doings_do_not_count(clock: SetClock) -> None:
    breaker = made(clock)
    for _ in range(100):
        call(breaker, "neither")
    assert breaker.state == "closed"


def test_G15_after_the_cool_down_exactly_one_call_tries(clock: SetClock) -> None:
    breaker = opened(clock)
    clock.advance(30)
    assert breaker.state == "half-open"
    assert breaker.enter() is True
    for _ in range(100):
        with pytest.raises(CircuitOpen, match="left alone for 1 s more"):
            breaker.enter()


def test_a_success_of_the_one_that_tries_closes_it(clock: SetClock) -> None:
    breaker = opened(clock)
    clock.advance(30)
    call(breaker, "answered")
    assert breaker.state == "closed"
    for _ in range(2):
        call(breaker, "failed")
    assert breaker.state == "closed"


def test_a_failure_of_the_one_that_tries_opens_it_again(clock: SetClock) -> None:
    breaker = opened(clock)
    clock.advance(30)
    breaker.leave(breaker.enter(), "failed", "it is still down")
    with pytest.raises(CircuitOpen, match=r"left alone for 30 s more. .* it is still down"):
        breaker.check()


def test_one_that_tries_and_is_cancelled_frees_its_place(clock: SetClock) -> None:
    breaker = opened(clock)
    clock.advance(30)
    call(breaker, "neither")
    assert breaker.enter() is True


@pytest.mark.parametrize("late", ["answered", "failed"])
def test_calls_from_before_it_opened_change_nothing(clock: SetClock, late: Result) -> None:
    breaker = made(clock)
    early = [breaker.enter() for _ in range(5)]
    for _ in range(3):
        call(breaker, "failed")
    clock.advance(29)
    for probe in early:
        breaker.leave(probe, late)
    assert (breaker.state, breaker.opens_in) == ("open", 1.0)


@given(st.lists(st.tuples(st.integers(0, 40), results), max_size=60))
def test_it_opens_only_for_enough_failures_in_the_window(calls: list[tuple[int, Result]]) -> None:
    clock = SetClock()
    breaker = made(clock)
    past: list[tuple[int, Result]] = []
    for pause, result in calls:
        clock.advance(pause)
        call(breaker, result)
        past.append((clock.now_ms(), result))
        recent = [kind for at, kind in past if at > clock.now_ms() - 60_000 and kind != "neither"]
        enough = recent.count("failed") >= 3 and recent.count("failed") * 2 >= len(recent)
        assert breaker.state == ("open" if enough and result == "failed" else "closed")
        if breaker.state == "open":
            return


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 20), results), max_size=60))
def test_never_are_two_calls_let_through_while_it_is_not_closed(story: list[tuple[float, int, Result]]) -> None:
    """Calls overlap: each enters if it may, and the oldest that is under way ends when its turn comes."""
    clock = SetClock()
    breaker = made(clock, BreakerConfig(failures=2, window=10, cool_down=5))
    under_way: list[bool] = []
    waits = 1
    for pause, leaves, result in story:
        clock.advance(pause)
        try:
            under_way.append(breaker.enter())
        except CircuitOpen as error:
            waits = error.retry_after
        assert 1 <= waits <= 5
        assert under_way.count(True) <= 1
        assert (breaker.state == "closed") <= (True not in under_way)
        if under_way and leaves % 2:
            breaker.leave(under_way.pop(0), result)


def test_what_it_remembers_does_not_grow_with_the_calls(clock: SetClock) -> None:
    breaker = made(clock)
    for _ in range(5000):
        call(breaker, "answered")
        clock.advance(0.1)
    assert len(breaker._counts) <= SLICES + 1
