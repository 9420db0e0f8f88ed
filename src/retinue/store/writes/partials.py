"""What open turns have said so far."""

from __future__ import annotations

from retinue.errors import (
    Fenced,
)
from retinue.ports.store import (
    Speak,
)
from retinue.store.writes.batch import Batch


def speak(batch: Batch, writes: list[Speak]) -> None:
    held = {
        (row[0], row[1])
        for row in batch.tx.run(
            "SELECT id, attempt FROM runs WHERE status = 'running' AND id {in}",
            batch.tx.any([w.run_id for w in writes]),
        )
    }
    kept = [w for w in writes if (w.run_id, w.attempt) in held]
    if kept:
        batch.tx.insert(
            "partials",
            'run_id text, turn bigint, "try" bigint, kind text, "offset" bigint, text text',
            [(w.run_id, w.turn, w.try_, w.kind, w.offset, w.text) for w in kept],
            "ON CONFLICT DO NOTHING",
        )
    batch.commit.spoken.extend(kept)
    for write in writes:
        fenced = Fenced(run_id=write.run_id, attempt=write.attempt)
        batch.settle(write, None if (write.run_id, write.attempt) in held else fenced)
