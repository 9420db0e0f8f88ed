"""Conversations: saying something with what answers it, in one transaction; renaming and deleting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retinue.core.outcome import Status
from retinue.errors import IdempotencyConflict, RetinueError, ThreadBusy, UnknownMessage, UnknownRun, UnknownThread
from retinue.ports.store import (
    UPLOAD,
    Drop,
    Keep,
    NewMessage,
    NewRun,
    OnBusy,
    Post,
    Posted,
    Pruned,
    Purge,
    Rename,
    Submit,
)
from retinue.store import queries
from retinue.store.transaction import Transaction
from retinue.store.writes.batch import Batch, as_json
from retinue.store.writes.prune import delete_trees
from retinue.store.writes.signals import cancel_below
from retinue.store.writes.submits import FILE_COLUMNS, insert_runs, lost_sources, same_key, same_request

_THREAD = "id text, owner text, title text, created_at bigint, updated_at bigint"
_MESSAGE = "id text, thread_id text, parent_id text, participant text, parts text, run_id text, created_at bigint"


def post(batch: Batch, writes: list[Post]) -> None:
    tx = batch.tx
    tx.lock_threads([write.thread_id for write in writes if write.title is None])
    posts = _Posts(batch)
    # In one order, so that two processes with the same keys do not wait for each other.
    for write in sorted(_refuse_strangers(batch, writes), key=lambda write: (write.owner, _key(write) or "")):
        busy = _live(tx, write.ahead)
        if before := posts.before(write):
            batch.settle(write, before)
        elif write.at_end and posts.end(write.thread_id)[1] != (_first(write).parent_id or ""):
            batch.settle(write, None)
        elif busy and write.on_busy is OnBusy.REJECT:
            batch.settle(write, ThreadBusy(run_id=busy[0]))
        else:
            batch.settle(write, posts.accept(write, busy))
    posts.store()


class _Posts:
    """Those that a commit accepts: they are stored together, and each sees what those before it have said."""

    def __init__(self, batch: Batch) -> None:
        self._batch, self._tx = batch, batch.tx
        self._writes: list[Post] = []
        self._submits: list[Submit] = []
        self._keyed: dict[tuple[str, str], NewRun] = {}
        self._ends: dict[str, tuple[int, str]] = {}

    def before(self, write: Post) -> Posted | IdempotencyConflict | None:
        """What was posted under the same key."""
        run, key = write.answers[0].submit.run, _key(write)
        if key is None:
            return None
        here = self._keyed.get((write.owner, key))
        existing = same_request(run, here.id, here.request_digest) if here else same_key(self._tx, run)
        return Posted(run_id=existing) if isinstance(existing, str) else existing

    def end(self, thread_id: str) -> tuple[int, str]:
        """The time and id of the newest message of a thread."""
        if thread_id not in self._ends:
            found = self._tx.run(queries.LATEST, thread_id)
            self._ends[thread_id] = (found[0][1], found[0][0]) if found else (0, "")
        return self._ends[thread_id]

    def accept(self, write: Post, busy: list[str]) -> Posted:
        interrupted: dict[str, Status] = {}
        if write.on_busy is OnBusy.INTERRUPT:
            said = as_json({"message": "interrupted by a newer message"})
            for run_id in busy:
                interrupted |= cancel_below(self._batch, run_id, said, itself=True)
        after = busy[0] if busy and write.on_busy is not OnBusy.PARALLEL else None
        submits = [answer.submit for answer in write.answers]
        self._submits += [replace(submit, run=replace(submit.run, after_run_id=after)) for submit in submits]
        self._writes.append(write)
        if key := _key(write):
            self._keyed[write.owner, key] = submits[0].run
        newest = max((row[6], row[0]) for row in _rows(write, self._tx.now))
        self._ends[write.thread_id] = max(self.end(write.thread_id), newest)
        return Posted(run_id=submits[0].run.id, interrupted=interrupted)

    def store(self) -> None:
        if not self._writes:
            return
        tx = self._tx
        insert_runs(self._batch, self._submits, roots={})
        if new := [(w.thread_id, w.owner, w.title, tx.now, tx.now) for w in self._writes if w.title is not None]:
            tx.insert("threads", _THREAD, new)
        if old := sorted({w.thread_id for w in self._writes if w.title is None}):
            tx.run("UPDATE threads SET updated_at = ? WHERE id {in}", tx.now, tx.any(old))
        tx.insert("messages", _MESSAGE, [row for write in self._writes for row in _rows(write, tx.now)])
        for write in self._writes:
            if write.files:
                _take_over(tx, write)


_TAKE_OVER = f"""DELETE FROM files WHERE owner = ? AND uri {{in}} AND holder = (
SELECT MIN(f.holder) FROM files f WHERE f.owner = files.owner AND f.uri = files.uri AND f.holder LIKE '{UPLOAD}%')"""


def _take_over(tx: Transaction, write: Post) -> None:
    """What was uploaded to be said is the thread's from here on, and goes with it."""
    files = [(uri, write.thread_id, write.owner, size, tx.now) for uri, size in write.files]
    tx.insert("files", FILE_COLUMNS, files, "ON CONFLICT DO NOTHING")
    tx.run(_TAKE_OVER, write.owner, tx.any([uri for uri, _ in write.files]))


def _refuse_strangers(batch: Batch, writes: list[Post]) -> list[Post]:
    """Only what hangs in a thread that is there, and is the owner's own, is stored; and only with its past."""
    tx = batch.tx
    runs = [answer.submit.run for write in writes for answer in write.answers]
    there = {
        row[0]: row[1]
        for row in tx.run(
            "SELECT id, owner FROM threads WHERE deleted_at IS NULL AND id {in}", tx.any([w.thread_id for w in writes])
        )
    }
    parents = [_first(write).parent_id for write in writes]
    named = tx.any(sorted({parent for parent in parents if parent}))
    found = {(row[0], row[1]) for row in tx.run("SELECT thread_id, id FROM messages WHERE id {in}", named)}
    lost, accepted = lost_sources(tx, runs), []
    for write, parent in zip(writes, parents, strict=True):
        sources = {answer.submit.run.source_run_id or "" for answer in write.answers}
        if write.title is None and there.get(write.thread_id) != write.owner:
            batch.settle(write, UnknownThread(thread_id=write.thread_id))
        elif parent and (write.thread_id, parent) not in found:
            batch.settle(write, UnknownMessage(message_id=parent, thread_id=write.thread_id))
        elif gone := sources & lost:
            batch.settle(write, UnknownRun(run_id=min(gone)))
        else:
            accepted.append(write)
    return accepted


def _first(write: Post) -> NewMessage:
    return write.message or write.answers[0].message


def _key(write: Post) -> str | None:
    """Its first run has the key of the whole."""
    return write.answers[0].submit.run.idempotency_key


def _live(tx: Transaction, ahead: Sequence[str]) -> list[str]:
    """Those of the runs that have not ended, nearest first."""
    if not ahead:
        return []
    sql = "SELECT id FROM runs WHERE status IN ('queued', 'running', 'waiting') AND id {in}"
    live = {row[0] for row in tx.run(sql, tx.any(list(ahead)))}
    return [run_id for run_id in ahead if run_id in live]


def _rows(write: Post, now: int) -> list[tuple[str, str, str | None, str, str, str | None, int]]:
    said: list[tuple[NewMessage, str | None]] = [(write.message, None)] if write.message else []
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
    for (run_id,) in tx.run(queries.LIVE_IN, thread_id, thread_id):
        reached |= cancel_below(batch, run_id, as_json({"message": "its thread was deleted"}), itself=True)
    return reached


def purge(batch: Batch, writes: list[Purge]) -> None:
    for write in writes:
        batch.settle(write, _purge(batch.tx, write.thread_id))


def _purge(tx: Transaction, thread_id: str) -> Pruned | None:
    found = tx.run("SELECT deleted_at FROM threads WHERE id = ?", thread_id)
    if not found:
        return Pruned()  # somebody else was quicker
    if found[0][0] is None or tx.run(f"{queries.LIVE_IN} LIMIT 1", thread_id, thread_id):
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
