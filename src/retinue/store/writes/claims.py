"""Claims and leases."""

from __future__ import annotations

from retinue.core import events as e
from retinue.ports.store import (
    Append,
    Claim,
    Claimed,
    Draft,
    LetGo,
    Recorded,
    Renew,
    RunRow,
    WorkerDied,
)
from retinue.store import queries
from retinue.store.transaction import Row, Transaction
from retinue.store.writes.appends import append
from retinue.store.writes.batch import GRACE_OF_CLOCK_MS, Batch

# Who is to begin later has a time to wake at, as who sleeps has: neither is looked at here.
_QUEUED = """SELECT r.id FROM runs r JOIN runs root ON root.id = r.root_id
WHERE r.status = 'queued' AND r.after_run_id IS NULL AND r.wake_at IS NULL
AND r.requires {in}{tree}{owners} ORDER BY r.priority DESC, r.due_at, r.id LIMIT ?{lock}"""

_LEFT = """SELECT r.id FROM runs r JOIN runs root ON root.id = r.root_id
WHERE r.status = 'running' AND r.requires {in}{tree} AND r.worker_id IN (SELECT id FROM workers WHERE lease_until < ?)
ORDER BY r.priority DESC, r.id LIMIT ?{lock}"""

# Found before their trees were held, some may have been taken by somebody else since.
_STILL = """SELECT id, attempt, owner, parent_id, status FROM runs
WHERE (status = 'queued' AND after_run_id IS NULL AND wake_at IS NULL
OR status = 'running' AND worker_id IN (SELECT id FROM workers WHERE lease_until < ?)) AND id {in}"""

_FULL = """ AND (r.parent_id IS NOT NULL OR r.owner NOT IN (
SELECT q.owner FROM runs q LEFT JOIN limits l ON l.owner = q.owner
WHERE q.status = 'running' AND q.parent_id IS NULL
GROUP BY q.owner, l.max_running HAVING COUNT(*) >= COALESCE(l.max_running, ?)
UNION ALL SELECT owner FROM limits WHERE max_running <= 0))"""

_TAKE = f"""WITH b(id, worker, attempt) AS ({{rows}})
UPDATE runs SET crashes = runs.crashes + CASE WHEN runs.status = 'running' THEN 1 ELSE 0 END,
cause = CASE WHEN runs.status = 'running' THEN 'crash' ELSE runs.cause END,
status = 'running', attempt = runs.attempt + 1, worker_id = b.worker, waits_for = NULL, wake_at = NULL
FROM b WHERE runs.id = b.id AND runs.attempt = b.attempt AND runs.status IN ('queued', 'waiting', 'running')
RETURNING {", ".join(f"runs.{column}" for column in RunRow.__dataclass_fields__)}"""


_LIVES = "UPDATE workers SET lease_until = ? WHERE id = ?"


def claim(batch: Batch, writes: list[Claim]) -> None:
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
        found += [row[0] for row in tx.run(sql, requires, *within, room)]
    elif room:
        tx.serialize()
        sql = _QUEUED.replace("{tree}", tree).replace("{owners}", _FULL)
        found += [row[0] for row in tx.run(sql, requires, *within, write.owner_limit, room)]
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
        append(batch, appends)
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


def renew(batch: Batch, writes: list[Renew]) -> None:
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


def let_go(batch: Batch, writes: list[LetGo]) -> None:
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
            if write.requires:
                new = [(write.requires, write.requirement)]
                batch.tx.insert("requirements", "digest text, data text", new, "ON CONFLICT DO NOTHING")
                batch.tx.run("UPDATE runs SET requires = ? WHERE id {in}", write.requires, batch.tx.any(write.run_ids))
        batch.settle(write, None)
        batch.commit.queued = True


def worker_died(batch: Batch, writes: list[WorkerDied]) -> None:
    for write in writes:
        batch.tx.run("UPDATE workers SET lease_until = 0 WHERE id = ?", write.worker_id)
        batch.settle(write, None)
        batch.commit.queued = True
