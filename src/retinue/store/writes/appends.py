"""Recording events, and what else they change: rows that are views of them, parents, what runs below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from retinue.core import events as e
from retinue.errors import (
    ChildRefused,
    Fenced,
)
from retinue.ports.store import (
    Append,
    Appended,
    Recorded,
)
from retinue.store.transaction import Row, Transaction
from retinue.store.writes.batch import Batch, as_json
from retinue.store.writes.purse import settle
from retinue.store.writes.signals import cancel_below, send
from retinue.store.writes.submits import FILE_COLUMNS, insert_events, insert_runs

_FENCE = "runs.id = b.id AND runs.attempt = b.attempt AND runs.last_seq = b.last AND runs.status = 'running'"
_NUMBER = (
    "last_seq = runs.last_seq + b.n, tree_seq = runs.tree_seq + CASE WHEN runs.root_id = runs.id THEN b.n ELSE 0 END"
)
_GAVE = "RETURNING runs.id, runs.root_id, runs.tree_seq, runs.owner"

_RECORD = f"""WITH b(id, attempt, last, n) AS ({{rows}})
UPDATE runs SET {_NUMBER} FROM b WHERE {_FENCE} {_GAVE}"""

_PARK = f"""WITH b(id, attempt, last, n, waits_for, until, seen) AS ({{rows}})
UPDATE runs SET {_NUMBER}, status = 'waiting', waits_for = b.waits_for, wake_at = b.until, worker_id = NULL, crashes = 0
FROM b WHERE {_FENCE} AND runs.signal_seq = b.seen {_GAVE}"""

_FINISH = f"""WITH b(id, attempt, last, n, status, reason, recovered, now, seen, answer_key) AS ({{rows}})
UPDATE runs SET {_NUMBER}, status = b.status, reason = b.reason, recovered = b.recovered, finished_at = b.now,
answer_key = b.answer_key, waits_for = NULL, wake_at = NULL, worker_id = NULL
FROM b WHERE {_FENCE} AND (b.seen IS NULL OR runs.signal_seq = b.seen) {_GAVE}, runs.parent_id, runs.call_id,
runs.signal_seq, runs.message_id, runs.after_run_id, runs.reserved"""

# Whoever waited for a run that had itself to wait goes on waiting for the one before it.
_FREE = """WITH b(id, after) AS ({rows})
UPDATE runs SET after_run_id = b.after FROM b WHERE runs.after_run_id = b.id RETURNING runs.id"""


def append(batch: Batch, writes: list[Append]) -> None:
    tx = batch.tx
    writes = _refuse_late_children(batch, writes)
    plain: list[Append] = []
    parks: list[Append] = []
    ends: list[Append] = []
    for write in writes:
        last = write.drafts[-1].data if write.drafts else None
        (parks if isinstance(last, e.RunWaiting) else ends if write.ends else plain).append(write)
    passed: dict[str, Row] = {}
    if plain:
        rows = tx.rows(_RECORD, "id text, attempt int, last bigint, n bigint", [_guard(w) for w in plain])
        passed.update((row[0], row) for row in rows)
    if parks:
        columns = "id text, attempt int, last bigint, n bigint, waits_for text, until bigint, seen bigint"
        passed.update((row[0], row) for row in tx.rows(_PARK, columns, [_park_row(w) for w in parks]))
    if ends:
        columns = (
            "id text, attempt int, last bigint, n bigint, status text, reason text, recovered bool, now bigint, "
            "seen bigint, answer_key text"
        )
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
    insert_events(batch, recorded)
    for write in accepted:
        if write.children:
            insert_runs(batch, write.children, {passed[write.run_id][1]: roots[passed[write.run_id][1]]})
            roots[passed[write.run_id][1]] += len(write.children)
    _project(batch, accepted, {run_id: row[3] for run_id, row in passed.items()})
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
    return *_guard(write), data.status.value, data.reason.value, data.recovered, now, write.signal_seen, data.answer_key


def _why_refused(tx: Transaction, write: Append) -> Fenced | Appended | None:
    """Somebody else has the run; or a signal overtook a park or an end, which is no error; or the write is there
    already, because the connection was lost before its commit could be heard of."""
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


def _project(batch: Batch, writes: Iterable[Append], owners: dict[str, str]) -> None:
    """Rows that are views of events: tickets, partials, files, the purse."""
    tx, opened, closed, said, files = batch.tx, [], [], [], []
    for write in writes:
        files += [(uri, write.run_id, owners[write.run_id], size, tx.now) for uri, size in write.files]
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
                case e.BudgetSettled() as data:
                    settle(tx, write.run_id, data.spent_usd)
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
        run_id, parent_id, call_id = row[0], row[4], row[5]
        if parent_id is not None:
            data = write.drafts[-1].data
            assert isinstance(data, e.RunFinished)
            said = {"run_id": run_id, "call_id": call_id, "status": data.status.value, "reason": data.reason.value}
            told.append((parent_id, "child", as_json(said | {"recovered": data.recovered})))
        if write.cancel_children:
            cancel_below(batch, run_id, "{}")
        if row[9]:
            settle(tx, run_id, 0.0)
    ids = tx.any([write.run_id for write, _ in ended])
    tx.run(
        "UPDATE tickets SET status = 'closed', decision = 'void', closed_at = ? "
        "WHERE status <> 'closed' AND run_id {in}",
        tx.now,
        ids,
    )
    tx.run("DELETE FROM partials WHERE run_id {in}", ids)
    if signalled := [row[0] for _, row in ended if row[6]]:
        tx.run("DELETE FROM signals WHERE run_id {in}", tx.any(signalled))
    if told:
        send(batch, told)
    if answers := [(row[7], write.answer) for write, row in ended if row[7] and write.answer is not None]:
        sql = "WITH b(id, parts) AS ({rows}) UPDATE messages SET parts = b.parts FROM b WHERE messages.id = b.id"
        tx.rows(sql, "id text, parts text", answers)
    _free_branches(batch, {row[0]: row[8] for _, row in ended if row[7]})


def _free_branches(batch: Batch, ended: dict[str, str | None]) -> None:
    """What waited for these runs on their branches may begin."""
    if not ended:
        return
    rows = []
    for run_id in ended:
        after = ended[run_id]
        while after in ended:
            after = ended[after]
        rows.append((run_id, after))
    batch.commit.queued |= bool(batch.tx.rows(_FREE, "id text, after text", rows))
