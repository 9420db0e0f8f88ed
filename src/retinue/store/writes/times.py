"""What happens because a time has come."""

from __future__ import annotations

from retinue.ports.store import (
    WakeDue,
)
from retinue.store.writes.batch import Batch, as_json
from retinue.store.writes.signals import send, take_ticket

MOST_AT_ONCE = 1000

_DUE = f"""SELECT r.id FROM runs r JOIN runs root ON root.id = r.root_id
WHERE r.wake_at <= ? ORDER BY r.wake_at LIMIT {MOST_AT_ONCE}{{lock}}"""

# Who has slept goes before those that came later; who was delayed came when it is due.
_WAKE = """UPDATE runs SET status = 'queued', wake_at = NULL,
cause = CASE WHEN status = 'waiting' THEN 'timer' ELSE cause END,
due_at = CASE WHEN status = 'waiting' THEN created_at ELSE due_at END
WHERE wake_at <= ? AND id {in} RETURNING id"""

_EXPIRED = f"""SELECT t.id, t.run_id FROM tickets t JOIN runs root ON root.id = t.root_id
WHERE t.status = 'open' AND t.expires_at <= ? ORDER BY t.expires_at LIMIT {MOST_AT_ONCE}{{lock}}"""


def wake_due(batch: Batch, writes: list[WakeDue]) -> None:
    tx = batch.tx
    due = tx.run(_DUE, tx.now)
    if due:
        batch.commit.queued |= bool(tx.run(_WAKE, tx.now, tx.any([row[0] for row in due])))
    expired = tx.run(_EXPIRED, tx.now)
    over = [(run_id, ticket_id) for ticket_id, run_id in expired if take_ticket(tx, run_id, ticket_id) is None]
    if over:
        send(batch, [(run_id, "expire", as_json({"ticket_id": ticket_id})) for run_id, ticket_id in over])
    for write in writes:
        batch.settle(write, MOST_AT_ONCE in (len(due), len(expired)))
