"""Storing queued runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retinue.errors import (
    IdempotencyConflict,
    UnknownRun,
)
from retinue.ports.store import (
    NewRun,
    Recorded,
    Submit,
)
from retinue.store.transaction import Transaction
from retinue.store.writes.batch import KEY_LIVES_MS, Batch


def submit(batch: Batch, writes: list[Submit]) -> None:
    writes = _refuse_lost_sources(batch, writes)
    if keyless := [write for write in writes if not write.run.idempotency_key]:
        insert_runs(batch, keyless, roots={})
    for write in keyless:
        batch.settle(write, write.run.id)
    # In one order, so that two processes with the same keys do not wait for each other.
    keyed = [write for write in writes if write.run.idempotency_key]
    for write in sorted(keyed, key=lambda write: (write.run.owner, write.run.idempotency_key)):
        existing = same_key(batch.tx, write.run)
        if existing is None:
            insert_runs(batch, [write], roots={})
        batch.settle(write, existing or write.run.id)


def _refuse_lost_sources(batch: Batch, writes: list[Submit]) -> list[Submit]:
    """A run whose past was deleted meanwhile is not begun. Its source's tree is held, so it stays from here on."""
    lost = lost_sources(batch.tx, [write.run for write in writes])
    for write in writes:
        if write.run.source_run_id in lost:
            batch.settle(write, UnknownRun(run_id=write.run.source_run_id))
    return [write for write in writes if write.run.source_run_id not in lost]


def lost_sources(tx: Transaction, runs: Iterable[NewRun]) -> set[str]:
    """The runs that these have as their past and that are not there."""
    sources = {run.source_run_id for run in runs if run.source_run_id}
    if not sources:
        return sources
    return sources - {row[0] for row in tx.run("SELECT id FROM runs WHERE id {in}", tx.any(sorted(sources)))}


def same_key(tx: Transaction, run: NewRun) -> str | IdempotencyConflict | None:
    """The run that was submitted with the key before, a conflict, or None."""
    found = tx.run(
        "SELECT id, request_digest, created_at FROM runs WHERE owner = ? AND idempotency_key = ?",
        run.owner,
        run.idempotency_key,
    )
    if not found:
        return None
    run_id, digest, created_at = found[0]
    if created_at < tx.now - KEY_LIVES_MS:
        tx.run("UPDATE runs SET idempotency_key = NULL WHERE id = ?", run_id)
        return None
    return same_request(run, run_id, digest)


def same_request(run: NewRun, run_id: str, digest: str | None) -> str | IdempotencyConflict:
    """Whether the run that has the same key was asked for in the same words."""
    return run_id if digest == run.request_digest else IdempotencyConflict(key=run.idempotency_key, run_id=run_id)


FILE_COLUMNS = "uri text, holder text, owner text, size bigint, created_at bigint"

_NEW_RUN = (
    "id text, root_id text, parent_id text, call_id text, depth int, owner text, thread_id text, message_id text, "
    "target text, definition text, requires text, durability text, priority int, due_at bigint, wake_at bigint, "
    "expires_at bigint, "
    "source_run_id text, source_seq bigint, idempotency_key text, request_digest text, status text, recovered bool, "
    "cause text, cancelled bool, attempt int, crashes int, last_seq bigint, tree_seq bigint, signal_seq bigint, "
    "created_at bigint, after_run_id text, purse_limit bigint"
)


def insert_runs(batch: Batch, submits: Sequence[Submit], roots: dict[str, int]) -> None:
    """Store queued runs. `roots` has the last root_seq of trees that the runs are added to."""
    tx, rows, recorded = batch.tx, [], []
    for submit in submits:
        run = submit.run
        root_seq = roots[run.root_id] = roots.get(run.root_id, 0) + 1
        delayed_until = run.due_at if run.due_at and run.due_at > tx.now else None
        if delayed_until:
            batch.commit.due.append(delayed_until)
        rows.append(
            (
                *(run.id, run.root_id, run.parent_id, run.call_id, run.depth, run.owner, run.thread_id, run.message_id),
                *(run.target, run.definition, run.requires, run.durability, run.priority, run.due_at or tx.now),
                delayed_until,
                *(run.expires_at, run.source_run_id, run.source_seq, run.idempotency_key, run.request_digest),
                *("queued", False, "submit", False, 0, 0, 1, 1, 0, tx.now, run.after_run_id, run.purse_limit),
            )
        )
        recorded.append(Recorded(run.id, 1, root_seq, 0, tx.now, run.queued.data.type, run.queued.encoded))
        batch.commit.roots[run.id] = run.root_id
    tx.insert("runs", _NEW_RUN, rows)
    if files := [(uri, s.run.id, s.run.owner, size, tx.now) for s in submits for uri, size in s.files]:
        tx.insert("files", FILE_COLUMNS, files, "ON CONFLICT DO NOTHING")
    if wanted := {(s.run.requires, s.requirement) for s in submits if s.requirement}:
        tx.insert("requirements", "digest text, data text", sorted(wanted), "ON CONFLICT DO NOTHING")
    if defined := {(s.run.definition, s.definition) for s in submits if s.definition}:
        tx.insert("definitions", "digest text, data text", sorted(defined), "ON CONFLICT DO NOTHING")
    insert_events(batch, recorded)
    batch.commit.queued = True


def insert_events(batch: Batch, recorded: list[Recorded]) -> None:
    roots = batch.commit.roots
    batch.tx.insert(
        "events",
        "run_id text, seq bigint, root_id text, root_seq bigint, attempt int, at bigint, type text, data text",
        [(r.run_id, r.seq, roots[r.run_id], r.root_seq, r.attempt, r.at, r.type, r.data) for r in recorded],
    )
    batch.commit.events.extend(recorded)
