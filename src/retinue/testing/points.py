"""Where a life ends: before one of its commits, or after one of its events.

Events that share a commit are on disk together or not at all, but how they share commits is a matter of time: what two
commits hold today is one tomorrow. So a commit is torn for the point after an event in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from retinue.core import events as e
from retinue.ports.store import Append, Write

When = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Point:
    """Before which of its commits, or after which of its events, counted from 1. A commit without events counts as one.

    `processes` names the scenario whose process it is, if it is one.
    """

    number: int
    when: When
    processes: str | None = None

    def __str__(self) -> str:
        return f"{self.when} {'commit' if self.when == 'before' else 'event'} {self.number}"


@dataclass(slots=True)
class Life:
    """A checkpoint that counts, and calls `end` at a point, if there is one; `over` is called when nothing is written
    any more."""

    point: Point | None = None
    end: Callable[[], None] = lambda: None
    over: Callable[[], object] = lambda: None
    commits: int = field(default=0, init=False)
    events: int = field(default=0, init=False)
    _new: int = field(default=0, init=False)

    def __call__(self, at: str, writes: Sequence[Write]) -> Sequence[Write] | None:
        match at:
            case "begin":
                return self._begin(writes)
            case "before":
                if self._ends("before", self.commits + 1):
                    self.end()
                self.commits += 1
            case "after":
                self.events += self._new
                if self._ends("after", self.events):
                    self.end()
            case "halted":
                self.over()
        return None

    def _ends(self, when: When, number: int) -> bool:
        return bool(self.point and self.point.when == when and self.point.number == number)

    def _begin(self, writes: Sequence[Write]) -> Sequence[Write]:
        if self.point and self.point.when == "after":
            writes = torn(writes, self.point.number - self.events)
        self._new = sum(map(_length, writes))
        return writes


def _length(write: Write) -> int:
    return max(1, len(write.drafts)) if isinstance(write, Append) else 1


def torn(writes: Sequence[Write], most: int) -> list[Write]:
    """The first `most` events of a commit."""
    kept: list[Write] = []
    for write in writes:
        if most <= 0:
            break
        kept.append(_first(write, most) if isinstance(write, Append) and _length(write) > most else write)
        most -= _length(write)
    return kept


def _first(write: Append, most: int) -> Append:
    """The first events of an append, with the children that they start."""
    drafts = write.drafts[:most]
    started = {draft.data.run_id for draft in drafts if isinstance(draft.data, e.ChildStarted)}
    children = tuple(child for child in write.children if child.run.id in started)
    return replace(write, drafts=drafts, children=children, cancel_children=False, answer=None)
