"""Doing all writes of a commit, each kind together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from retinue.ports.store import (
    Append,
    Cancel,
    Claim,
    LetGo,
    Prune,
    Renew,
    Signal,
    Speak,
    Submit,
    WakeDue,
    WorkerDied,
    Write,
)
from retinue.store import queries
from retinue.store.transaction import Transaction
from retinue.store.writes.appends import append
from retinue.store.writes.batch import Batch
from retinue.store.writes.claims import claim, let_go, renew, worker_died
from retinue.store.writes.partials import speak
from retinue.store.writes.prune import prune
from retinue.store.writes.signals import cancel, signal
from retinue.store.writes.submits import submit
from retinue.store.writes.times import wake_due


def execute(tx: Transaction, writes: Sequence[Write]) -> Batch:
    """Do all writes in one transaction. Writes that share a commit have no order among them."""
    batch = Batch(tx)
    kinds: dict[type[Write], list[Any]] = defaultdict(list)
    for write in writes:
        kinds[type(write)].append(write)
    tx.lock_trees(sorted({run_id for write in writes for run_id in _touches(tx, write)}))
    for kind, do in _DO.items():
        if kind in kinds:
            do(batch, kinds[kind])
    return batch


def _touches(tx: Transaction, write: Write) -> Sequence[str]:
    match write:
        case Append() | Signal() | Cancel() | Speak():
            return [write.run_id]
        case Claim():
            return [write.run_id] if write.run_id else []
        case Submit() if write.run.source_run_id:
            return [write.run.source_run_id]
        case LetGo(run_ids=None):
            return [row[0] for row in tx.run(queries.HELD, write.worker_id)]
        case LetGo():
            return write.run_ids or ()
        case _:
            return []


_DO: dict[type[Write], Callable[[Batch, list[Any]], None]] = {
    Submit: submit,
    Speak: speak,
    Append: append,
    Signal: signal,
    Cancel: cancel,
    WorkerDied: worker_died,
    WakeDue: wake_due,
    Renew: renew,
    Claim: claim,
    Prune: prune,
    LetGo: let_go,  # after claims: a worker that leaves leaves what it has just got, too
}
