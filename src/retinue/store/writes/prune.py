"""Deleting what ended long ago."""

from __future__ import annotations

from retinue.ports.store import (
    NOBODY,
    Forget,
    Prune,
    Pruned,
)
from retinue.store import queries
from retinue.store.transaction import Row, Transaction
from retinue.store.writes.batch import Batch
from retinue.store.writes.submits import FILE_COLUMNS


def prune(batch: Batch, writes: list[Prune]) -> None:
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
    return delete_trees(tx, going) if going else Pruned()


def delete_trees(tx: Transaction, going: set[str], *, and_holder: str | None = None) -> Pruned:
    """Delete trees with all that is theirs, and the files that `and_holder` holds."""
    roots, runs = tx.any(sorted(going)), _runs_of(tx, going)
    ids = tx.any([row[0] for row in runs])
    holders = tx.any([row[0] for row in runs] + ([and_holder] if and_holder else []))
    uris = {row[0] for row in tx.run("DELETE FROM files WHERE holder {in} RETURNING uri", holders)}
    tx.run("DELETE FROM events WHERE root_id {in}", roots)
    for table in ("partials", "signals", "tickets"):
        tx.run(f"DELETE FROM {table} WHERE run_id {{in}}", ids)
    tx.run("DELETE FROM runs WHERE id {in}", ids)
    events = sum(tree_seq for run_id, tree_seq in runs if run_id in going)
    return Pruned(len(going), len(runs), events, _orphaned(tx, uris), tuple(sorted(going)))


def _orphaned(tx: Transaction, uris: set[str]) -> tuple[str, ...]:
    """Those that nobody holds any more. It is remembered: what was stored a moment ago is not deleted at once."""
    if not uris:
        return ()
    sql = "SELECT DISTINCT uri FROM files WHERE holder <> ? AND uri {in}"
    left = sorted(uris - {row[0] for row in tx.run(sql, NOBODY, tx.any(sorted(uris)))})
    tx.insert("files", FILE_COLUMNS, [(uri, NOBODY, "", 0, tx.now) for uri in left], "ON CONFLICT DO NOTHING")
    return tuple(left)


def forget(batch: Batch, writes: list[Forget]) -> None:
    for write in writes:
        batch.tx.run("DELETE FROM files WHERE holder = ? AND uri {in}", NOBODY, batch.tx.any(write.uris))
        batch.settle(write, None)


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
