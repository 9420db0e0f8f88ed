"""Doing all writes of a commit, each kind together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from retinue.ports.store import (
    Append,
    Cancel,
    Claim,
    Drop,
    Forget,
    Keep,
    LetGo,
    Post,
    Prune,
    Purge,
    Rename,
    Renew,
    Reserve,
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
from retinue.store.writes.prune import forget, prune
from retinue.store.writes.purse import reserve
from retinue.store.writes.signals import cancel, signal
from retinue.store.writes.submits import submit
from retinue.store.writes.threads import drop, keep, post, purge, rename
from retinue.store.writes.times import wake_due


def execute(tx: Transaction, writes: Sequence[Write]) -> Batch:
    """Do all writes in one transaction. Writes that share a commit have no order among them."""
    batch = Batch(tx)
    kinds: dict[type[Write], list[Any]] = defaultdict(list)
    for write in writes:
        kinds[type(write)].append(write)
    touched = sorted({run_id for write in writes for run_id in _touches(tx, write)})
    tx.lock_trees(touched, [write.run_id for write in writes if isinstance(write, Append) and write.ends])
    for kind, do in _DO.items():
        if kind in kinds:
            do(batch, kinds[kind])
    return batch


def _touches(tx: Transaction, write: Write) -> Sequence[str]:
    match write:
        case Append() | Signal() | Cancel() | Speak() | Reserve():
            return [write.run_id]
        case Claim():
            return [write.run_id] if write.run_id else []
        case Submit() if write.run.source_run_id:
            return [write.run.source_run_id]
        case Post():
            sources = [answer.submit.run.source_run_id for answer in write.answers]
            return [*write.ahead, *(source for source in sources if source)]
        case Drop() | Purge():
            return [row[0] for row in tx.run(queries.RUNS_IN, write.thread_id)]
        case LetGo(run_ids=None):
            return [row[0] for row in tx.run(queries.HELD, write.worker_id)]
        case LetGo():
            return write.run_ids or ()
        case _:
            return []


_DO: dict[type[Write], Callable[[Batch, list[Any]], None]] = {
    Submit: submit,
    Post: post,
    Rename: rename,
    Keep: keep,
    Reserve: reserve,
    Speak: speak,
    Append: append,
    Signal: signal,
    Cancel: cancel,
    WorkerDied: worker_died,
    WakeDue: wake_due,
    Renew: renew,
    Claim: claim,
    Drop: drop,
    Prune: prune,
    Purge: purge,
    Forget: forget,
    LetGo: let_go,  # after claims: a worker that leaves leaves what it has just got, too
}
