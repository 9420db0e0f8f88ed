"""What a platform can do, and what a target is as it is declared now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from retinue.core.outcome import Durability
from retinue.core.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a platform can do. A request that needs more is refused before anything starts."""

    durability: Durability = Durability.EFFECTS
    share: bool = False
    continues: bool = False
    seed: bool = False
    steer: bool = False
    tickets: bool = False
    client_tools: bool = False
    files: bool = False
    starts_inside: bool = False
    """It can be started at one of its nodes."""
    takes_model: bool = False
    """It can be told which model answers."""
    keeps_time: bool = False
    """It is told when its time is over, and ends by itself: with a last word."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Description:
    """A target as it is declared now: pinned by digest when a run is submitted.

    `requires` is what a worker must be able to load; runs of targets that require the same share one set. `code` is the
    digest of the code that it depends on, which stands in the definition under that name. `accept` raises `WrongInput`,
    or gives the input as the target wants it.
    """

    definition: Mapping[str, object]
    requires: Mapping[str, object]
    code: str = ""
    max_minutes: float | None = None
    max_cost_usd: float | None = None
    on_change: str = "fail"
    durability: Durability | None = None
    accept: Callable[[object], object] = lambda given: given
    nodes: frozenset[str] = frozenset()
    """Where it can be started."""


class Describer(Protocol):
    """The part of a runner that a submit needs."""

    platform: str
    capabilities: Capabilities

    def describe(self, target: Target) -> Description:
        """The target as it is declared now; UnknownTarget or BadTarget when it cannot run here."""


class Describers(Protocol):
    """Finds who describes a target."""

    def of(self, target: Target) -> Describer: ...
