"""What calls may cost. Pure arithmetic; the store keeps the purse that a tree of runs shares."""

from __future__ import annotations

from retinue.core.outcome import Usage

MICROS = 1_000_000
"""Money is stored in millionths of a dollar, so that sums are exact."""
SHORTEST_ANSWER = 500
"""Tokens. For a shorter one nobody is asked."""


def longest_answer(usd: float, shortest: Usage, longest: Usage) -> int | None:
    """How many tokens of an answer `usd` pays for, by what a call costs at the most with a shortest and a longest one.
    None when it pays for too few of them, or when the price does not depend on that."""
    each = (longest.cost_usd - shortest.cost_usd) / max(1, longest.output_tokens - shortest.output_tokens)
    if each <= 0:
        return None
    tokens = shortest.output_tokens + int((usd - shortest.cost_usd - 1 / MICROS) / each)
    return min(tokens, longest.output_tokens) if tokens >= SHORTEST_ANSWER else None
