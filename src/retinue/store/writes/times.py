"""What happens because a time has come."""

from __future__ import annotations

from retinue.ports.store import (
    WakeDue,
)
from retinue.store.writes.batch import Batch, as_json
from retinue.store.writes.signals import send, take_ticket


def wake_due(batch: Batch, writes: list[WakeDue]) -> None:
    tx = batch.tx
    due = tx.run(
        "SELECT r.id FROM runs r JOIN runs root ON root.id = r.root_id "
        "WHERE r.status = 'waiting' AND r.wake_at <= ? ORDER BY r.wake_at LIMIT 1000{lock}",
        tx.now,
    )
    if due:
        woken = tx.run(
            "UPDATE runs SET status = 'queued', cause = 'timer', wake_at = NULL, due_at = created_at "
            "WHERE status = 'waiting' AND wake_at <= ? AND id {in} RETURNING id",
            tx.now,
            tx.any([row[0] for row in due]),
        )
        batch.commit.queued |= bool(woken)
    expired = tx.run(
        "SELECT t.id, t.run_id FROM tickets t JOIN runs root ON root.id = t.root_id "
        "WHERE t.status = 'open' AND t.expires_at <= ? ORDER BY t.expires_at LIMIT 1000{lock}",
        tx.now,
    )
    for ticket_id, run_id in expired:
        if take_ticket(tx, run_id, ticket_id) is None:
            send(batch, [(run_id, "expire", as_json({"ticket_id": ticket_id}))])
    following = tx.run(
        "SELECT MIN(at) FROM (SELECT MIN(wake_at) AS at FROM runs WHERE status = 'waiting' AND wake_at IS NOT NULL "
        "UNION ALL SELECT MIN(expires_at) FROM tickets WHERE status = 'open' AND expires_at IS NOT NULL "
        "UNION ALL SELECT MIN(due_at) FROM runs WHERE status = 'queued' AND due_at > ?) AS times",
        tx.now,
    )
    for write in writes:
        batch.settle(write, following[0][0])
    if due and len(due) == 1000:
        for write in writes:
            batch.settle(write, tx.now)
