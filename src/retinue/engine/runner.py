"""What runs a run: knows one platform and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from retinue.core.agent import LOCAL
from retinue.core.events import KINDS
from retinue.core.outcome import Outcome
from retinue.core.target import Target
from retinue.engine.context import RunContext
from retinue.engine.description import Describer
from retinue.errors import UnknownTarget


class Runner(Describer, Protocol):
    """Runs targets of one platform. Third parties register theirs with the entry point group `retinue.runners`."""

    def can_load(self, requires: Mapping[str, object]) -> bool:
        """Whether this process has what the set names."""

    async def run(self, ctx: RunContext) -> Outcome:
        """Run it: record events through the context, return how it ended."""

    async def cancel(self, ctx: RunContext) -> None:
        """Clean up elsewhere after the run was stopped."""


EVENTS = "events"
"""What a requirement set says of a run with events that not every release knows: their types."""

PLATFORM_OF = {"function": "function", "model": "model", "graph": "graph"}


@dataclass(slots=True)
class Runners:
    """The runners of this process, by platform. An agent says itself which it is on."""

    platform_of_agent: Callable[[str], str] = lambda name: LOCAL
    by_platform: dict[str, Runner] = field(default_factory=dict)

    def add(self, runner: Runner) -> None:
        self.by_platform[runner.platform] = runner

    def of(self, target: Target) -> Runner:
        return self._on(PLATFORM_OF.get(target.kind) or self.platform_of_agent(target.name), target)

    def of_stored(self, target: Target, definition: Mapping[str, object]) -> Runner:
        """The runner of a target as it was when it was stored; it need not be declared here."""
        return self._on(PLATFORM_OF.get(target.kind) or str(definition.get("platform", LOCAL)), target)

    def _on(self, platform: str, target: Target) -> Runner:
        if platform not in self.by_platform:
            raise UnknownTarget(target=target, problem=f"no runner for the platform {platform} is installed.")
        return self.by_platform[platform]

    def can_load(self, requires: Mapping[str, object]) -> bool:
        runner = self.by_platform.get(str(requires.get("platform")))
        events = requires.get(EVENTS, ())
        if runner is None or not isinstance(events, list | tuple) or not KINDS.keys() >= set(events):
            return False
        return runner.can_load({name: value for name, value in requires.items() if name != EVENTS})
