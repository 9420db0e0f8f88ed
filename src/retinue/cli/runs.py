"""`retinue runs`"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from retinue.app import Retinue
from retinue.cli.attend import attend, report
from retinue.cli.database import command, opened
from retinue.cli.export import Export, Format, format_of
from retinue.cli.live import painted, viewing
from retinue.cli.options import After, Db, Detach, Json, Message, RunId, Tree, commands, examples
from retinue.cli.show import (
    ago,
    aside,
    at,
    console,
    event_json,
    facts,
    iso,
    lasted,
    one_line,
    outcome,
    outcome_json,
    plural,
    print_json,
    run_json,
    say,
    state,
    status_code,
    table,
    ticket_json,
    tokens,
)
from retinue.cli.steps import Steps
from retinue.cli.words import next_steps, requirement, why
from retinue.core.delta import Delta, Progress
from retinue.core.events import Event, as_dict
from retinue.core.outcome import Status
from retinue.service import Explanation, Journal, RunRow

app = commands(
    "Look at runs and talk to them. A run's id may be shortened to its beginning or its end.",
    "retinue runs list --status waiting",
    "retinue runs explain 3f8k2",
    "retinue runs retry 3f8k2",
)

PAGE = 500


@app.command("list", epilog=examples("retinue runs list", "retinue runs list --status waiting --owner ann --limit 5"))
def list_(
    status: Annotated[Status | None, typer.Option("--status", help="Only those.", show_default=False)] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only this owner's.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many.")] = 20,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""

    async def go() -> None:
        async with opened(db) as app:
            rows = await app.service.runs(status=status.value if status else None, owner=owner, limit=limit)
            if as_json:
                print_json([run_json(row) for row in rows])
                return
            now = await app.service.now()
        if not rows:
            say("No runs" + (" like that." if status or owner else " yet. Begin with: retinue run model:test Hello"))
            return
        owners = any(row.owner for row in rows)
        heads = ["RUN", "STATUS", "AGE", *(["OWNER"] if owners else []), "TARGET"]
        table(heads, [_line(row, now, owners=owners) for row in rows])

    asyncio.run(go())


def _line(row: RunRow, now: int, *, owners: bool) -> Sequence[str | Text]:
    target = ("└ " if row.parent_id else "") + row.target
    return [row.id, state(row), ago(row.created_at, now), *([row.owner] if owners else []), target]


@app.command(epilog=examples("retinue runs show 3f8k2", "retinue runs show 3f8k2 --json"))
def show(run: RunId, db: Db = None, as_json: Json = False) -> None:
    """Show what a run is, what it did and what came of it."""

    async def go(app: Retinue, row: RunRow) -> None:
        journal, tree = await app.service.journal(row.id), await app.service.tree(row.id)
        tickets = [one for one in await app.service.tickets(root_id=row.root_id) if one.run_id == row.id]
        if as_json:
            queued = journal.state.queued
            print_json(
                outcome_json(row, journal.state.outcome, journal.state.usage)
                | run_json(row)
                | {
                    "input": queued.input if queued else None,
                    "active_ms": journal.state.active_ms,
                    "steps": _steps(journal),
                    "children": [run_json(one) for one in tree if one.parent_id == row.id],
                    "tickets": [ticket_json(ticket) for ticket in tickets],
                }
            )
            return
        await _show(app, row, journal, tree, db)

    _on_run(run, db, go)


def _steps(journal: Journal) -> list[dict[str, object]]:
    return [
        {
            "call_id": call.call_id,
            "tool": call.tool,
            "effect": call.effect.value,
            "try": call.try_,
            "finished": call.finished,
            "ok": call.ok,
            "unknown": call.unknown,
            "started_at": iso(journal.began.get(call.call_id)),
            "arguments": call.arguments,
            "result": call.result,
            "error": call.error,
        }
        for call in journal.state.calls.values()
    ]


async def _show(app: Retinue, row: RunRow, journal: Journal, tree: list[RunRow], db: str | None) -> None:
    now, queued = await app.service.now(), journal.state.queued
    say((row.id, "bold"), "  ", state(row))
    below = sum(one.parent_id == row.id for one in tree)
    source = f"{row.source_run_id} up to event {row.source_seq}" if row.source_run_id else None
    facts(
        [
            ("target", row.target),
            ("input", one_line(queued.input) if queued and queued.input is not None else None),
            ("owner", row.owner),
            ("priority", str(row.priority) if row.priority else None),
            ("created", f"{at(row.created_at, now)} ({ago(row.created_at, now)})"),
            ("took", lasted(row.finished_at - row.created_at) if row.finished_at else None),
            ("active", lasted(journal.state.active_ms) if journal.state.active_ms else None),
            ("attempts", f"{row.attempt}, {plural(row.crashes, 'crash')}" if row.crashes else None),
            ("part of", row.parent_id),
            ("children", command(f"runs tree {row.id}", db) if below else None),
            ("goes on from", source),
            ("used", tokens(journal.state.usage)),
        ]
    )
    seen = Steps()
    async for event in _all_events(app, row):
        for line in seen.take(event):
            if not line.begun:
                say(painted(line))
    if journal.state.outcome:
        outcome(row, journal.state.outcome)
    else:
        await _explained(app, row, db)


async def _all_events(app: Retinue, row: RunRow, after: int = 0, *, tree: bool = False) -> AsyncIterator[Event]:
    read = app.service.tree_events if tree else app.service.events
    while page := await read(row.id, after, PAGE):
        for event in page:
            yield event
        after = page[-1].root_seq if tree else page[-1].seq


@app.command(epilog=examples("retinue runs watch 3f8k2", "retinue runs watch 3f8k2 --after 12 --json"))
def watch(run: RunId, after: After = 0, tree: Tree = False, db: Db = None, as_json: Json = False) -> int:
    """Watch a run until it has ended. It goes on when this is stopped.

    With --json each event, and each piece of an answer, is a line. The exit code is the run's.
    """

    async def go(app: Retinue, row: RunRow) -> int:
        async with viewing(silent=as_json) as view:
            view.note(f"{row.target}  {row.id}")
            async for seen in app.service.follow(row.id, after, tree=tree):
                if as_json:
                    print_json(event_json(seen) if isinstance(seen, Event) else _said_json(seen))
                    console().file.flush()
                else:
                    view.show(seen)
        row = await app.service.run(row.id)
        return status_code(row.status) if as_json else await report(app, row, as_json=False, db=db)

    return _on_run(run, db, go)


def _said_json(said: Delta | Progress) -> dict[str, object]:
    """What is only streamed, in the form of an event."""
    data = {name.rstrip("_"): value for name, value in asdict(said).items() if name != "run_id"}
    return {"run_id": said.run_id, "type": said.type, "data": data}


@app.command(epilog=examples("retinue runs events 3f8k2", "retinue runs events 3f8k2 --tree --after 100 --json"))
def events(run: RunId, after: After = 0, tree: Tree = False, db: Db = None, as_json: Json = False) -> None:
    """Print a run's journal; with --tree that of its whole tree."""

    async def go(app: Retinue, row: RunRow) -> None:
        found = [event async for event in _all_events(app, row, after, tree=tree)]
        if as_json:
            print_json([event_json(event) for event in found])
            return
        heads = ["SEQ", "TIME", *(["RUN"] if tree else []), "TYPE", "DATA"]
        table(heads, [_event_line(event, tree=tree) for event in found])

    _on_run(run, db, go)


def _event_line(event: Event, *, tree: bool) -> Sequence[str | Text]:
    data = ", ".join(f"{name}: {one_line(value, 80)}" for name, value in as_dict(event.data).items())
    seq = str(event.root_seq if tree else event.seq)
    return [seq, at(event.at), *([event.run_id] if tree else []), event.type, Text(one_line(data), "dim")]


@app.command(epilog=examples("retinue runs tree 3f8k2"))
def tree(run: RunId, db: Db = None, as_json: Json = False) -> None:
    """Print the tree of runs that a run is in."""

    async def go(app: Retinue, row: RunRow) -> None:
        rows, now = await app.service.tree(row.id), await app.service.now()
        if as_json:
            print_json(_nested(rows, None))
            return
        for below, depth in _ordered(rows, None, 0):
            took = lasted((below.finished_at or now) - below.created_at)
            mark = ("bold" if below.id == row.id and len(rows) > 1 else "") or "default"
            say("  " * depth, (below.target, mark), "  ", state(below), (f"  {below.id}  {took}", "dim"))

    _on_run(run, db, go)


def _nested(rows: list[RunRow], parent_id: str | None) -> object:
    nodes = [run_json(row) | {"children": _nested(rows, row.id)} for row in rows if row.parent_id == parent_id]
    return nodes if parent_id else nodes[0]


def _ordered(rows: list[RunRow], parent_id: str | None, depth: int) -> list[tuple[RunRow, int]]:
    """Parents before their children, in the order in which they were started."""
    below = sorted((row for row in rows if row.parent_id == parent_id), key=lambda row: row.id)
    return [one for row in below for one in [(row, depth), *_ordered(rows, row.id, depth + 1)]]


@app.command(epilog=examples('retinue runs cancel 3f8k2 --message "not needed any more"'))
def cancel(run: RunId, message: Message = "", db: Db = None, as_json: Json = False) -> None:
    """Stop a run and all that runs below it."""
    _tell(run, db, as_json, lambda app, row: app.service.cancel(row.id, message=message), "told to stop")


@app.command(epilog=examples("retinue runs pause 3f8k2"))
def pause(run: RunId, db: Db = None, as_json: Json = False) -> None:
    """Let what is under way end, and begin nothing more until `resume`."""
    _tell(run, db, as_json, lambda app, row: app.service.pause(row.id), "told to pause")


@app.command(epilog=examples("retinue runs resume 3f8k2"))
def resume(run: RunId, db: Db = None, as_json: Json = False) -> None:
    """Go on after a pause."""
    _tell(run, db, as_json, lambda app, row: app.service.resume(row.id), "told to go on")


@app.command(epilog=examples('retinue runs steer 3f8k2 "look at the newest first"'))
def steer(
    run: RunId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The hint.")],
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Give a run a hint for its next turn."""
    _tell(run, db, as_json, lambda app, row: app.service.steer(row.id, text), "told")


@app.command(
    short_help="Run it again: what had succeeded is reused.",
    epilog=examples("retinue runs retry 3f8k2", "retinue runs retry 3f8k2 --fresh --detach"),
)
def retry(
    run: RunId,
    fresh: Annotated[bool, typer.Option("--fresh", help="Reuse nothing of what was done.")] = False,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="Of a graph: this node, and what depends on it.")
    ] = None,
    detach: Detach = False,
    db: Db = None,
    as_json: Json = False,
) -> int:
    """Run it again, as a new run that reuses what had succeeded and goes on at the failure."""

    async def go(app: Retinue, row: RunRow) -> int:
        new = await app.service.retry(row.id, fresh=fresh, node=node)
        return await attend(app, new, as_json=as_json, db=db, detach=detach)

    return _on_run(run, db, go, code=True)


@app.command(short_help="Run it again from an event on.", epilog=examples("retinue runs fork 3f8k2 --at 7"))
def fork(
    run: RunId,
    seq: Annotated[int, typer.Option("--at", metavar="SEQ", min=1, help="The last event that it shares.")],
    detach: Detach = False,
    db: Db = None,
    as_json: Json = False,
) -> int:
    """Run it as a new run whose past is what this one had recorded up to an event."""

    async def go(app: Retinue, row: RunRow) -> int:
        new = await app.service.fork(row.id, seq)
        return await attend(app, new, as_json=as_json, db=db, detach=detach)

    return _on_run(run, db, go, code=True)


@app.command(epilog=examples("retinue runs explain 3f8k2"))
def explain(run: RunId, db: Db = None, as_json: Json = False) -> None:
    """Say why a run is where it is, and what can be done about it."""

    async def go(app: Retinue, row: RunRow) -> None:
        if as_json:
            print_json(_explanation_json(await app.service.explain(row.id), db))
            return
        say((row.id, "bold"), "  ", state(row), (f"  {row.target}", "dim"))
        await _explained(app, row, db)

    _on_run(run, db, go)


async def _explained(app: Retinue, row: RunRow, db: str | None) -> None:
    known = await app.service.explain(row.id)
    for line in why(known):
        say(f"  {line}")
    steps = next_steps(known, lambda words: command(words, db))
    width = max(len(name) for name, _ in steps)
    for name, typed in steps:
        say((f"    {name:{width}}  ", "dim"), typed)


def _explanation_json(known: Explanation, db: str | None) -> dict[str, object]:
    steps = next_steps(known, lambda words: command(words, db))
    return {
        "run_id": known.row.id,
        "status": known.row.status.value,
        "because": known.because.value,
        "explanation": why(known),
        "next": [{"what": name, "command": typed} for name, typed in steps],
        "requires": known.requires,
        "requires_text": requirement(known),
        "ahead": [{"priority": priority, "runs": count} for priority, count in sorted(known.ahead.items())[::-1]],
        "worker": known.row.worker_id,
        "lease_until": iso(known.worker.row.lease_until) if known.worker else None,
        "held_since": iso(known.journal.held_since),
        "wake_at": iso(known.row.wake_at),
        "due_at": iso(known.row.due_at),
        "turn": known.journal.state.turn or None,
        "model": known.journal.asked if known.journal.state.turn_open else None,
        "retry_at": iso(known.journal.retry_at) if known.journal.retry and known.journal.state.turn_open else None,
        "steps": [
            {"call_id": call.call_id, "tool": call.tool, "since": iso(began)} for call, began in known.journal.under_way
        ],
        "tickets": [ticket_json(ticket) for ticket in known.tickets],
        "children": [run_json(child) for child in known.children],
    }


@app.command(
    short_help="Write all of it, for programs or to read.",
    epilog=examples(
        "retinue runs export 3f8k2 --output run.jsonl",
        "retinue runs export 3f8k2 --format markdown     what was said and done, to read",
    ),
)
def export(
    run: RunId,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Else as FILE is called (.jsonl, .json, .md), or lines.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of printing it.")
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Write a run's tree: its rows, tickets and all events, one JSON object a line or in one document; or a transcript.

    The transcript has the turns of an agent, what it thought, the calls with arguments and results, and the outcome.
    """

    async def go(app: Retinue, row: RunRow) -> None:
        whole = await Export.of(app, row, [event async for event in _all_events(app, row, tree=True)])
        text = whole.text(format_of(form, output))
        if output is None:
            print(text, end="")
            return
        encoded = text.encode()
        await asyncio.to_thread(output.write_bytes, encoded)
        if as_json:
            counts = {"runs": len(whole.runs), "tickets": len(whole.tickets), "events": len(whole.events)}
            print_json({"file": str(output), "bytes": len(encoded), **counts})
        else:
            aside(f"{output}: {plural(len(whole.runs), 'run')}, {plural(len(whole.events), 'event')}")

    _on_run(run, db, go)


# What they share

Do = Callable[[Retinue, RunRow], Awaitable[int | None]]


def _on_run(text: str, db: str | None, do: Do, *, code: bool = False) -> int:
    """Find the run that is meant and do something with it; with `code`, what runs here can be run."""

    async def go() -> int:
        async with opened(db, code=code) as app:
            return await do(app, await app.service.named(text)) or 0

    return asyncio.run(go())


def _tell(
    text: str, db: str | None, as_json: bool, do: Callable[[Retinue, RunRow], Awaitable[None]], told: str
) -> None:
    """Say something to a run, and what it is afterwards."""

    async def go(app: Retinue, row: RunRow) -> None:
        await do(app, row)
        row = await app.service.run(row.id)
        if as_json:
            print_json({"run_id": row.id, "status": row.status.value, "waits_for": row.waits_for})
        else:
            say((row.id, "bold"), f"  {told}; it is ", state(row))

    _on_run(text, db, go)
