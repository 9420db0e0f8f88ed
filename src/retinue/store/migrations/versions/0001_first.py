"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _text(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null)


def _number(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=null, autoincrement=False)


def _small(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)


def _table(name: str, key: str, *columns: sa.Column[str] | sa.Column[int] | sa.Column[bool]) -> None:
    op.create_table(name, *columns, sa.PrimaryKeyConstraint(*key.split()), sqlite_with_rowid=False)


def _index(name: str, table: str, columns: str, *, unique: bool = False, where: str | None = None) -> None:
    test = None if where is None else sa.text(where)
    parts = [sa.text(column) if " " in column else column for column in columns.split(", ")]
    op.create_index(name, table, parts, unique=unique, sqlite_where=test, postgresql_where=test)


def upgrade() -> None:
    _threads()
    _runs()
    _journal()
    _tickets()
    _rest()


def _threads() -> None:
    _table(
        "threads",
        "id",
        _text("id"),
        _text("owner"),
        _text("title"),
        _number("created_at"),
        _number("updated_at"),
        _number("deleted_at", null=True),
    )
    _index("threads_by_time", "threads", "updated_at, id")
    _index("threads_of_owner", "threads", "owner, updated_at, id")
    _index("threads_dropped", "threads", "id", where="deleted_at IS NOT NULL")
    _table(
        "messages",
        "id",
        _text("id"),
        _text("thread_id"),
        _text("parent_id", null=True),
        _text("participant"),
        _text("parts"),
        _text("run_id", null=True),
        _number("created_at"),
    )
    _index("messages_of_thread", "messages", "thread_id, created_at, id")
    _index("messages_of_parent", "messages", "parent_id")


def _runs() -> None:
    _table(
        "runs",
        "id",
        _text("id"),
        _text("root_id"),
        _text("parent_id", null=True),
        _text("call_id", null=True),
        _small("depth"),
        _text("owner"),
        _text("thread_id", null=True),
        _text("message_id", null=True),
        _text("target"),
        _text("definition", null=True),
        _text("requires"),
        _text("durability"),
        _small("priority"),
        _number("due_at"),
        _number("expires_at", null=True),
        _text("source_run_id", null=True),
        _number("source_seq", null=True),
        _text("idempotency_key", null=True),
        _text("request_digest", null=True),
        _text("status"),
        _text("reason", null=True),
        _flag("recovered"),
        _text("waits_for", null=True),
        _number("wake_at", null=True),
        _text("cause"),
        _flag("cancelled"),
        _small("attempt"),
        _small("crashes"),
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
    alive = "expires_at IS NOT NULL AND status IN ('queued', 'running', 'waiting')"
    claimable = "status = 'queued' AND after_run_id IS NULL AND wake_at IS NULL"
    _index("runs_to_claim", "runs", "priority DESC, due_at, id", where=claimable)
    _index("runs_of_worker", "runs", "worker_id", where="status = 'running'")
    _index("runs_to_wake", "runs", "wake_at", where="wake_at IS NOT NULL")
    _index("runs_to_expire", "runs", "expires_at", where=alive)
    _index("runs_of_parent", "runs", "parent_id, call_id", unique=True, where="parent_id IS NOT NULL")
    _index("runs_behind", "runs", "after_run_id", where="after_run_id IS NOT NULL")
    _index("runs_of_thread", "runs", "thread_id", where="thread_id IS NOT NULL")
    _index("runs_of_source", "runs", "source_run_id", where="source_run_id IS NOT NULL")
    _index("runs_by_key", "runs", "owner, idempotency_key", unique=True, where="idempotency_key IS NOT NULL")
    _index("runs_by_answer", "runs", "owner, answer_key, finished_at", where="answer_key IS NOT NULL")
    _index("runs_of_root", "runs", "root_id", where="parent_id IS NOT NULL")


def _journal() -> None:
    _table(
        "events",
        "run_id seq",
        _text("run_id"),
        _number("seq"),
        _text("root_id"),
        _number("root_seq"),
        _small("attempt"),
        _number("at"),
        _text("type"),
        _text("data"),
    )
    _index("events_of_tree", "events", "root_id, root_seq", unique=True)
    _table(
        "partials",
        "run_id turn try kind offset",
        _text("run_id"),
        _number("turn"),
        _number("try"),
        _text("kind"),
        _number("offset"),
        _text("text"),
    )
    _table("signals", "run_id n", _text("run_id"), _number("n"), _text("kind"), _text("data"), _number("at"))
    _index("signals_of_pauses", "signals", "run_id, n", where="kind IN ('pause', 'resume')")


def _tickets() -> None:
    _table(
        "tickets",
        "id",
        _text("id"),
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
    )
    _index("tickets_of_run", "tickets", "run_id")
    _index("tickets_open", "tickets", "id", where="status = 'open'")
    _index("tickets_to_expire", "tickets", "expires_at", where="status = 'open' AND expires_at IS NOT NULL")


def _rest() -> None:
    _table("definitions", "digest", _text("digest"), _text("data"))
    _table("requirements", "digest", _text("digest"), _text("data"))
    _table(
        "workers",
        "id",
        _text("id"),
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
    _table("files", "uri holder", _text("uri"), _text("holder"), _text("owner"), _number("size"), _number("created_at"))
    _index("files_of_holder", "files", "holder")
    _table("limits", "owner", _text("owner"), _number("max_running"))
