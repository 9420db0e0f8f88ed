"""Where each node of a running graph stands."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from retinue.core.graph.call import NodeCall
from retinue.core.graph.definition import Node
from retinue.core.graph.shape import Place
from retinue.core.outcome import Failure, Reason


class Phase(StrEnum):
    """How far a node is. Only what is over says something to others."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        return self in (Phase.COMPLETED, Phase.FAILED, Phase.SKIPPED, Phase.CANCELLED)


@dataclass(slots=True)
class NodeState:
    """One node in its newest iteration. Of what its runs gave it knows only which runs these are."""

    name: str
    node: Node
    place: Place
    iteration: int = 1
    phase: Phase = Phase.WAITING
    why: str = ""
    error: Failure | None = None
    reason: Reason | None = None
    open_needs: int = 0
    won: int = 0
    barred: str = ""
    """Which failure keeps it from running."""
    items: list[object] | None = None
    next_item: int = 0
    coming: deque[int] | None = None
    """Of a node whose items come one by one: those that are there and were not begun."""
    live: dict[int | None, NodeCall] = field(default_factory=dict)
    run_ids: dict[int | None, str] = field(default_factory=dict)
    failed: dict[int | None, Failure] = field(default_factory=dict)
    answer: object = None
    """What a person said."""
    previous: dict[str, object] | None = None
    chosen: frozenset[str] | None = None
    """Of a router: which nodes its output names."""
    added: frozenset[str] = frozenset()
    """Of a node that adds some: which these are."""
    understood: bool = False
    settled: bool = False
    """It is over, and those that wait for it know."""

    @property
    def key(self) -> str:
        """Its name, and its iteration where it is not the first."""
        return self.name if self.iteration == 1 else f"{self.name}#{self.iteration}"

    @property
    def size(self) -> int:
        """How many runs it takes, without tries."""
        return 1 if self.items is None else len(self.items)

    @property
    def has_next(self) -> bool:
        """Whether one more run of it can begin."""
        return self.next_item < self.size if self.coming is None else bool(self.coming)

    def take_next(self) -> int | None:
        """The item whose run begins now."""
        item = self.next_item if self.coming is None else self.coming.popleft()
        self.next_item += 1
        return None if self.items is None else item

    @property
    def left(self) -> int:
        """How many of its items have no result."""
        return self.size - len(self.run_ids) - len(self.failed)

    def begin_again(self, previous: dict[str, object]) -> None:
        """The next iteration: nothing of the last one counts."""
        self.iteration += 1
        self.phase, self.why, self.error, self.reason = Phase.WAITING, "", None, None
        self.open_needs = self.won = self.next_item = 0
        self.barred, self.items, self.answer, self.chosen = "", None, None, None
        self.coming = None
        self.added, self.understood, self.settled = frozenset(), False, False
        self.live, self.run_ids, self.failed, self.previous = {}, {}, {}, previous
