"""`retinue doctor`"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec

from rich.text import Text

from retinue import __version__
from retinue.app import Retinue, look_at
from retinue.cli.database import command, opened, public, settings_here, url_of
from retinue.cli.options import Db, Json, examples, single
from retinue.cli.show import ago, bytes_of, iso, plural, print_json, run_json, say, table
from retinue.core.declared import dotted
from retinue.core.outcome import Status
from retinue.errors import DatabaseNewer, RetinueError
from retinue.service import Life, RunRow, WorkerView
from retinue.settings import read_settings

app = single()

EXTRAS = {
    "postgres": ("psycopg", "psycopg_pool"),
    "providers": ("pydantic_ai",),
    "local": ("xllamacpp",),
    "files": ("obstore",),
    "documents": ("pypdf", "markdownify"),
    "mcp": ("mcp",),
}
MOST_RUNS = 1000
OK, NOTE, BROKEN = "ok", "note", "broken"
LOOKS = {OK: ("✓", "green"), NOTE: ("·", "yellow"), BROKEN: ("✗", "red")}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; what is not as it should be says how to fix it."""

    name: str
    state: str
    text: str
    fix: str = ""


@app.command(epilog=examples("retinue doctor", "retinue doctor --json --db postgresql://db/retinue"))
def doctor(db: Db = None, as_json: Json = False) -> int:
    """Say what is set up, what is missing and how to fix it. The exit code is 1 when something is broken."""
    return asyncio.run(_examine(db, as_json=as_json))


async def _examine(db: str | None, *, as_json: bool) -> int:
    found = [_python(), _extras(), *_settings()]
    workers: list[WorkerView] = []
    left: list[RunRow] = []
    database = None
    if not any(finding.state == BROKEN for finding in found):
        database = await _database(db)
        found.append(database)
    if database and database.state == OK:
        async with opened(db) as app:
            workers = await app.service.workers()
            left = await _left_behind(app, workers)
            found += [finding async for finding in _work(app, workers, left, db)]
            now = await app.service.now()
    broken = any(finding.state == BROKEN for finding in found)
    if as_json:
        checks = [{"name": f.name, "state": f.state, "text": f.text, "fix": f.fix or None} for f in found]
        rows = [_worker_json(view) for view in workers]
        print_json({"ok": not broken, "checks": checks, "workers": rows, "left_behind": [run_json(r) for r in left]})
        return int(broken)
    width = max(len(finding.name) for finding in found)
    for finding in found:
        mark, style = LOOKS[finding.state]
        say((mark, style), f" {finding.name:{width}}  {finding.text}")
        if finding.fix:
            say(" " * (width + 4), (finding.fix, "dim"))
    if workers:
        say()
        table(["WORKER", "STATE", "HOLDS", "LEASE", "STARTED", "WHERE"], [_worker_line(view, now) for view in workers])
    return int(broken)


def _python() -> Finding:
    fine = sys.version_info >= (3, 11)
    where = f"Python {platform.python_version()}, retinue {__version__}"
    return Finding("version", OK if fine else BROKEN, where, "" if fine else "Python 3.11 or newer is needed.")


def _extras() -> Finding:
    missing = [extra for extra, packages in EXTRAS.items() if not all(find_spec(package) for package in packages)]
    there = [extra for extra in EXTRAS if extra not in missing]
    fix = f"what is missing: pip install 'retinue[{','.join(missing)}]'" if missing else ""
    return Finding("extras", NOTE if missing else OK, f"installed: {', '.join(there) or 'none'}", fix)


def _settings() -> list[Finding]:
    """What is wrong or odd in `retinue.toml`, `.env` and the environment."""
    _, problems = read_settings()
    return [
        Finding(
            "settings",
            NOTE if problem.warning else BROKEN,
            ": ".join(filter(None, (problem.place, dotted(problem.key), problem.text))),
        )
        for problem in problems
    ]


async def _database(db: str | None) -> Finding:
    url = url_of(db)
    said = f"{public(url)} ({_told_by(db)})"
    try:
        found, known = await look_at(url)
    except DatabaseNewer as error:
        return Finding(
            "database", BROKEN, f"{said}: schema {error.found}, known up to {error.known}", "Upgrade Retinue."
        )
    except RetinueError as error:
        return Finding("database", BROKEN, said, " ".join(str(error).split()))
    if found is None:
        return Finding("database", NOTE, f"{said}: not there yet", "`retinue run` or `retinue worker` makes it.")
    if found != known:
        return Finding("database", BROKEN, f"{said}: schema {found}, needed {known}", command("db upgrade", db))
    return Finding("database", OK, f"{said}, schema {found}")


def _told_by(db: str | None) -> str:
    if db:
        return "--db"
    told = next((name for name in ("RETINUE_DATABASE_URL", "DATABASE_URL") if os.environ.get(name)), None)
    return told or ("retinue.toml" if settings_here().database_url else "the default")


async def _work(app: Retinue, workers: list[WorkerView], left: list[RunRow], db: str | None) -> AsyncIterator[Finding]:
    stats, now = await app.service.stats(), await app.service.now()
    counts = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in sorted(stats.statuses.items()))
    yield Finding("runs", OK, f"{counts or 'none yet'}; {bytes_of(stats.size)}")
    lives = {life: sum(view.life is life for view in workers) for life in Life}
    said = ", ".join(f"{count} {life}" for life, count in lives.items() if count) or "none"
    waiting = stats.oldest_queued is not None and not lives[Life.ALIVE]
    since = f"; runs are queued since {ago(stats.oldest_queued, now)}" if waiting and stats.oldest_queued else ""
    yield Finding(
        "workers",
        NOTE if waiting or (left and not lives[Life.ALIVE]) else OK,
        said + since,
        command("worker", db) if waiting else "",
    )
    if left:
        taken_up = "a live worker takes them up in a moment" if lives[Life.ALIVE] else command("worker", db)
        state = NOTE if lives[Life.ALIVE] else BROKEN
        yield Finding("left behind", state, f"{plural(len(left), 'run')} whose worker is dead", taken_up)
    if lost := [row for row in await app.service.runs(status="failed", limit=MOST_RUNS) if row.reason == "lost"]:
        fix = command(f"runs explain {lost[0].id}", db)
        yield Finding("given up", NOTE, f"{plural(len(lost), 'run')} whose workers died again and again", fix)


async def _left_behind(app: Retinue, workers: list[WorkerView]) -> list[RunRow]:
    """Runs that nobody holds any more, though they are said to run."""
    living = {view.row.id for view in workers if view.life is not Life.DEAD}
    rows = await app.service.runs(status=Status.RUNNING.value, limit=MOST_RUNS)
    return [row for row in rows if row.worker_id not in living]


def _worker_line(view: WorkerView, now: int) -> list[str | Text]:
    style = {Life.ALIVE: "green", Life.DRAINING: "yellow", Life.DEAD: "red"}[view.life]
    lease = "over" if view.life is Life.DEAD else ago(view.row.lease_until, now)
    where = f"process {view.row.pid} on {view.row.host}" + ("" if view.takes_any else ", one tree only")
    holds = f"{view.holds} of {view.row.concurrency}"
    return [view.row.id, Text(view.life.value, style), holds, lease, ago(view.row.started_at, now), where]


def _worker_json(view: WorkerView) -> dict[str, object]:
    row = view.row
    return {
        "worker_id": row.id,
        "state": view.life.value,
        "host": row.host,
        "pid": row.pid,
        "holds": view.holds,
        "concurrency": row.concurrency,
        "owner_limit": row.owner_limit,
        "one_tree_only": not view.takes_any,
        "started_at": iso(row.started_at),
        "lease_until": iso(row.lease_until) if row.lease_until else None,
        "draining_since": iso(row.draining_since),
    }
