"""What is read, as SQL that both databases take."""

from __future__ import annotations

from collections.abc import Iterable

from retinue.core.delta import OpenTurn
from retinue.core.outcome import Status
from retinue.ports.store import MessageRow, RunRow, ThreadRow, TicketRow, WorkerRow
from retinue.store.transaction import Row

_RUN = ", ".join(RunRow.__dataclass_fields__)
_EVENT = "run_id, seq, root_seq, attempt, at, type, data"
IN_TREE = "(r.id = ? OR r.root_id = ? AND r.parent_id IS NOT NULL)"

RUN = f"SELECT {_RUN} FROM runs WHERE id = ?"
STATUSES_OF = "SELECT id, status FROM runs WHERE id {in}"
CHILDREN = f"SELECT {_RUN} FROM runs WHERE parent_id = ? ORDER BY id"
TREE = (
    f"SELECT {_RUN} FROM runs WHERE id = ? "
    f"UNION ALL SELECT {_RUN} FROM runs WHERE root_id = ? AND parent_id IS NOT NULL"
)
HELD = "SELECT id, attempt, signal_seq FROM runs WHERE worker_id = ? AND status = 'running'"
ANSWERED = (
    "SELECT id FROM runs WHERE owner = ? AND answer_key = ? AND finished_at >= ? ORDER BY finished_at DESC LIMIT 1"
)
EVENTS = f"SELECT {_EVENT} FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"
TREE_EVENTS = f"SELECT {_EVENT} FROM events WHERE root_id = ? AND root_seq > ? ORDER BY root_seq LIMIT ?"
EVENTS_OF = f"SELECT {_EVENT} FROM events WHERE run_id {{in}} AND type {{in}} ORDER BY run_id, seq"
LAST_EVENT = f"SELECT {_EVENT} FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1"
SIGNALS = "SELECT n, kind, data, at FROM signals WHERE run_id = ? AND n > ? ORDER BY n"
LAST_OF_PAUSES = (
    "SELECT kind FROM signals WHERE run_id = ? AND n <= ? AND kind IN ('pause', 'resume') ORDER BY n DESC LIMIT 1"
)
_PARTIAL = 'p.turn, p."try", p.kind, p."offset", p.text'
_IN_ORDER = 'ORDER BY p.run_id, p.turn, p."try", p.kind, p."offset"'
PARTIALS = f"SELECT {_PARTIAL} FROM partials p WHERE p.run_id = ? {_IN_ORDER}"
PARTIALS_OF_TREE = (
    # From the tree's runs to their pieces: SQLite joins in the order in which a CROSS JOIN is written.
    f"SELECT p.run_id, {_PARTIAL} FROM runs r CROSS JOIN partials p "
    f"WHERE {IN_TREE} AND r.status = 'running' AND p.run_id = r.id {_IN_ORDER}"
)
TICKET = f"SELECT {', '.join(TicketRow.__dataclass_fields__)} FROM tickets WHERE id = ?"
WORKERS = f"SELECT {', '.join(WorkerRow.__dataclass_fields__)} FROM workers ORDER BY started_at"
# Where all are known, no run is looked at. Each half has its partial index: what has ended costs nothing either.
UNSEEN = (
    "SELECT digest, data FROM requirements WHERE NOT (digest {in}) AND ("
    "EXISTS (SELECT 1 FROM runs WHERE requires = digest AND status = 'queued' AND after_run_id IS NULL "
    "AND wake_at IS NULL{tree}) OR EXISTS (SELECT 1 FROM runs WHERE requires = digest AND status = 'running'{tree}))"
)
ALIVE = (
    "SELECT COUNT(*) FROM runs r WHERE (r.id = ? OR r.root_id = ? AND r.parent_id IS NOT NULL) "
    "AND r.status IN ('queued', 'running', 'waiting')"
)
REQUIREMENT = "SELECT data FROM requirements WHERE digest = ?"
DEFINITION = "SELECT data FROM definitions WHERE digest = ?"
BUSY = "SELECT worker_id, COUNT(*) FROM runs WHERE status = 'running' GROUP BY worker_id"
AHEAD = (
    "SELECT priority, COUNT(*) FROM runs WHERE status = 'queued' AND after_run_id IS NULL "
    "AND wake_at IS NULL AND (priority > ? OR priority = ? AND (due_at < ? OR due_at = ? AND id < ?)) GROUP BY priority"
)
OWNER_LOAD = (
    "SELECT (SELECT COUNT(*) FROM runs WHERE owner = ? AND parent_id IS NULL AND status = 'running'), "
    "(SELECT max_running FROM limits WHERE owner = ?)"
)
STATUSES = "SELECT status, COUNT(*) FROM runs GROUP BY status"
OLDEST_QUEUED = "SELECT MIN(due_at) FROM runs WHERE status = 'queued' AND after_run_id IS NULL AND wake_at IS NULL"
# A tree goes as a whole, and stays as long as one that stays reads it as its past.
OLD = """SELECT root.id FROM runs root WHERE root.parent_id IS NULL AND root.finished_at < ? AND NOT EXISTS (
SELECT 1 FROM runs below WHERE below.root_id = root.id AND below.parent_id IS NOT NULL
AND (below.finished_at IS NULL OR below.finished_at >= ?))"""
PRUNABLE = f"""WITH RECURSIVE old(id) AS ({OLD}), reads(tree, source) AS (
SELECT r.root_id, s.root_id FROM runs r JOIN runs s ON s.id = r.source_run_id WHERE r.source_run_id IS NOT NULL
), kept(id) AS (
SELECT source FROM reads WHERE tree NOT IN (SELECT id FROM old)
UNION SELECT reads.source FROM reads JOIN kept ON reads.tree = kept.id
) SELECT id FROM old WHERE id NOT IN (SELECT id FROM kept) ORDER BY id DESC"""
# In the words of its partial index, which SQLite takes only so.
EXPIRED = (
    "SELECT id FROM runs WHERE expires_at <= ? AND status IN ('queued', 'running', 'waiting') "
    "AND status <> 'running' ORDER BY expires_at LIMIT 1000"
)

THREAD = f"SELECT {', '.join(ThreadRow.__dataclass_fields__)} FROM threads WHERE id = ? AND deleted_at IS NULL"
DROPPED = "SELECT id FROM threads WHERE deleted_at IS NOT NULL ORDER BY id LIMIT 100"
_MESSAGE = "m.id, m.thread_id, m.parent_id, m.participant, m.parts, m.run_id, m.created_at, r.status"
_WORDLESS = _MESSAGE.replace("m.parts", "'[]'")
_MESSAGES = f"SELECT {_MESSAGE} FROM messages m LEFT JOIN runs r ON r.id = m.run_id"
MESSAGE = f"{_MESSAGES} WHERE m.id = ?"
# By the time of the database: ids are made by whoever posts, and clocks differ.
MESSAGES = f"{_MESSAGES} WHERE m.thread_id = ? AND (m.created_at, m.id) > (?, ?) ORDER BY m.created_at, m.id LIMIT ?"
LATEST = "SELECT id, created_at FROM messages WHERE thread_id = ? ORDER BY created_at DESC, id DESC LIMIT 1"
REPLIES = f"{_MESSAGES} WHERE m.thread_id = ? AND m.parent_id = ? ORDER BY m.created_at, m.id"
TOPS = f"{_MESSAGES} WHERE m.thread_id = ? AND m.parent_id IS NULL ORDER BY m.created_at, m.id"
# UNION, not UNION ALL: where the thread goes in a circle it ends instead of going round.
_ABOVE = """WITH RECURSIVE branch(id, thread_id, parent_id, participant, run_id, created_at) AS (
SELECT id, thread_id, parent_id, participant, run_id, created_at FROM messages WHERE id = ? UNION
SELECT m.id, m.thread_id, m.parent_id, m.participant, m.run_id, m.created_at FROM messages m
JOIN branch ON m.id = branch.parent_id AND m.thread_id = branch.thread_id
)"""
BRANCH = (
    f"{_ABOVE} SELECT {_MESSAGE} FROM branch JOIN messages m ON m.id = branch.id LEFT JOIN runs r ON r.id = m.run_id"
)
PATH = f"{_ABOVE} SELECT {_WORDLESS} FROM branch m LEFT JOIN runs r ON r.id = m.run_id"
SAYING = (
    f"{_MESSAGES} JOIN threads t ON t.id = m.thread_id WHERE t.deleted_at IS NULL "
    "AND LOWER(m.parts) LIKE ? ESCAPE '!'{rest} ORDER BY m.id DESC LIMIT ?"
)
HOLDS = "SELECT uri, MAX(size) FROM files WHERE owner = ? AND holder <> ? AND uri {in} GROUP BY uri"
ORPHANS = (
    "SELECT uri, (SELECT COUNT(*) FROM files o WHERE o.uri = f.uri AND o.holder <> f.holder) FROM files f "
    "WHERE holder = ? AND created_at <= ? ORDER BY uri LIMIT 100"
)
RUNS_IN = "SELECT id FROM runs WHERE thread_id = ?"
# Those below have an index of their own, for which they must be told from the roots.
_IN = """SELECT r.id, r.depth, r.status FROM runs r WHERE r.thread_id = ? UNION
SELECT r.id, r.depth, r.status FROM runs root JOIN runs r ON r.root_id = root.id AND r.parent_id IS NOT NULL
WHERE root.thread_id = ?"""
LIVE_IN = f"SELECT id FROM ({_IN}) AS mine WHERE status IN ('queued', 'running', 'waiting')"
IDLE_IN = f"SELECT id FROM ({_IN}) AS mine WHERE status IN ('queued', 'waiting') ORDER BY depth DESC, id DESC"


def message_row(row: Row) -> MessageRow:
    values = [*row[:-1], Status(row[-1]) if row[-1] else None]
    return MessageRow(*values)


def unseen(*, tree: bool) -> str:
    """The requirements of queued and running runs, of one tree or of all."""
    return UNSEEN.replace("{tree}", f" AND {IN_TREE.replace('r.', '')}" if tree else "")


def threads(*, owner: str | None, before: ThreadRow | None, limit: int) -> tuple[str, list[object]]:
    """Threads, the one that something was said in last first."""
    place = [before.updated_at, before.id] if before else []
    tests, params = _more({"owner = ?": owner, "(updated_at, id) < (?, ?)": place or None})
    columns = ", ".join(ThreadRow.__dataclass_fields__)
    sql = f"SELECT {columns} FROM threads WHERE deleted_at IS NULL{tests} ORDER BY updated_at DESC, id DESC LIMIT ?"
    return sql, [*params, limit]


def saying(text: str, *, owner: str | None, before: str | None, limit: int) -> tuple[str, list[object]]:
    """Messages that have a text somewhere in their parts."""
    pattern = "".join(f"!{sign}" if sign in "!%_" else sign for sign in text.lower())
    tests, params = _more({"t.owner = ?": owner, "m.id < ?": before})
    return SAYING.replace("{rest}", tests), [f"%{pattern}%", *params, limit]


def run_row(row: Row) -> RunRow:
    """A row of `runs` with its columns in order; SQLite knows no truth, only numbers."""
    values = list(row)
    values[19], values[21], values[25] = Status(row[19]), bool(row[21]), bool(row[25])
    return RunRow(*values)


def open_turn(rows: Iterable[Row]) -> OpenTurn | None:
    """The newest try of which there are pieces."""
    said: OpenTurn | None = None
    for turn, try_, kind, offset, text in rows:
        if said is None or (turn, try_) > (said.turn, said.try_):
            said = OpenTurn(turn, try_)
        said.add(kind, offset, text)
    return said


def runs(*, limit: int, before: str | None, **wanted: str | None) -> tuple[str, list[object]]:
    """The newest runs first, filtered."""
    equal: dict[str, object] = {f"{column} = ?": value for column, value in wanted.items()}
    tests, params = _tests({**equal, "id < ?": before})
    return f"SELECT {_RUN} FROM runs{tests} ORDER BY id DESC LIMIT ?", [*params, limit]


def ids_like(table: str, text: str, limit: int) -> list[tuple[str, list[object]]]:
    """Ids that begin with a text; and, to be asked if there are none, those that end with it."""
    begins = f"SELECT id FROM {table} WHERE id >= ? AND id <= ? ORDER BY id LIMIT ?"
    ends = f"SELECT id FROM {table} WHERE id LIKE ? ORDER BY id LIMIT ?"
    return [(begins, [text, f"{text}z", limit]), (ends, [f"%{text.partition('_')[2]}", limit])]


def tickets(*, root_id: str | None, status: str | None) -> tuple[str, list[object]]:
    """Tickets in the order in which they were opened, filtered."""
    tests, params = _tests({"root_id = ?": root_id, "status = ?": status})
    return f"SELECT {', '.join(TicketRow.__dataclass_fields__)} FROM tickets{tests} ORDER BY id", params


def _more(wanted: dict[str, object]) -> tuple[str, list[object]]:
    """More tests, after others; a list is as many parameters."""
    given = {test: value for test, value in wanted.items() if value is not None}
    params = [one for value in given.values() for one in (value if isinstance(value, list) else [value])]
    return "".join(f" AND {test}" for test in given), params


def _tests(wanted: dict[str, object]) -> tuple[str, list[object]]:
    given = {test: value for test, value in wanted.items() if value is not None}
    return (f" WHERE {' AND '.join(given)}" if given else ""), list(given.values())
