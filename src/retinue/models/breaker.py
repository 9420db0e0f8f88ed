"""A circuit breaker for one model: after too many failures nobody asks it for a while, then exactly one call tries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil
from typing import Literal

from retinue.errors import CircuitOpen
from retinue.models.config import BreakerConfig

SLICES = 60
"""The window moves on by a sixtieth of its length at a time."""

State = Literal["closed", "open", "half-open"]
Result = Literal["answered", "failed", "neither"]


class Breaker:
    """Closed while calls succeed; open for the cool-down after too many failures; then half-open, for one call."""

    def __init__(self, model: str, config: BreakerConfig, now_ms: Callable[[], int]) -> None:
        self._model, self._config, self._now_ms = model, config, now_ms
        self._slice = max(1, round(config.window * 1000 / SLICES))
        self._counts: deque[list[int]] = deque()
        self._opened: int | None = None
        self._probing = False
        self._problem = ""

    @property
    def state(self) -> State:
        if self._opened is None:
            return "closed"
        return "open" if self._left() > 0 else "half-open"

    @property
    def opens_in(self) -> float:
        """Seconds until a call is let through again."""
        return max(0, self._left()) / 1000 if self._opened is not None else 0.0

    def check(self) -> None:
        """Raise `CircuitOpen` if a call would not be let through now."""
        if self._opened is not None and (self._left() > 0 or self._probing):
            raise CircuitOpen(model=self._model, problem=self._problem, retry_after=max(1, ceil(self._left() / 1000)))

    def enter(self) -> bool:
        """Let a call through, or raise `CircuitOpen`. True for the one whose result decides whether it closes."""
        self.check()
        if self._opened is None:
            return False
        self._probing = True
        return True

    def leave(self, probe: bool, result: Result, problem: str = "") -> None:
        """How a call that was let through ended. One that is neither a success nor a failure frees its place."""
        if probe:
            self._probing = False
            if result == "answered":
                self._opened = None
                self._counts.clear()
            elif result == "failed":
                self._open(problem)
        elif self._opened is None and result != "neither":
            self._count(result == "failed", problem)

    def _count(self, failed: bool, problem: str) -> None:
        now = self._now_ms() // self._slice
        while self._counts and self._counts[0][0] <= now - SLICES:
            self._counts.popleft()
        if not self._counts or self._counts[-1][0] != now:
            self._counts.append([now, 0, 0])
        self._counts[-1][1] += 1
        if failed:
            self._counts[-1][2] += 1
            calls, failures = (sum(count[n] for count in self._counts) for n in (1, 2))
            if failures >= self._config.failures and failures >= calls * self._config.share:
                self._open(problem)

    def _open(self, problem: str) -> None:
        self._opened, self._problem = self._now_ms(), problem
        self._counts.clear()

    def _left(self) -> int:
        assert self._opened is not None
        return self._opened + round(self._config.cool_down * 1000) - self._now_ms()
