"""Saying something to a run, or to a whole tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from retinue.core.outcome import Status
from retinue.errors import (
    RetinueError,
    RunEnded,
    TicketEnded,
    UnknownRun,
    UnknownTicket,
)
from retinue.ports.store import (
    Cancel,
    Signal,
)
from retinue.store.transaction import Row, Transaction
from retinue.store.writes.batch import Batch

# Who is paused is woken only by what ends the pause.
_WAKES = "runs.status = 'waiting' AND (runs.waits_for <> 'paused' OR b.unpause)"

_SEND = f"""WITH b(id, n, cause, unpause) AS ({{rows}})
UPDATE runs SET signal_seq = runs.signal_seq + b.n,
cause = CASE WHEN runs.status = 'waiting' THEN b.cause ELSE runs.cause END,
wake_at = CASE WHEN {_WAKES} THEN NULL ELSE runs.wake_at END,
status = CASE WHEN {_WAKES} THEN 'queued' ELSE runs.status END
FROM b WHERE runs.id = b.id AND runs.status IN ('queued', 'running', 'waiting')
RETURNING runs.id, runs.signal_seq, runs.status"""


def send(batch: Batch, signals: Sequence[tuple[str, str, str]], unpause: Iterable[str] = ()) -> dict[str, Row]:
    """Store signals and wake whom they are for, in one statement each, so that no park can miss one."""
    tx, freed = batch.tx, set(unpause)
    by_run: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for run_id, kind, data in signals:
        by_run[run_id].append((kind, data))
    rows = [(run_id, len(said), said[-1][0], run_id in freed) for run_id, said in sorted(by_run.items())]
    reached = {row[0]: row for row in tx.rows(_SEND, "id text, n bigint, cause text, unpause bool", rows)}
    stored = []
    for run_id, (_, seq, status) in reached.items():
        said = by_run[run_id]
        stored += [(run_id, seq - len(said) + n + 1, kind, data, tx.now) for n, (kind, data) in enumerate(said)]
        batch.commit.queued |= status == "queued"
    tx.insert("signals", "run_id text, n bigint, kind text, data text, at bigint", stored)
    batch.commit.signalled.update(reached)
    return reached


def signal(batch: Batch, writes: list[Signal]) -> None:
    tx = batch.tx
    allowed = []
    for write in writes:
        refused = take_ticket(tx, write.run_id, write.ticket_id) if write.ticket_id else None
        if refused:
            batch.settle(write, refused)
        else:
            allowed.append(write)
    reached = send(
        batch,
        [(w.run_id, w.kind, w.data) for w in allowed],
        unpause=[w.run_id for w in allowed if w.wakes_paused],
    )
    sent = {run_id: row[1] for run_id, row in reached.items()}
    for write in reversed(allowed):
        if write.run_id in sent:
            batch.settle(write, sent[write.run_id])
            sent[write.run_id] -= 1
        else:
            batch.settle(write, _why_deaf(tx, write.run_id))


def take_ticket(tx: Transaction, run_id: str, ticket_id: str) -> RetinueError | None:
    taken = "UPDATE tickets SET status = 'deciding' WHERE id = ? AND run_id = ? AND status = 'open' RETURNING id"
    if tx.run(taken, ticket_id, run_id):
        return None
    found = tx.run("SELECT COALESCE(decision, status) FROM tickets WHERE id = ? AND run_id = ?", ticket_id, run_id)
    return TicketEnded(ticket_id=ticket_id, decision=found[0][0]) if found else UnknownTicket(ticket_id=ticket_id)


def _why_deaf(tx: Transaction, run_id: str) -> RetinueError:
    found = tx.run("SELECT status FROM runs WHERE id = ?", run_id)
    return RunEnded(run_id=run_id, status=found[0][0]) if found else UnknownRun(run_id=run_id)


def cancel(batch: Batch, writes: list[Cancel]) -> None:
    for write in writes:
        reached = cancel_below(batch, write.run_id, write.data, itself=True)
        batch.settle(write, reached or _why_deaf(batch.tx, write.run_id))


_BELOW = """WITH RECURSIVE below(id) AS (
SELECT id FROM runs WHERE {start} UNION ALL SELECT r.id FROM runs r JOIN below ON r.parent_id = below.id
) SELECT r.id FROM runs r JOIN below ON r.id = below.id WHERE r.status IN ('queued', 'running', 'waiting')"""


def cancel_below(batch: Batch, run_id: str, data: str, *, itself: bool = False) -> dict[str, Status]:
    tx = batch.tx
    ids = [row[0] for row in tx.run(_BELOW.replace("{start}", "id = ?" if itself else "parent_id = ?"), run_id)]
    if not ids:
        return {}
    tx.run("UPDATE runs SET cancelled = TRUE WHERE id {in}", tx.any(ids))
    reached = send(batch, [(run, "cancel", data) for run in ids], unpause=ids)
    return {run: Status(row[2]) for run, row in reached.items()}
