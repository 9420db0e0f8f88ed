"""What is read, as SQL that both databases take."""

from __future__ import annotations

from retinue.core.outcome import Status
from retinue.ports.store import RunRow, TicketRow, WorkerRow
from retinue.store.transaction import Row

_RUN = ", ".join(RunRow.__dataclass_fields__)
_EVENT = "run_id, seq, root_seq, attempt, at, type, data"

RUN = f"SELECT {_RUN} FROM runs WHERE id = ?"
CHILDREN = f"SELECT {_RUN} FROM runs WHERE parent_id = ? ORDER BY id"
TREE = f"SELECT {_RUN} FROM runs WHERE id = ? UNION ALL SELECT {_RUN} FROM runs WHERE root_id = ? AND parent_id IS NOT NULL"
HELD = "SELECT id, attempt, signal_seq FROM runs WHERE worker_id = ? AND status = 'running'"
EVENTS = f"SELECT {_EVENT} FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"
TREE_EVENTS = f"SELECT {_EVENT} FROM events WHERE root_id = ? AND root_seq > ? ORDER BY root_seq LIMIT ?"
LAST_EVENT = f"SELECT {_EVENT} FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1"
SIGNALS = "SELECT n, kind, data, at FROM signals WHERE run_id = ? AND n > ? ORDER BY n"
PARTIALS = (
    'SELECT turn, "try", kind, "offset", text FROM partials WHERE run_id = ? ORDER BY turn, "try", kind, "offset"'
)
TICKET = f"SELECT {', '.join(TicketRow.__dataclass_fields__)} FROM tickets WHERE id = ?"
WORKERS = f"SELECT {', '.join(WorkerRow.__dataclass_fields__)} FROM workers ORDER BY started_at"
UNSEEN = (
    "SELECT digest, data FROM requirements WHERE digest IN (SELECT DISTINCT requires FROM runs "
    "WHERE status IN ('queued', 'running')) AND NOT (digest {in})"
)
DEFINITION = "SELECT data FROM definitions WHERE digest = ?"
EXPIRED = "SELECT id FROM runs WHERE expires_at <= ? AND status IN ('queued', 'waiting') ORDER BY expires_at LIMIT 1000"


def run_row(row: Row) -> RunRow:
    """A row of `runs` with its columns in order; SQLite knows no truth, only numbers."""
    values = list(row)
    values[19], values[21], values[25] = Status(row[19]), bool(row[21]), bool(row[25])
    return RunRow(*values)


def runs(*, root_id: str | None, status: str | None, before: str | None, limit: int) -> tuple[str, list[object]]:
    """The newest runs first, filtered."""
    tests, params = _tests({"root_id = ?": root_id, "status = ?": status, "id < ?": before})
    return f"SELECT {_RUN} FROM runs{tests} ORDER BY id DESC LIMIT ?", [*params, limit]


def tickets(*, root_id: str | None, status: str | None) -> tuple[str, list[object]]:
    """Tickets in the order in which they were opened, filtered."""
    tests, params = _tests({"root_id = ?": root_id, "status = ?": status})
    return f"SELECT {', '.join(TicketRow.__dataclass_fields__)} FROM tickets{tests} ORDER BY id", params


def _tests(wanted: dict[str, object]) -> tuple[str, list[object]]:
    given = {test: value for test, value in wanted.items() if value is not None}
    return (f" WHERE {' AND '.join(given)}" if given else ""), list(given.values())
