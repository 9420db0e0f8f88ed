"""What each write does, in SQL that both databases take.

Writes of one kind are executed together. Each begins with the statement that decides whether it may be
done at all; what follows cannot fail, so a refused write leaves nothing behind and the others go on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from retinue.core import events as e
from retinue.core.outcome import Status
from retinue.errors import (
    ChildRefused,
    Fenced,
    IdempotencyConflict,
    RetinueError,
    RunEnded,
    TicketEnded,
    UnknownRun,
    UnknownTicket,
)
from retinue.ports.store import (
    Append,
    Appended,
    Cancel,
    Claim,
    Claimed,
    Commit,
    Draft,
    LetGo,
    NewRun,
    Prune,
    Pruned,
    Recorded,
    Renew,
    RunRow,
    Signal,
    Speak,
    Submit,
    WakeDue,
    WorkerDied,
    Write,
)
from retinue.store import queries
from retinue.store.transaction import Row, Transaction

RUN_COLUMNS = ", ".join(RunRow.__dataclass_fields__)
KEY_LIVES_MS = 24 * 3_600_000
GRACE_OF_CLOCK_MS = 120_000


@dataclass(slots=True)
class Batch:
    """The writes that share a commit, what came of each, and what to tell afterwards."""

    tx: Transaction
    results: dict[int, object] = field(default_factory=dict)
    commit: Commit = field(default_factory=Commit)

    def settle(self, write: Write, result: object) -> None:
        self.results[id(write)] = result


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


# Submit


def _submit(batch: Batch, writes: list[Submit]) -> None:
    writes = _refuse_lost_sources(batch, writes)
    if keyless := [write for write in writes if not write.run.idempotency_key]:
        _insert_runs(batch, keyless, roots={})
    for write in keyless:
        batch.settle(write, write.run.id)
    # In one order, so that two processes with the same keys do not wait for each other.
    keyed = [write for write in writes if write.run.idempotency_key]
    for write in sorted(keyed, key=lambda write: (write.run.owner, write.run.idempotency_key)):
        existing = _same_key(batch.tx, write.run)
        if existing is None:
            _insert_runs(batch, [write], roots={})
        batch.settle(write, existing or write.run.id)


def _refuse_lost_sources(batch: Batch, writes: list[Submit]) -> list[Submit]:
    """A run whose past was deleted meanwhile is not begun. Its source's tree is held, so it stays from here on."""
    sources = sorted({write.run.source_run_id for write in writes if write.run.source_run_id})
    if not sources:
        return writes
    there = {row[0] for row in batch.tx.run("SELECT id FROM runs WHERE id {in}", batch.tx.any(sources))}
    lost = [write for write in writes if write.run.source_run_id and write.run.source_run_id not in there]
    for write in lost:
        batch.settle(write, UnknownRun(run_id=write.run.source_run_id))
    return [write for write in writes if write not in lost]


def _same_key(tx: Transaction, run: NewRun) -> str | IdempotencyConflict | None:
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
    if digest != run.request_digest:
        return IdempotencyConflict(key=run.idempotency_key, run_id=run_id)
    return str(run_id)


FILE_COLUMNS = "uri text, run_id text, size bigint, created_at bigint"

_NEW_RUN = (
    "id text, root_id text, parent_id text, call_id text, depth int, owner text, thread_id text, message_id text, "
    "target text, definition text, requires text, durability text, priority int, due_at bigint, expires_at bigint, "
    "source_run_id text, source_seq bigint, idempotency_key text, request_digest text, status text, recovered bool, "
    "cause text, cancelled bool, attempt int, crashes int, last_seq bigint, tree_seq bigint, signal_seq bigint, "
    "created_at bigint"
)


def _insert_runs(batch: Batch, submits: Sequence[Submit], roots: dict[str, int]) -> None:
    """Store queued runs. `roots` has the last root_seq of trees that the runs are added to."""
    tx, rows, recorded = batch.tx, [], []
    for submit in submits:
        run = submit.run
        root_seq = roots[run.root_id] = roots.get(run.root_id, 0) + 1
        rows.append(
            (
                *(run.id, run.root_id, run.parent_id, run.call_id, run.depth, run.owner, run.thread_id, run.message_id),
                *(run.target, run.definition, run.requires, run.durability, run.priority, run.due_at or tx.now),
                *(run.expires_at, run.source_run_id, run.source_seq, run.idempotency_key, run.request_digest),
                *("queued", False, "submit", False, 0, 0, 1, 1, 0, tx.now),
            )
        )
        recorded.append(Recorded(run.id, 1, root_seq, 0, tx.now, run.queued.data.type, run.queued.encoded))
        batch.commit.roots[run.id] = run.root_id
    tx.insert("runs", _NEW_RUN, rows)
    if files := [(uri, s.run.id, size, tx.now) for s in submits for uri, size in s.files]:
        tx.insert("files", FILE_COLUMNS, files, "ON CONFLICT DO NOTHING")
    if wanted := {(s.run.requires, s.requirement) for s in submits if s.requirement}:
        tx.insert("requirements", "digest text, data text", sorted(wanted), "ON CONFLICT DO NOTHING")
    if defined := {(s.run.definition, s.definition) for s in submits if s.definition}:
        tx.insert("definitions", "digest text, data text", sorted(defined), "ON CONFLICT DO NOTHING")
    _insert_events(batch, recorded)
    batch.commit.queued = True


def _insert_events(batch: Batch, recorded: list[Recorded]) -> None:
    roots = batch.commit.roots
    batch.tx.insert(
        "events",
        "run_id text, seq bigint, root_id text, root_seq bigint, attempt int, at bigint, type text, data text",
        [(r.run_id, r.seq, roots[r.run_id], r.root_seq, r.attempt, r.at, r.type, r.data) for r in recorded],
    )
    batch.commit.events.extend(recorded)


# Append

_FENCE = "runs.id = b.id AND runs.attempt = b.attempt AND runs.last_seq = b.last AND runs.status = 'running'"
_NUMBER = (
    "last_seq = runs.last_seq + b.n, tree_seq = runs.tree_seq + CASE WHEN runs.root_id = runs.id THEN b.n ELSE 0 END"
)
_GAVE = "RETURNING runs.id, runs.root_id, runs.tree_seq"

_RECORD = f"""WITH b(id, attempt, last, n) AS ({{rows}})
UPDATE runs SET {_NUMBER} FROM b WHERE {_FENCE} {_GAVE}"""

_PARK = f"""WITH b(id, attempt, last, n, waits_for, until, seen) AS ({{rows}})
UPDATE runs SET {_NUMBER}, status = 'waiting', waits_for = b.waits_for, wake_at = b.until, worker_id = NULL, crashes = 0
FROM b WHERE {_FENCE} AND runs.signal_seq = b.seen {_GAVE}"""

_FINISH = f"""WITH b(id, attempt, last, n, status, reason, recovered, now) AS ({{rows}})
UPDATE runs SET {_NUMBER}, status = b.status, reason = b.reason, recovered = b.recovered, finished_at = b.now,
waits_for = NULL, wake_at = NULL, worker_id = NULL
FROM b WHERE {_FENCE} {_GAVE}, runs.parent_id, runs.call_id, runs.signal_seq"""


def _append(batch: Batch, writes: list[Append]) -> None:
    tx = batch.tx
    writes = _refuse_late_children(batch, writes)
    plain: list[Append] = []
    parks: list[Append] = []
    ends: list[Append] = []
    for write in writes:
        last = write.drafts[-1].data if write.drafts else None
        (parks if isinstance(last, e.RunWaiting) else ends if isinstance(last, e.RunFinished) else plain).append(write)
    passed: dict[str, Row] = {}
    if plain:
        rows = tx.rows(_RECORD, "id text, attempt int, last bigint, n bigint", [_guard(w) for w in plain])
        passed.update((row[0], row) for row in rows)
    if parks:
        columns = "id text, attempt int, last bigint, n bigint, waits_for text, until bigint, seen bigint"
        passed.update((row[0], row) for row in tx.rows(_PARK, columns, [_park_row(w) for w in parks]))
    if ends:
        columns = "id text, attempt int, last bigint, n bigint, status text, reason text, recovered bool, now bigint"
        passed.update((row[0], row) for row in tx.rows(_FINISH, columns, [_finish_row(w, tx.now) for w in ends]))

    accepted = [w for w in writes if w.run_id in passed]
    for write in writes:
        if write.run_id not in passed:
            batch.settle(write, _why_refused(tx, write))
    if not accepted:
        return
    begins, roots = _number_trees(batch, accepted, passed)
    recorded = []
    for write in accepted:
        seq, root_seq = write.last_seq, begins[write.run_id]
        batch.settle(write, Appended(root_seq, tx.now))
        for n, draft in enumerate(write.drafts):
            recorded.append(
                Recorded(write.run_id, seq + n + 1, root_seq + n, write.attempt, tx.now, draft.data.type, draft.encoded)
            )
    _insert_events(batch, recorded)
    for write in accepted:
        if write.children:
            _insert_runs(batch, write.children, {passed[write.run_id][1]: roots[passed[write.run_id][1]]})
            roots[passed[write.run_id][1]] += len(write.children)
    _project(batch, accepted)
    _end(batch, [(w, passed[w.run_id]) for w in ends if w.run_id in passed])


def _refuse_late_children(batch: Batch, writes: list[Append]) -> list[Append]:
    """A run that was told to stop starts nothing more: what runs below it has been told already."""
    starting = [write.run_id for write in writes if write.children]
    if not starting:
        return writes
    sql = "SELECT id, attempt FROM runs WHERE cancelled AND id {in}"
    stopped = {(row[0], row[1]) for row in batch.tx.run(sql, batch.tx.any(starting))}
    late = [write for write in writes if write.children and (write.run_id, write.attempt) in stopped]
    for write in late:
        batch.settle(write, ChildRefused(run_id=write.run_id, problem="it was cancelled."))
    return [write for write in writes if write not in late]


def _guard(write: Append) -> tuple[object, ...]:
    return write.run_id, write.attempt, write.last_seq, len(write.drafts)


def _park_row(write: Append) -> tuple[object, ...]:
    data = write.drafts[-1].data
    assert isinstance(data, e.RunWaiting)
    return *_guard(write), ",".join(data.reasons), data.until, write.signal_seen


def _finish_row(write: Append, now: int) -> tuple[object, ...]:
    data = write.drafts[-1].data
    assert isinstance(data, e.RunFinished)
    return *_guard(write), data.status.value, data.reason.value, data.recovered, now


def _why_refused(tx: Transaction, write: Append) -> Fenced | Appended | None:
    """Somebody else has the run; or a signal overtook a park, which is no error; or the write is there already,
    because the connection was lost before its commit could be heard of."""
    done = tx.run(
        "SELECT root_seq, at FROM events WHERE run_id = ? AND seq = ? AND attempt = ? AND type = ?",
        write.run_id,
        write.last_seq + 1,
        write.attempt,
        write.drafts[0].data.type,
    )
    if done and write.again:
        return Appended(*done[0])
    held = tx.run(
        "SELECT 1 FROM runs WHERE id = ? AND attempt = ? AND last_seq = ? AND status = 'running'",
        write.run_id,
        write.attempt,
        write.last_seq,
    )
    return None if held else Fenced(run_id=write.run_id, attempt=write.attempt)


def _number_trees(
    batch: Batch, writes: Sequence[Append], passed: dict[str, Row]
) -> tuple[dict[str, int], dict[str, int]]:
    """The first root_seq of each append, and the last one of each tree before its new children are added.

    A root's own events were numbered by the statement that let them pass. Those of runs below, and the
    children to be stored, take their numbers from the root's row, each tree once.
    """
    begins: dict[str, int] = {}
    more: Counter[str] = Counter()
    for write in writes:
        run_id, root_id, tree_seq = passed[write.run_id][:3]
        batch.commit.roots[run_id] = root_id
        if run_id == root_id:
            begins[run_id] = tree_seq - len(write.drafts) + 1
        else:
            more[root_id] += len(write.drafts)
        more[root_id] += len(write.children)
    grown = +more
    last = _grow(batch.tx, grown) if grown else {}
    following = {root_id: last[root_id] - more[root_id] for root_id in last}
    for write in writes:
        run_id, root_id = passed[write.run_id][:2]
        if run_id != root_id:
            begins[run_id] = following[root_id] + 1
            following[root_id] += len(write.drafts)
    return begins, following


def _grow(tx: Transaction, more: Counter[str]) -> dict[str, int]:
    sql = (
        "WITH b(id, n) AS ({rows}) UPDATE runs SET tree_seq = runs.tree_seq + b.n FROM b WHERE runs.id = b.id "
        "RETURNING runs.id, runs.tree_seq"
    )
    return dict(tx.rows(sql, "id text, n bigint", sorted(more.items())))


def _project(batch: Batch, writes: Iterable[Append]) -> None:
    """Rows that are views of events: tickets, partials, files."""
    tx, opened, closed, said, files = batch.tx, [], [], [], []
    for write in writes:
        files += [(uri, write.run_id, size, tx.now) for uri, size in write.files]
        for draft in write.drafts:
            match draft.data:
                case e.TicketOpened() as data:
                    opened.append(
                        (
                            *(data.ticket_id, write.run_id, batch.commit.roots[write.run_id], data.kind.value),
                            *(data.call_id, "open", data.title, draft.encoded, None, tx.now, data.expires_at, None),
                        )
                    )
                case e.TicketClosed() as data:
                    closed.append((data.ticket_id, data.decision, tx.now))
                case e.ModelResponded() | e.TurnInterrupted() | e.ModelRetried():
                    said.append(write.run_id)
                case _:
                    pass
    if opened:
        columns = (
            "id text, run_id text, root_id text, kind text, call_id text, status text, title text, data text, "
            "decision text, opened_at bigint, expires_at bigint, closed_at bigint"
        )
        tx.insert("tickets", columns, opened)
    if closed:
        sql = (
            "WITH b(id, decision, now) AS ({rows}) UPDATE tickets SET status = 'closed', decision = b.decision, "
            "closed_at = b.now FROM b WHERE tickets.id = b.id"
        )
        tx.rows(sql, "id text, decision text, now bigint", closed)
    if said:
        tx.run("DELETE FROM partials WHERE run_id {in}", tx.any(said))
    if files:
        tx.insert("files", FILE_COLUMNS, files, "ON CONFLICT DO NOTHING")


def _end(batch: Batch, ended: list[tuple[Append, Row]]) -> None:
    """What else happens when runs end: their parents are told, what was open is closed, what runs below is stopped."""
    if not ended:
        return
    tx, told = batch.tx, []
    for write, row in ended:
        run_id, parent_id, call_id = row[0], row[3], row[4]
        if parent_id is not None:
            data = write.drafts[-1].data
            assert isinstance(data, e.RunFinished)
            said = {"run_id": run_id, "call_id": call_id, "status": data.status.value, "reason": data.reason.value}
            told.append((parent_id, "child", _json(said | {"recovered": data.recovered})))
        if write.cancel_children:
            _cancel_below(batch, run_id, "{}")
    ids = tx.any([write.run_id for write, _ in ended])
    tx.run(
        "UPDATE tickets SET status = 'closed', decision = 'void', closed_at = ? "
        "WHERE status <> 'closed' AND run_id {in}",
        tx.now,
        ids,
    )
    tx.run("DELETE FROM partials WHERE run_id {in}", ids)
    if signalled := [row[0] for _, row in ended if row[5]]:
        tx.run("DELETE FROM signals WHERE run_id {in}", tx.any(signalled))
    if told:
        _send(batch, told)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# Signals

# Who is paused is woken only by what ends the pause.
_WAKES = "runs.status = 'waiting' AND (runs.waits_for <> 'paused' OR b.unpause)"

_SEND = f"""WITH b(id, n, cause, unpause) AS ({{rows}})
UPDATE runs SET signal_seq = runs.signal_seq + b.n,
cause = CASE WHEN runs.status = 'waiting' THEN b.cause ELSE runs.cause END,
wake_at = CASE WHEN {_WAKES} THEN NULL ELSE runs.wake_at END,
status = CASE WHEN {_WAKES} THEN 'queued' ELSE runs.status END
FROM b WHERE runs.id = b.id AND runs.status IN ('queued', 'running', 'waiting')
RETURNING runs.id, runs.signal_seq, runs.status"""


def _send(batch: Batch, signals: Sequence[tuple[str, str, str]], unpause: Iterable[str] = ()) -> dict[str, Row]:
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


def _signal(batch: Batch, writes: list[Signal]) -> None:
    tx = batch.tx
    allowed = []
    for write in writes:
        refused = _take_ticket(tx, write.run_id, write.ticket_id) if write.ticket_id else None
        if refused:
            batch.settle(write, refused)
        else:
            allowed.append(write)
    reached = _send(
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


def _take_ticket(tx: Transaction, run_id: str, ticket_id: str) -> RetinueError | None:
    taken = "UPDATE tickets SET status = 'deciding' WHERE id = ? AND run_id = ? AND status = 'open' RETURNING id"
    if tx.run(taken, ticket_id, run_id):
        return None
    found = tx.run("SELECT COALESCE(decision, status) FROM tickets WHERE id = ? AND run_id = ?", ticket_id, run_id)
    return TicketEnded(ticket_id=ticket_id, decision=found[0][0]) if found else UnknownTicket(ticket_id=ticket_id)


def _why_deaf(tx: Transaction, run_id: str) -> RetinueError:
    found = tx.run("SELECT status FROM runs WHERE id = ?", run_id)
    return RunEnded(run_id=run_id, status=found[0][0]) if found else UnknownRun(run_id=run_id)


def _cancel(batch: Batch, writes: list[Cancel]) -> None:
    for write in writes:
        reached = _cancel_below(batch, write.run_id, write.data, itself=True)
        batch.settle(write, reached or _why_deaf(batch.tx, write.run_id))


_BELOW = """WITH RECURSIVE below(id) AS (
SELECT id FROM runs WHERE {start} UNION ALL SELECT r.id FROM runs r JOIN below ON r.parent_id = below.id
) SELECT r.id FROM runs r JOIN below ON r.id = below.id WHERE r.status IN ('queued', 'running', 'waiting')"""


def _cancel_below(batch: Batch, run_id: str, data: str, *, itself: bool = False) -> dict[str, Status]:
    tx = batch.tx
    ids = [row[0] for row in tx.run(_BELOW.replace("{start}", "id = ?" if itself else "parent_id = ?"), run_id)]
    if not ids:
        return {}
    tx.run("UPDATE runs SET cancelled = TRUE WHERE id {in}", tx.any(ids))
    reached = _send(batch, [(run, "cancel", data) for run in ids], unpause=ids)
    return {run: Status(row[2]) for run, row in reached.items()}


# Claims and leases

# Who was not delayed (or has begun) is due whatever the clock says: it may have jumped back.
_QUEUED = """SELECT r.id FROM runs r JOIN runs root ON root.id = r.root_id
WHERE r.status = 'queued' AND (r.due_at <= ? OR r.due_at = r.created_at) AND r.requires {in}{tree}{owners}
ORDER BY r.priority DESC, r.due_at, r.id LIMIT ?{lock}"""

_LEFT = """SELECT r.id FROM runs r JOIN runs root ON root.id = r.root_id
WHERE r.status = 'running' AND r.requires {in}{tree} AND r.worker_id IN (SELECT id FROM workers WHERE lease_until < ?)
ORDER BY r.priority DESC, r.id LIMIT ?{lock}"""

# Found before their trees were held, some may have been taken by somebody else since.
_STILL = """SELECT id, attempt, owner, parent_id, status FROM runs
WHERE (status = 'queued' OR status = 'running' AND worker_id IN (SELECT id FROM workers WHERE lease_until < ?))
AND id {in}"""

_FULL = """ AND (r.parent_id IS NOT NULL OR r.owner NOT IN (
SELECT q.owner FROM runs q LEFT JOIN limits l ON l.owner = q.owner
WHERE q.status = 'running' AND q.parent_id IS NULL
GROUP BY q.owner, l.max_running HAVING COUNT(*) >= COALESCE(l.max_running, ?)))"""

_TAKE = f"""WITH b(id, worker, attempt) AS ({{rows}})
UPDATE runs SET crashes = runs.crashes + CASE WHEN runs.status = 'running' THEN 1 ELSE 0 END,
cause = CASE WHEN runs.status = 'running' THEN 'crash' ELSE runs.cause END,
status = 'running', attempt = runs.attempt + 1, worker_id = b.worker, waits_for = NULL, wake_at = NULL
FROM b WHERE runs.id = b.id AND runs.attempt = b.attempt AND runs.status IN ('queued', 'waiting', 'running')
RETURNING {", ".join(f"runs.{column}" for column in RunRow.__dataclass_fields__)}"""


_LIVES = "UPDATE workers SET lease_until = ? WHERE id = ?"


def _claim(batch: Batch, writes: list[Claim]) -> None:
    for write in writes:
        ids: list[tuple[str, int]] = []
        if _lives(batch.tx, write):
            ids = _this_one(batch.tx, write) if write.run_id else _candidates(batch.tx, write)
        rows = batch.tx.rows(
            _TAKE,
            "id text, worker text, attempt int",
            [(run_id, write.worker_id, attempt) for run_id, attempt in ids],
        )
        taken = [queries.run_row(row) for row in rows]
        batch.settle(write, _begin(batch, write, taken))


def _lives(tx: Transaction, write: Claim) -> bool:
    """Who has no lease takes nothing: if it died, nobody would find what it held."""
    found = tx.run("SELECT lease_until FROM workers WHERE id = ?", write.worker_id)
    if found and found[0][0] < tx.now + write.lease_ms // 2:
        tx.run(_LIVES, tx.now + write.lease_ms, write.worker_id)
    return bool(found)


def _this_one(tx: Transaction, write: Claim) -> list[tuple[str, int]]:
    sql = "SELECT id, attempt FROM runs WHERE id = ? AND status IN ('queued', 'waiting')"
    return [(row[0], row[1]) for row in tx.run(sql, write.run_id)]


def _candidates(tx: Transaction, write: Claim) -> list[tuple[str, int]]:
    """Runs that want a worker, those that were left behind first. Under a limit for owners, no more than it allows."""
    requires = tx.any(write.requires)
    tree = f" AND {queries.IN_TREE}" if write.root_id else ""
    within = (write.root_id, write.root_id) if write.root_id else ()
    left = _LEFT.replace("{tree}", tree)
    found = [row[0] for row in tx.run(left, requires, *within, tx.now, write.limit)]
    room = write.limit - len(found)
    if room and write.owner_limit is None:
        sql = _QUEUED.replace("{tree}", tree).replace("{owners}", "")
        found += [row[0] for row in tx.run(sql, tx.now, requires, *within, room)]
    elif room:
        tx.serialize()
        sql = _QUEUED.replace("{tree}", tree).replace("{owners}", _FULL)
        found += [row[0] for row in tx.run(sql, tx.now, requires, *within, write.owner_limit, room)]
    rows = tx.run(_STILL, tx.now, tx.any(found)) if found else []
    if write.owner_limit is not None:
        order = {run_id: place for place, run_id in enumerate(found)}
        rows = _within_limits(tx, sorted(rows, key=lambda row: order[row[0]]), write.owner_limit)
    return [(row[0], row[1]) for row in rows]


def _within_limits(tx: Transaction, rows: list[Row], default: int) -> list[Row]:
    owners = tx.any(sorted({row[2] for row in rows}))
    running = {
        row[0]: row[1]
        for row in tx.run(
            "SELECT owner, COUNT(*) FROM runs WHERE status = 'running' AND parent_id IS NULL AND owner {in} "
            "GROUP BY owner",
            owners,
        )
    }
    allowed = {row[0]: row[1] for row in tx.run("SELECT owner, max_running FROM limits WHERE owner {in}", owners)}
    kept = []
    for row in rows:
        owner, parent_id, status = row[2], row[3], row[4]
        if parent_id is None and status == "queued":
            if running.get(owner, 0) >= allowed.get(owner, default):
                continue
            running[owner] = running.get(owner, 0) + 1
        kept.append(row)
    return kept


def _begin(batch: Batch, write: Claim, rows: list[RunRow]) -> list[Claimed]:
    """Record that the runs were started or resumed. Who claims a run that never ran only to end it records no start."""
    tx, drafts = batch.tx, {}
    for row in rows:
        data: e.EventData | None = e.RunResumed(worker=write.worker_id, cause=row.cause)
        if row.started_at is None:
            data = e.RunStarted(worker=write.worker_id) if write.run_id is None else None
        if data:
            drafts[row.id] = Draft(data, e.encode(data).decode())
    firsts = [row.id for row in rows if row.started_at is None and row.id in drafts]
    if firsts:
        tx.run("UPDATE runs SET started_at = ? WHERE id {in}", tx.now, tx.any(firsts))
    appends = [
        Append(run_id=row.id, attempt=row.attempt, last_seq=row.last_seq, drafts=(drafts[row.id],))
        for row in rows
        if row.id in drafts
    ]
    if appends:
        _append(batch, appends)
    fresh = [row for row in rows if row.last_seq == 1]
    queued = {
        row[0]: Recorded(*row) for row in (tx.run(_FIRST_EVENTS, tx.any([row.id for row in fresh])) if fresh else [])
    }
    claimed = []
    began = {recorded.run_id: recorded for recorded in batch.commit.events if recorded.run_id in drafts}
    for row in rows:
        events = None
        if row.id in queued:
            events = (queued[row.id], began[row.id]) if row.id in began else (queued[row.id],)
        claimed.append(Claimed(row=row, events=events))
    return claimed


_FIRST_EVENTS = "SELECT run_id, seq, root_seq, attempt, at, type, data FROM events WHERE seq = 1 AND run_id {in}"


_WORKER = (
    "id text, host text, boot_id text, pid bigint, process_started text, concurrency bigint, started_at bigint, "
    "lease_until bigint, draining_since bigint, owner_limit bigint, loads text"
)
_SAYS_AGAIN = (
    "ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, "
    "draining_since = excluded.draining_since, loads = excluded.loads"
)


def _renew(batch: Batch, writes: list[Renew]) -> None:
    """The lease is the worker's: one row, however many runs it holds."""
    tx = batch.tx
    for write in writes:
        w = write.worker
        row = (w.id, w.host, w.boot_id, w.pid, w.process_started, w.concurrency, tx.now, tx.now + write.lease_ms)
        tx.insert("workers", _WORKER, [(*row, w.draining_since, w.owner_limit, w.loads)], _SAYS_AGAIN)
        held = tx.run("SELECT id, attempt, signal_seq FROM runs WHERE worker_id = ? AND status = 'running'", w.id)
        batch.settle(write, {run_id: (attempt, signal_seq) for run_id, attempt, signal_seq in held})
    # A lease cannot end that far ahead unless a clock jumped back; whoever holds it still lives renews it anyway.
    tx.run(
        "UPDATE workers SET lease_until = ? WHERE lease_until > ?",
        tx.now + GRACE_OF_CLOCK_MS,
        tx.now + 2 * GRACE_OF_CLOCK_MS,
    )


def _let_go(batch: Batch, writes: list[LetGo]) -> None:
    for write in writes:
        sql = (
            "UPDATE runs SET status = 'queued', cause = 'released', worker_id = NULL, due_at = created_at "
            "WHERE worker_id = ? AND status = 'running'"
        )
        if write.run_ids is None:
            batch.tx.run(sql, write.worker_id)
            batch.tx.run("DELETE FROM workers WHERE id = ?", write.worker_id)
        else:
            batch.tx.run(sql + " AND id {in}", write.worker_id, batch.tx.any(write.run_ids))
        batch.settle(write, None)
        batch.commit.queued = True


def _worker_died(batch: Batch, writes: list[WorkerDied]) -> None:
    for write in writes:
        batch.tx.run("UPDATE workers SET lease_until = 0 WHERE id = ?", write.worker_id)
        batch.settle(write, None)
        batch.commit.queued = True


# Time


def _wake_due(batch: Batch, writes: list[WakeDue]) -> None:
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
        if _take_ticket(tx, run_id, ticket_id) is None:
            _send(batch, [(run_id, "expire", _json({"ticket_id": ticket_id}))])
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


def _speak(batch: Batch, writes: list[Speak]) -> None:
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


# Pruning


def _prune(batch: Batch, writes: list[Prune]) -> None:
    for write in writes:
        batch.settle(write, _prune_trees(batch.tx, write))
        batch.tx.run(_FORGET_WORKERS, write.before)


def _prune_trees(tx: Transaction, write: Prune) -> Pruned:
    """Who begins a run with one of these as its past holds the tree as we do: it is seen, or sees that all is gone."""
    sql = "SELECT root.id FROM runs root WHERE root.id {in} ORDER BY root.id{lock}"
    held = [row[0] for row in tx.run(sql, tx.any(write.root_ids))]
    sql = f"{queries.OLD} AND root.id {{in}}"
    going = {row[0] for row in tx.run(sql, write.before, write.before, tx.any(held))}
    reads = tx.run(_READS, tx.any([row[0] for row in _runs_of(tx, going)])) if going else []
    while kept := {source for tree, source in reads if source in going and tree not in going}:
        going -= kept
    if not going:
        return Pruned()
    roots, runs = tx.any(sorted(going)), _runs_of(tx, going)
    ids = tx.any([row[0] for row in runs])
    uris = {row[0] for row in tx.run("SELECT uri FROM files WHERE run_id {in}", ids)}
    tx.run("DELETE FROM events WHERE root_id {in}", roots)
    for table in ("partials", "signals", "tickets", "files"):
        tx.run(f"DELETE FROM {table} WHERE run_id {{in}}", ids)
    tx.run("DELETE FROM runs WHERE id {in}", ids)
    used = tx.run("SELECT DISTINCT uri FROM files WHERE uri {in}", tx.any(sorted(uris))) if uris else []
    events = sum(tree_seq for run_id, tree_seq in runs if run_id in going)
    return Pruned(len(going), len(runs), events, tuple(sorted(uris - {row[0] for row in used})))


def _runs_of(tx: Transaction, roots: set[str]) -> list[Row]:
    sql = (
        "SELECT id, tree_seq FROM runs WHERE id {in} "
        "UNION ALL SELECT id, tree_seq FROM runs WHERE root_id {in} AND parent_id IS NOT NULL"
    )
    return tx.run(sql, tx.any(sorted(roots)), tx.any(sorted(roots)))


_READS = (
    "SELECT DISTINCT r.root_id, s.root_id FROM runs r JOIN runs s ON s.id = r.source_run_id "
    "WHERE r.source_run_id {in} AND r.root_id <> s.root_id"
)
_FORGET_WORKERS = (
    "DELETE FROM workers WHERE lease_until < ? AND id NOT IN "
    "(SELECT worker_id FROM runs WHERE status = 'running' AND worker_id IS NOT NULL)"
)


_DO: dict[type[Write], Callable[[Batch, list[Any]], None]] = {
    Submit: _submit,
    Speak: _speak,
    Append: _append,
    Signal: _signal,
    Cancel: _cancel,
    WorkerDied: _worker_died,
    WakeDue: _wake_due,
    Renew: _renew,
    Claim: _claim,
    Prune: _prune,
    LetGo: _let_go,  # after claims: a worker that leaves leaves what it has just got, too
}
