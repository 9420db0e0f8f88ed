"""What runs a run: knows one platform and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from retinue.core.outcome import Durability, Outcome
from retinue.core.target import Target
from retinue.errors import UnknownTarget

if TYPE_CHECKING:
    from retinue.engine.context import RunContext


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Description:
    """A target as it is declared now: pinned by digest when a run is submitted.

    `requires` is what a worker must be able to load; runs of targets that require the same share one set.
    """

    definition: Mapping[str, object]
    requires: Mapping[str, object]
    max_minutes: float | None = None
    on_change: str = "fail"
    durability: Durability | None = None


class Runner(Protocol):
    """Runs targets of one platform. Third parties register theirs with the entry point group `retinue.runners`."""

    platform: str
    capabilities: Capabilities

    def describe(self, target: Target) -> Description:
        """The target as it is declared now; UnknownTarget or BadTarget when it cannot run here."""

    def can_load(self, requires: Mapping[str, object]) -> bool:
        """Whether this process has what the set names."""

    async def run(self, ctx: RunContext) -> Outcome:
        """Run it: record events through the context, return how it ended."""

    async def cancel(self, ctx: RunContext) -> None:
        """Clean up elsewhere after the run was stopped."""


PLATFORM_OF = {"function": "function", "model": "model", "graph": "graph", "agent": "local"}


@dataclass(slots=True)
class Runners:
    """The runners of this process, by platform."""

    by_platform: dict[str, Runner] = field(default_factory=dict)

    def add(self, runner: Runner) -> None:
        self.by_platform[runner.platform] = runner

    def of(self, target: Target) -> Runner:
        platform = PLATFORM_OF[target.kind]
        if platform not in self.by_platform:
            raise UnknownTarget(target=target, problem=f"no runner for the platform {platform} is installed.")
        return self.by_platform[platform]

    def can_load(self, requires: Mapping[str, object]) -> bool:
        runner = self.by_platform.get(str(requires.get("platform")))
        return runner is not None and runner.can_load(requires)
