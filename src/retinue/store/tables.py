"""The schema. Imported only to make migrations and `schema/*.sql`: importing SQLAlchemy takes longer than a run.

There are no foreign keys: every write goes through one writer that keeps the rows together, and a check for
each event would cost as much as the event.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, Table, Text, desc, text

metadata = MetaData()


def _text(name: str, *, null: bool = False, key: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null, primary_key=key)


def _number(name: str, *, null: bool = False, key: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=null, primary_key=key, autoincrement=False)


def _table(name: str, *columns: Column[str] | Column[int] | Column[bool] | Index) -> Table:
    return Table(name, metadata, *columns, sqlite_with_rowid=False)


threads = _table(
    "threads",
    _text("id", key=True),
    _text("owner"),
    _text("title"),
    _number("created_at"),
    _number("updated_at"),
    _number("deleted_at", null=True),
)
_dropped = text("deleted_at IS NOT NULL")
Index("threads_by_time", threads.c.updated_at, threads.c.id)
Index("threads_of_owner", threads.c.owner, threads.c.updated_at, threads.c.id)
Index("threads_dropped", threads.c.id, sqlite_where=_dropped, postgresql_where=_dropped)

messages = _table(
    "messages",
    _text("id", key=True),
    _text("thread_id"),
    _text("parent_id", null=True),
    _text("participant"),
    _text("parts"),
    _text("run_id", null=True),
    _number("created_at"),
    Index("messages_of_thread", "thread_id", "created_at", "id"),
    Index("messages_of_parent", "parent_id"),
)

runs = _table(
    "runs",
    _text("id", key=True),
    _text("root_id"),
    _text("parent_id", null=True),
    _text("call_id", null=True),
    Column("depth", Integer, nullable=False),
    _text("owner"),
    _text("thread_id", null=True),
    _text("message_id", null=True),
    _text("target"),
    _text("definition", null=True),
    _text("requires"),
    _text("durability"),
    Column("priority", Integer, nullable=False),
    _number("due_at"),
    _number("expires_at", null=True),
    _text("source_run_id", null=True),
    _number("source_seq", null=True),
    _text("idempotency_key", null=True),
    _text("request_digest", null=True),
    _text("status"),
    _text("reason", null=True),
    Column("recovered", Boolean, nullable=False),
    _text("waits_for", null=True),
    _number("wake_at", null=True),
    _text("cause"),
    Column("cancelled", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    _text("worker_id", null=True),
    _number("last_seq"),
    _number("tree_seq"),
    _number("signal_seq"),
    _number("created_at"),
    _number("started_at", null=True),
    _number("finished_at", null=True),
    _text("after_run_id", null=True),
    _number("purse_limit", null=True),
    _number("purse_spent", null=True),
    _number("purse_held", null=True),
    _number("reserved", null=True),
    _text("answer_key", null=True),
)
# Partial indexes: what has ended costs a claim nothing, however much of it there is.
_queued = text("status = 'queued' AND after_run_id IS NULL AND wake_at IS NULL")
_timed = text("wake_at IS NOT NULL")
_alive = text("expires_at IS NOT NULL AND status IN ('queued', 'running', 'waiting')")
Index("runs_to_claim", desc(runs.c.priority), runs.c.due_at, runs.c.id, sqlite_where=_queued, postgresql_where=_queued)
Index(
    "runs_of_worker",
    runs.c.worker_id,
    sqlite_where=text("status = 'running'"),
    postgresql_where=text("status = 'running'"),
)
Index("runs_to_wake", runs.c.wake_at, sqlite_where=_timed, postgresql_where=_timed)
Index("runs_to_expire", runs.c.expires_at, sqlite_where=_alive, postgresql_where=_alive)
Index(
    "runs_of_parent",
    runs.c.parent_id,
    runs.c.call_id,
    unique=True,
    sqlite_where=text("parent_id IS NOT NULL"),
    postgresql_where=text("parent_id IS NOT NULL"),
)
_behind = text("after_run_id IS NOT NULL")
Index("runs_behind", runs.c.after_run_id, sqlite_where=_behind, postgresql_where=_behind)
_spoken = text("thread_id IS NOT NULL")
Index("runs_of_thread", runs.c.thread_id, sqlite_where=_spoken, postgresql_where=_spoken)
_again = text("source_run_id IS NOT NULL")
Index("runs_of_source", runs.c.source_run_id, sqlite_where=_again, postgresql_where=_again)
Index(
    "runs_by_key",
    runs.c.owner,
    runs.c.idempotency_key,
    unique=True,
    sqlite_where=text("idempotency_key IS NOT NULL"),
    postgresql_where=text("idempotency_key IS NOT NULL"),
)
_given = text("answer_key IS NOT NULL")
Index(
    "runs_by_answer",
    runs.c.owner,
    runs.c.answer_key,
    runs.c.finished_at,
    sqlite_where=_given,
    postgresql_where=_given,
)
Index(
    "runs_of_root",
    runs.c.root_id,
    sqlite_where=text("parent_id IS NOT NULL"),
    postgresql_where=text("parent_id IS NOT NULL"),
)

events = _table(
    "events",
    _text("run_id", key=True),
    _number("seq", key=True),
    _text("root_id"),
    _number("root_seq"),
    Column("attempt", Integer, nullable=False),
    _number("at"),
    _text("type"),
    _text("data"),
    Index("events_of_tree", "root_id", "root_seq", unique=True),
)

partials = _table(
    "partials",
    _text("run_id", key=True),
    _number("turn", key=True),
    _number("try", key=True),
    _text("kind", key=True),
    _number("offset", key=True),
    _text("text"),
)

signals = _table(
    "signals",
    _text("run_id", key=True),
    _number("n", key=True),
    _text("kind"),
    _text("data"),
    _number("at"),
)
_pauses = text("kind IN ('pause', 'resume')")
Index("signals_of_pauses", signals.c.run_id, signals.c.n, sqlite_where=_pauses, postgresql_where=_pauses)

tickets = _table(
    "tickets",
    _text("id", key=True),
    _text("run_id"),
    _text("root_id"),
    _text("kind"),
    _text("call_id"),
    _text("status"),
    _text("title"),
    _text("data"),
    _text("decision", null=True),
    _number("opened_at"),
    _number("expires_at", null=True),
    _number("closed_at", null=True),
    Index("tickets_of_run", "run_id"),
)
_open = text("status = 'open'")
Index("tickets_open", tickets.c.id, sqlite_where=_open, postgresql_where=_open)
_expiring = text("status = 'open' AND expires_at IS NOT NULL")
Index("tickets_to_expire", tickets.c.expires_at, sqlite_where=_expiring, postgresql_where=_expiring)

definitions = _table("definitions", _text("digest", key=True), _text("data"))

requirements = _table("requirements", _text("digest", key=True), _text("data"))

workers = _table(
    "workers",
    _text("id", key=True),
    _text("host"),
    _text("boot_id"),
    _number("pid"),
    _text("process_started"),
    _number("concurrency"),
    _number("started_at"),
    _number("lease_until"),
    _number("draining_since", null=True),
    _number("owner_limit", null=True),
    _text("loads"),
)

files = _table(
    "files",
    _text("uri", key=True),
    _text("holder", key=True),
    _text("owner"),
    _number("size"),
    _number("created_at"),
    Index("files_of_holder", "holder"),
)

limits = _table("limits", _text("owner", key=True), _number("max_running"))
