"""What calls cost, from data that is installed."""

from __future__ import annotations

import socket

import pytest

from retinue.core.outcome import Usage
from retinue.models.prices import UNKNOWN, Prices

USAGE = Usage(calls=1, input_tokens=1_000_000, output_tokens=100_000, cached_tokens=500_000)


@pytest.fixture
def prices() -> Prices:
    return Prices()


def test_input_output_and_what_was_cached_have_their_prices(prices: Prices) -> None:
    price = prices.of("openai", "gpt-4o", USAGE)
    assert price.known
    assert price.usd == pytest.approx(0.5 * 2.5 + 0.5 * 1.25 + 0.1 * 10)


@pytest.mark.parametrize(
    ("seller", "model"),
    [
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("google", "gemini-2.5-flash"),
        ("google-cloud", "gemini-2.5-flash"),
        ("xai", "grok-4.3"),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("openai-responses", "gpt-5-mini"),
        ("mistral", "mistral-large-latest"),
        ("groq", "llama-3.1-8b-instant"),
        ("deepseek", "deepseek-chat"),
    ],
)
def test_the_usual_sellers_are_known(prices: Prices, seller: str, model: str) -> None:
    price = prices.of(seller, model, USAGE)
    assert price.known
    assert price.usd > 0


@pytest.mark.parametrize(("seller", "model"), [(None, "gpt-4o"), ("openai", "no-such-model"), ("nobody", "gpt-4o")])
def test_what_is_not_known_costs_nothing_and_says_so(prices: Prices, seller: str | None, model: str) -> None:
    assert prices.of(seller, model, USAGE) == UNKNOWN
    assert not UNKNOWN.known
    assert prices.with_cost(seller, model, USAGE) == USAGE


def test_more_cached_than_was_sent_is_no_reason_to_fail(prices: Prices) -> None:
    assert prices.of("openai", "gpt-4o", Usage(input_tokens=10, cached_tokens=20)).known


def test_a_cost_that_the_provider_said_stays(prices: Prices) -> None:
    told = Usage(input_tokens=10, cost_usd=0.5)
    assert prices.with_cost("openai", "gpt-4o", told) is told


async def test_no_price_is_fetched(prices: Prices, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("it went to the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    await prices.ready()
    assert prices.of("openai", "gpt-4o", USAGE).known
