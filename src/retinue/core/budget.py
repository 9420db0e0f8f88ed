"""Limits, and the purse that a tree of runs shares. Pure arithmetic; the store keeps the purse."""

from __future__ import annotations

from dataclasses import dataclass, replace

from retinue.core.outcome import Reason, Usage

MICROS = 1_000_000
"""Money is stored in millionths of a dollar, so that sums are exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a run may take. None is without limit."""

    max_minutes: float | None = None
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None

    def reached(self, *, active_ms: int, turns: int, tool_calls: int, usage: Usage) -> Reason | None:
        """The first limit that is hit, in the order in which a turn checks them."""
        if self.max_minutes is not None and active_ms >= self.max_minutes * 60_000:
            return Reason.TIMEOUT
        if self.max_turns is not None and turns >= self.max_turns:
            return Reason.MAX_TURNS
        if self.max_tool_calls is not None and tool_calls >= self.max_tool_calls:
            return Reason.MAX_TURNS
        if self.max_tokens is not None and usage.input_tokens + usage.output_tokens >= self.max_tokens:
            return Reason.BUDGET
        if self.max_cost_usd is not None and usage.cost_usd >= self.max_cost_usd:
            return Reason.BUDGET
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """Money of a whole tree: what is reserved for calls under way can not be reserved twice."""

    limit_usd: float
    spent_usd: float = 0.0
    reserved_usd: float = 0.0

    @property
    def free_usd(self) -> float:
        return self.limit_usd - self.spent_usd - self.reserved_usd

    def reserve(self, usd: float) -> Purse | None:
        """The purse with `usd` put aside, or None when that is more than is free."""
        if usd < 0:
            raise ValueError(f"cannot reserve {usd} USD")
        return replace(self, reserved_usd=self.reserved_usd + usd) if usd <= self.free_usd else None

    def settle(self, reserved_usd: float, spent_usd: float) -> Purse:
        """The purse after a call that had reserved the one and cost the other."""
        return replace(
            self, reserved_usd=max(0.0, self.reserved_usd - reserved_usd), spent_usd=self.spent_usd + spent_usd
        )
