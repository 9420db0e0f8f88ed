from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.budget import Limits, Purse
from retinue.core.outcome import Reason, Usage

NOTHING = Usage()
# Multiples of 1/64 add up exactly in floating point.
exact_usd = st.integers(0, 64 * 20).map(lambda n: n / 64)
any_usd = st.floats(0, 20)


def call_for_money(limit: float, calls: list[tuple[float, float, int]], slack: float) -> None:
    """Reserve for each call, settle the oldest ones now and then, and look at the purse all the time."""
    purse, under_way = Purse(limit_usd=limit), list[tuple[float, float]]()
    for reserved, share, settled in calls:
        if after := purse.reserve(reserved):
            purse = after
            under_way.append((reserved, reserved * share))
        assert purse.spent_usd + purse.reserved_usd <= limit + slack
        for amounts in under_way[:settled]:
            purse = purse.settle(*amounts)
            assert purse.spent_usd + purse.reserved_usd <= limit + slack
        del under_way[:settled]
    for amounts in under_way:
        purse = purse.settle(*amounts)
    assert purse.spent_usd <= limit + slack
    assert 0 <= purse.reserved_usd <= slack


@given(exact_usd, st.lists(st.tuples(exact_usd, st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 2))))
def test_a_purse_never_gives_more_than_its_limit(limit: float, calls: list[tuple[float, float, int]]) -> None:
    call_for_money(limit, calls, slack=0.0)


@given(any_usd, st.lists(st.tuples(any_usd, st.floats(0, 1), st.integers(0, 2))))
def test_rounding_costs_a_purse_less_than_a_millionth_of_a_cent(
    limit: float, calls: list[tuple[float, float, int]]
) -> None:
    call_for_money(limit, calls, slack=1e-8)


def test_what_is_reserved_cannot_be_reserved_twice() -> None:
    purse = Purse(limit_usd=1.0).reserve(0.75)
    assert purse is not None
    assert purse.free_usd == 0.25
    assert purse.reserve(0.5) is None
    assert purse.reserve(0.25) is not None


def test_what_a_call_did_not_cost_is_free_again() -> None:
    purse = Purse(limit_usd=1.0, reserved_usd=0.75).settle(0.75, 0.25)
    assert purse == Purse(limit_usd=1.0, spent_usd=0.25)


def test_a_call_that_cost_more_than_it_reserved_is_counted_whole() -> None:
    purse = Purse(limit_usd=1.0, reserved_usd=0.5).settle(0.5, 1.5)
    assert purse.free_usd == -0.5
    assert purse.reserve(0.0) is None


def test_less_than_nothing_cannot_be_reserved() -> None:
    with pytest.raises(ValueError, match="cannot reserve -1"):
        Purse(limit_usd=1.0).reserve(-1)


def test_no_limit_is_no_limit() -> None:
    lots = 10**12
    usage = Usage(input_tokens=lots, output_tokens=lots, cost_usd=1e12)
    assert Limits().reached(active_ms=lots, turns=lots, tool_calls=lots, usage=usage) is None


@pytest.mark.parametrize(
    ("limits", "used", "reason"),
    [
        (Limits(max_minutes=0.5), {"active_ms": 30_000}, Reason.TIMEOUT),
        (Limits(max_turns=3), {"turns": 3}, Reason.MAX_TURNS),
        (Limits(max_tool_calls=3), {"tool_calls": 3}, Reason.MAX_TURNS),
    ],
)
def test_a_limit_is_hit_when_it_is_reached_and_not_before(limits: Limits, used: dict[str, int], reason: Reason) -> None:
    before = {name: value - 1 for name, value in used.items()}
    nothing = {"active_ms": 0, "turns": 0, "tool_calls": 0}
    assert limits.reached(usage=NOTHING, **nothing | before) is None
    assert limits.reached(usage=NOTHING, **nothing | used) is reason


def test_tokens_in_and_out_count_together() -> None:
    limits = Limits(max_tokens=100)
    usage = Usage(input_tokens=60, output_tokens=39)
    assert limits.reached(active_ms=0, turns=0, tool_calls=0, usage=usage) is None
    assert limits.reached(active_ms=0, turns=0, tool_calls=0, usage=replace(usage, output_tokens=40)) is Reason.BUDGET


def test_cost_is_a_budget() -> None:
    limits = Limits(max_cost_usd=0.5)
    assert limits.reached(active_ms=0, turns=0, tool_calls=0, usage=Usage(cost_usd=0.49)) is None
    assert limits.reached(active_ms=0, turns=0, tool_calls=0, usage=Usage(cost_usd=0.5)) is Reason.BUDGET


def test_time_is_told_before_turns_and_turns_before_money() -> None:
    limits = Limits(max_minutes=1, max_turns=1, max_tool_calls=1, max_tokens=1, max_cost_usd=1)
    usage = Usage(input_tokens=1, cost_usd=1)
    assert limits.reached(active_ms=60_000, turns=1, tool_calls=1, usage=usage) is Reason.TIMEOUT
    assert limits.reached(active_ms=0, turns=1, tool_calls=0, usage=usage) is Reason.MAX_TURNS
    assert limits.reached(active_ms=0, turns=0, tool_calls=1, usage=usage) is Reason.MAX_TURNS
    assert limits.reached(active_ms=0, turns=0, tool_calls=0, usage=usage) is Reason.BUDGET


usages = st.builds(
    Usage, calls=st.integers(0, 9), input_tokens=st.integers(0, 9), cost_usd=exact_usd, estimated=st.booleans()
)


@given(usages, usages, usages)
def test_usage_adds_up_in_any_order(one: Usage, two: Usage, three: Usage) -> None:
    assert one + NOTHING == one
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
