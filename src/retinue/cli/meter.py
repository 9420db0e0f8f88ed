"""What a tree of runs has used so far, and how much time is left."""

from __future__ import annotations

from dataclasses import dataclass

from retinue.core import events as e
from retinue.core.outcome import Usage
from retinue.core.run import RunState
from retinue.errors import IllegalEvent, NewerEvent


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
            self._follow(self._first, event)

    def _follow(self, run: RunState, event: e.Event) -> None:
        """What cannot be understood, and what is missed, is no reason to show nothing: only the time is not known."""
        try:
            run.apply(event)
        except (IllegalEvent, NewerEvent):
            self._first = None

    def left_ms(self, now: int) -> int | None:
        """How long the run may still be active; None where there is no limit, or nobody knows it."""
        run = self._first
        if run is None or run.queued is None or run.queued.max_minutes is None or run.terminal:
            return None
        active = run.active_ms + (max(0, now - run.last_at) if run.counts else 0)
        return max(0, round(run.queued.max_minutes * 60_000) - active)
