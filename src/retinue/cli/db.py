"""`retinue db`"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

import typer

from retinue.app import look_at
from retinue.cli.database import opened, public, url_of
from retinue.cli.options import Db, Json, commands, examples
from retinue.cli.show import ago, at, bytes_of, facts, iso, plural, print_json, say, table
from retinue.service import Pruned

app = commands("Look after the database.", "retinue db stats", "retinue db prune --older-than 30d --dry-run")

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@app.command(epilog=examples("retinue db upgrade --db postgresql://db/retinue"))
def upgrade(db: Db = None, as_json: Json = False) -> None:
    """Bring the database to the schema of this release, or make it."""

    async def go() -> None:
        url = url_of(db)
        before, _ = await look_at(url)
        async with opened(db, create=True):
            pass
        after, _ = await look_at(url)
        if as_json:
            print_json({"database": public(url), "before": before, "after": after})
        elif before is None:
            say(f"{public(url)}: made, with schema {after}")
        elif before != after:
            say(f"{public(url)}: upgraded from schema {before} to {after}")
        else:
            say(f"{public(url)}: has schema {after}; nothing to do")

    asyncio.run(go())


@app.command(short_help="Say how much there is.", epilog=examples("retinue db stats", "retinue db stats --json"))
def stats(db: Db = None, as_json: Json = False) -> None:
    """Say how much there is: rows by table, the size, runs by status, the oldest that is queued."""

    async def go() -> None:
        async with opened(db) as app:
            found, now = await app.service.stats(), await app.service.now()
        url = public(url_of(db))
        if as_json:
            oldest = iso(found.oldest_queued)
            said = {"database": url, "bytes": found.size, "rows": found.rows, "runs": found.statuses}
            print_json(said | {"oldest_queued_at": oldest})
            return
        say((url, "bold"), f"  {bytes_of(found.size)}")
        oldest = f"{at(found.oldest_queued, now)} ({ago(found.oldest_queued, now)})" if found.oldest_queued else None
        facts([(f"runs {status}", f"{count:,}") for status, count in sorted(found.statuses.items())])
        facts([("oldest queued", oldest)])
        table(["  TABLE", "ROWS"], [(f"  {name}", f"{count:,}") for name, count in found.rows.items()])

    asyncio.run(go())


@app.command(
    short_help="Delete what ended long ago.",
    epilog=examples("retinue db prune --older-than 30d --dry-run", "retinue db prune --older-than 12h"),
)
def prune(
    older_than: Annotated[str, typer.Option("--older-than", metavar="TIME", help="For example 30d, 12h, 90m.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Delete runs that ended longer ago than that, with all that belongs to them.

    A tree goes as a whole, when all of it has ended; what another run that stays has as its past, stays too.
    """
    milliseconds = _milliseconds(older_than)

    async def go() -> None:
        async with opened(db) as app:
            before = await app.service.now() - milliseconds
            total = Pruned()
            if dry_run:
                rows = await app.service.prunable(before)
                total = Pruned(trees=len(rows), events=sum(row.tree_seq for row in rows))
            else:
                async for one in app.service.prune(before):
                    total = _sum(total, one)
        if as_json:
            counts = {"trees": total.trees, "events": total.events, "dry_run": dry_run, "before": iso(before)}
            print_json(counts | ({} if dry_run else {"runs": total.runs, "files": len(total.files)}))
        elif not total.trees:
            say(f"Nothing ended before {at(before)} that could go.")
        elif dry_run:
            say(f"{_counts(total)} would be deleted: what ended before {at(before)}.")
        else:
            say(f"Deleted {_counts(total)}: what ended before {at(before)}. The room is used again by what comes.")

    asyncio.run(go())


def _sum(one: Pruned, other: Pruned) -> Pruned:
    files = one.files + other.files
    return Pruned(one.trees + other.trees, one.runs + other.runs, one.events + other.events, files)


def _counts(pruned: Pruned) -> str:
    counts = [plural(pruned.trees, "tree")]
    counts += [plural(pruned.runs, "run")] if pruned.runs else []
    counts += [plural(pruned.events, "event")]
    counts += [plural(len(pruned.files), "file")] if pruned.files else []
    return ", ".join(counts)


def _milliseconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)([smhdw])", text.strip())
    if not found:
        raise typer.BadParameter(f"--older-than is a number with s, m, h, d or w, like 30d; not {text!r}.")
    return int(found[1]) * SECONDS[found[2]] * 1000
