"""What a tree of runs has used so far, and how much time is left."""

from __future__ import annotations

from dataclasses import dataclass

from retinue.core import events as e
from retinue.core.outcome import Usage
from retinue.core.run import RunState


@dataclass(slots=True)
class Meter:
    """Counts while events come by."""

    usage: Usage = Usage()
    _first: RunState | None = None
    """The run that is watched, when it is watched from its beginning."""

    def take(self, event: e.Event) -> None:
        match event.data:
            case e.ModelResponded() | e.TurnInterrupted() | e.ModelRouted() | e.HistoryCompacted() as data:
                self.usage += data.usage
            case e.RunQueued() if self._first is None:
                self._first = RunState(event.run_id)
            case _:
                pass
        if self._first and event.run_id == self._first.run_id:
            self._follow(event)

    def _follow(self, event: e.Event) -> None:
        if self._first and not isinstance(event.data, e.Unknown) and event.seq == self._first.seq + 1:
            self._first.apply(event)

    def left_ms(self, now: int) -> int | None:
        """How long the run may still be active; None where there is no limit, or nobody knows it."""
        run = self._first
        if run is None or run.queued is None or run.queued.max_minutes is None or run.terminal:
            return None
        active = run.active_ms + (max(0, now - run.last_at) if run.counts else 0)
        return max(0, round(run.queued.max_minutes * 60_000) - active)
