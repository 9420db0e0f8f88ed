"""How models did, as the journals of the last runs say."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from retinue.core import events as e
from retinue.core.outcome import Failure, Reason
from retinue.engine.codec import Codec
from retinue.ports.store import Store

TYPES = (e.TurnStarted.type, e.ModelResponded.type, e.ModelRetried.type, e.RunFinished.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSeen:
    """What became of the calls of one model. Times are medians."""

    model: str
    answers: int
    failures: int
    first_token_ms: float | None
    total_ms: float | None
    last_error: Failure | None
    last_error_at: int | None


@dataclass(slots=True)
class _Tally:
    answers: int = 0
    failures: int = 0
    firsts: list[int] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    last_error: Failure | None = None
    last_error_at: int | None = None

    def failed(self, error: Failure | None, at: int) -> None:
        self.failures += 1
        if error and at >= (self.last_error_at or 0):
            self.last_error, self.last_error_at = error, at


async def models_seen(store: Store, codec: Codec, runs: int) -> list[ModelSeen]:
    """By model, the one that was asked most first."""
    rows = await store.runs(limit=runs)
    tallies: dict[str, _Tally] = {}
    asked: dict[str, str] = {}
    for stored in await store.events_of([row.id for row in rows], TYPES):
        event = await codec.shown(stored)
        match event.data:
            case e.TurnStarted(model=model):
                asked[event.run_id] = model
                tallies.setdefault(model, _Tally())
            case e.ModelResponded() as data:
                tally = tallies.setdefault(asked.get(event.run_id, data.model), _Tally())
                tally.answers += 1
                tally.firsts += [] if data.first_token_ms is None else [data.first_token_ms]
                tally.totals += [] if data.total_ms is None else [data.total_ms]
            case e.ModelRetried(error=error) if event.run_id in asked:
                tallies[asked[event.run_id]].failed(error, event.at)
            case e.RunFinished(reason=Reason.PROVIDER_ERROR, error=error) if event.run_id in asked:
                tallies[asked[event.run_id]].failed(error, event.at)
            case _:
                pass
    return sorted((_seen(model, tally) for model, tally in tallies.items()), key=lambda seen: -seen.answers)


def _seen(model: str, tally: _Tally) -> ModelSeen:
    return ModelSeen(
        model=model,
        answers=tally.answers,
        failures=tally.failures,
        first_token_ms=statistics.median(tally.firsts) if tally.firsts else None,
        total_ms=statistics.median(tally.totals) if tally.totals else None,
        last_error=tally.last_error,
        last_error_at=tally.last_error_at,
    )
