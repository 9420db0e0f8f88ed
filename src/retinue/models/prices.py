"""What calls cost, by `genai-prices`: its own data, as installed; nothing is fetched."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from types import ModuleType

from retinue.core.outcome import Usage
from retinue.models.late import load

SELLERS = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "openai-chatgpt": "openai",
    "azure-responses": "azure",
    "google-cloud": "google",
    "bedrock": "aws",
    "bedrock-mantle": "aws",
    "xai": "x-ai",
}
"""Providers that `genai-prices` calls by another name."""


@dataclass(frozen=True, slots=True)
class Price:
    """What something costs. Where nobody knows it is 0, and `known` says so."""

    usd: float = 0.0
    known: bool = False


UNKNOWN = Price()


class Prices:
    """Looks prices up. The data takes half a second to load, so `ready` does it in a thread; without it, it is done
    when first needed."""

    def __init__(self) -> None:
        self._package: ModuleType | None = None

    async def ready(self) -> None:
        if self._package is None:
            await asyncio.to_thread(self._load)

    def of(self, seller: str | None, model: str, usage: Usage) -> Price:
        """The price of a call to somebody's model. Nobody sells what has no `seller`: nothing is looked up."""
        if seller is None:
            return UNKNOWN
        prices = self._package or self._load()
        counted = prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
        )
        try:
            price = prices.calc_price(counted, model, provider_id=SELLERS.get(seller, seller))
        except (LookupError, ValueError):  # it knows no such provider or model, or no price for such usage
            return UNKNOWN
        return Price(float(price.total_price), True)

    def with_cost(self, seller: str | None, model: str, usage: Usage) -> Usage:
        """The usage with its cost, unless somebody who knows better has said it."""
        if usage.cost_usd or seller is None:
            return usage
        return replace(usage, cost_usd=self.of(seller, model, usage).usd)

    def _load(self) -> ModuleType:
        package = load("genai_prices")
        load("genai_prices.data_snapshot").get_snapshot()
        self._package = package
        return package
