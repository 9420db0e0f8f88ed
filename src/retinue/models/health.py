"""How models do, seen from this process."""

from __future__ import annotations

from dataclasses import dataclass

from retinue.core.outcome import Failure
from retinue.errors import ModelError
from retinue.models.breaker import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How one model does."""

    provider: str
    model: str
    breaker: State
    opens_in: float
    """Seconds until a breaker that is open lets a call through."""
    calls: int
    failures: int
    under_way: int
    waiting: int
    """Calls of its provider that have no place yet."""
    last_error: Failure | None
    last_error_at: int | None
    first_token_ms: int | None
    """From the last request that was answered to its first word."""
    total_ms: int | None
    retry_after: float | None
    """Seconds for which the provider still wants to be left alone."""


@dataclass(slots=True)
class Record:
    """What is remembered of a model's calls. Times are the clock's."""

    calls: int = 0
    failures: int = 0
    under_way: int = 0
    last_error: Failure | None = None
    last_error_at: int | None = None
    first_token_ms: int | None = None
    total_ms: int | None = None
    left_alone_until: int = 0

    def failed(self, error: ModelError, now: int) -> None:
        self.failures += 1
        self.last_error, self.last_error_at = failure_of(error), now
        if after := getattr(error, "retry_after", None):
            self.left_alone_until = now + round(after * 1000)

    def answered(self, began: int, first: int, now: int) -> None:
        self.first_token_ms, self.total_ms = first - began, now - began
        self.left_alone_until = 0


def failure_of(error: ModelError) -> Failure:
    return Failure(kind=type(error).__name__, message=str(error))
