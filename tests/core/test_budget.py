"""What calls may cost, and how long an answer some money pays for."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from retinue.core.budget import MICROS, SHORTEST_ANSWER, longest_answer
from retinue.core.outcome import Usage

NOTHING = Usage()
# Multiples of 1/64 add up exactly in floating point.
exact_usd = st.integers(0, 64 * 20).map(lambda n: n / 64)
usages = st.builds(
    Usage, calls=st.integers(0, 9), input_tokens=st.integers(0, 9), cost_usd=exact_usd, estimated=st.booleans()
)


@given(usages, usages, usages)
def test_usage_adds_up_in_any_order(one: Usage, two: Usage, three: Usage) -> None:
    assert one + NOTHING == one
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)


def price(tokens: int, base: float, each: float) -> Usage:
    return Usage(output_tokens=tokens, cost_usd=base + tokens * each)


prices = st.floats(0, 1), st.floats(1e-7, 1e-3)


@given(st.floats(0, 5), *prices, st.integers(1, 100_000))
def test_an_answer_is_as_long_as_the_money_lasts_and_no_longer(usd: float, base: float, each: float, most: int) -> None:
    length = longest_answer(usd, price(1, base, each), price(most, base, each))
    assume(length is not None)
    assert length is not None
    assert length <= most
    assert round(price(length, base, each).cost_usd * MICROS) <= round(usd * MICROS)


def test_for_too_short_an_answer_nobody_is_asked() -> None:
    base, each = 0.01, 0.0001
    enough = base + SHORTEST_ANSWER * each + 2 / MICROS
    assert longest_answer(enough, price(1, base, each), price(9000, base, each)) == SHORTEST_ANSWER
    assert longest_answer(enough - each, price(1, base, each), price(9000, base, each)) is None


def test_a_price_that_is_always_the_same_cannot_be_made_lower() -> None:
    assert longest_answer(0.5, Usage(output_tokens=1, cost_usd=1), Usage(output_tokens=9000, cost_usd=1)) is None
