"""The purse of a tree: what its calls may cost together, kept on the root's row."""

from __future__ import annotations

from retinue.core.budget import MICROS
from retinue.errors import Fenced
from retinue.ports.store import Reserve
from retinue.store.transaction import Transaction
from retinue.store.writes.batch import Batch

_HOLD = """UPDATE runs SET purse_held = COALESCE(purse_held, 0) + ? WHERE id = ?
AND COALESCE(purse_spent, 0) + COALESCE(purse_held, 0) + ? + ? <= purse_limit RETURNING id"""

_SETTLE = """UPDATE runs SET purse_spent = COALESCE(purse_spent, 0) + ?, purse_held = COALESCE(purse_held, 0) - ?
WHERE id = ?"""


def reserve(batch: Batch, writes: list[Reserve]) -> None:
    """What a run had put aside before a crash is replaced, not added to."""
    tx = batch.tx
    for write in writes:
        sql = "SELECT root_id, COALESCE(reserved, 0) FROM runs WHERE id = ? AND attempt = ? AND status = 'running'"
        found = tx.run(sql, write.run_id, write.attempt)
        if not found:
            batch.settle(write, Fenced(run_id=write.run_id, attempt=write.attempt))
            continue
        root_id, before = found[0]
        more = write.micros - before
        held = bool(tx.run(_HOLD, more, root_id, more, write.keep))
        if held:
            tx.run("UPDATE runs SET reserved = ? WHERE id = ?", write.micros, write.run_id)
        batch.settle(write, held)


def settle(tx: Transaction, run_id: str, spent_usd: float) -> None:
    """What a call had put aside is replaced by what it cost."""
    ((root_id, held),) = tx.run("SELECT root_id, COALESCE(reserved, 0) FROM runs WHERE id = ?", run_id)
    tx.run(_SETTLE, round(spent_usd * MICROS), held, root_id)
    tx.run("UPDATE runs SET reserved = NULL WHERE id = ?", run_id)
