"""Conversations: saying something with what answers it, in one transaction; renaming and deleting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retinue.core.outcome import Status
from retinue.errors import IdempotencyConflict, RetinueError, ThreadBusy, UnknownMessage, UnknownThread
from retinue.ports.store import Drop, Keep, NewMessage, OnBusy, Post, Posted, Pruned, Purge, Rename
from retinue.store import queries
from retinue.store.transaction import Transaction
from retinue.store.writes.batch import Batch, as_json
from retinue.store.writes.prune import delete_trees
from retinue.store.writes.signals import cancel_below
from retinue.store.writes.submits import FILE_COLUMNS, insert_runs, same_key

_THREAD = "id text, owner text, title text, created_at bigint, updated_at bigint"
_MESSAGE = "id text, thread_id text, parent_id text, participant text, parts text, run_id text, created_at bigint"


def post(batch: Batch, writes: list[Post]) -> None:
    tx = batch.tx
    tx.lock_threads([write.thread_id for write in writes if write.title is None])
    accepted = []
    for write in _refuse_strangers(batch, writes):
        run = write.answers[0].submit.run
        existing = same_key(tx, run) if run.idempotency_key else None
        if isinstance(existing, IdempotencyConflict):
            batch.settle(write, existing)
        elif existing:
            batch.settle(write, Posted(run_id=existing))
        elif (busy := _live(tx, write.ahead)) and write.on_busy is OnBusy.REJECT:
            batch.settle(write, ThreadBusy(run_id=busy[0]))
        else:
            _store_runs(batch, write, busy)
            accepted.append(write)
    if not accepted:
        return
    if new := [(w.thread_id, w.owner, w.title, tx.now, tx.now) for w in accepted if w.title is not None]:
        tx.insert("threads", _THREAD, new)
    if old := sorted({w.thread_id for w in accepted if w.title is None}):
        tx.run("UPDATE threads SET updated_at = ? WHERE id {in}", tx.now, tx.any(old))
    tx.insert("messages", _MESSAGE, [row for write in accepted for row in _rows(write, tx.now)])
    if files := [(uri, w.thread_id, w.owner, size, tx.now) for w in accepted for uri, size in w.files]:
        tx.insert("files", FILE_COLUMNS, files, "ON CONFLICT DO NOTHING")


def _refuse_strangers(batch: Batch, writes: list[Post]) -> list[Post]:
    """Only what hangs in a thread that is there, and is the owner's own, is stored."""
    tx = batch.tx
    there = {
        row[0]: row[1]
        for row in tx.run(
            "SELECT id, owner FROM threads WHERE deleted_at IS NULL AND id {in}", tx.any([w.thread_id for w in writes])
        )
    }
    parents = {write: _first(write).parent_id for write in writes if _first(write).parent_id}
    found = {
        (row[0], row[1])
        for row in tx.run("SELECT thread_id, id FROM messages WHERE id {in}", tx.any(list(parents.values())))
    }
    accepted = []
    for write in writes:
        parent = parents.get(write)
        if write.title is None and there.get(write.thread_id) != write.owner:
            batch.settle(write, UnknownThread(thread_id=write.thread_id))
        elif parent and (write.thread_id, parent) not in found:
            batch.settle(write, UnknownMessage(message_id=parent, thread_id=write.thread_id))
        else:
            accepted.append(write)
    return accepted


def _first(write: Post) -> NewMessage:
    return write.message or write.answers[0].message


def _live(tx: Transaction, ahead: Sequence[str]) -> list[str]:
    """Those of the runs that have not ended, nearest first."""
    if not ahead:
        return []
    sql = "SELECT id FROM runs WHERE status IN ('queued', 'running', 'waiting') AND id {in}"
    live = {row[0] for row in tx.run(sql, tx.any(list(ahead)))}
    return [run_id for run_id in ahead if run_id in live]


def _store_runs(batch: Batch, write: Post, busy: list[str]) -> None:
    interrupted: dict[str, Status] = {}
    if write.on_busy is OnBusy.INTERRUPT:
        said = as_json({"message": "interrupted by a newer message"})
        for run_id in busy:
            interrupted |= cancel_below(batch, run_id, said, itself=True)
    after = busy[0] if busy and write.on_busy is not OnBusy.PARALLEL else None
    submits = [answer.submit for answer in write.answers]
    insert_runs(batch, [replace(s, run=replace(s.run, after_run_id=after)) for s in submits], roots={})
    batch.settle(write, Posted(run_id=submits[0].run.id, interrupted=interrupted))


def _rows(write: Post, now: int) -> list[tuple[object, ...]]:
    said = [(write.message, None)] if write.message else []
    answers = [(answer.message, answer.submit.run.id) for answer in write.answers]
    return [
        (message.id, write.thread_id, message.parent_id, message.participant, message.parts, run_id, now)
        for message, run_id in (*said, *answers)
    ]


def rename(batch: Batch, writes: list[Rename]) -> None:
    for write in writes:
        sql = "UPDATE threads SET title = ? WHERE id = ? AND deleted_at IS NULL RETURNING id"
        found = batch.tx.run(sql, write.title, write.thread_id)
        batch.settle(write, None if found else UnknownThread(thread_id=write.thread_id))


def drop(batch: Batch, writes: list[Drop]) -> None:
    for write in writes:
        batch.settle(write, _drop(batch, write.thread_id))


def _drop(batch: Batch, thread_id: str) -> dict[str, Status] | RetinueError:
    tx = batch.tx
    tx.lock_threads([thread_id])
    sql = "UPDATE threads SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL RETURNING id"
    if not tx.run(sql, tx.now, thread_id):
        return UnknownThread(thread_id=thread_id)
    reached: dict[str, Status] = {}
    for (run_id,) in tx.run(queries.LIVE_IN, thread_id):
        reached |= cancel_below(batch, run_id, as_json({"message": "its thread was deleted"}), itself=True)
    return reached


def purge(batch: Batch, writes: list[Purge]) -> None:
    for write in writes:
        batch.settle(write, _purge(batch.tx, write.thread_id))


_BUSY_TREES = """SELECT 1 FROM runs root JOIN runs r ON r.root_id = root.id
WHERE root.thread_id = ? AND root.parent_id IS NULL AND r.status IN ('queued', 'running', 'waiting') LIMIT 1"""


def _purge(tx: Transaction, thread_id: str) -> Pruned | None:
    found = tx.run("SELECT deleted_at FROM threads WHERE id = ?", thread_id)
    if not found:
        return Pruned()  # somebody else was quicker
    if found[0][0] is None or tx.run(_BUSY_TREES, thread_id):
        return None
    roots = tx.run("SELECT id FROM runs WHERE thread_id = ? AND parent_id IS NULL", thread_id)
    pruned = delete_trees(tx, {row[0] for row in roots}, and_holder=thread_id)
    tx.run("DELETE FROM messages WHERE thread_id = ?", thread_id)
    tx.run("DELETE FROM threads WHERE id = ?", thread_id)
    return pruned


def keep(batch: Batch, writes: list[Keep]) -> None:
    rows = [(write.uri, write.holder, write.owner, write.size, batch.tx.now) for write in writes]
    batch.tx.insert("files", FILE_COLUMNS, rows, "ON CONFLICT DO NOTHING")
    for write in writes:
        batch.settle(write, None)
