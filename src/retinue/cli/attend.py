"""Running one tree of runs in this process, and watching it until it has ended or is left for others."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from retinue.app import Retinue
from retinue.cli.database import command
from retinue.cli.live import View, viewing
from retinue.cli.show import (
    ago,
    aside,
    asks,
    at,
    console,
    how_to_close,
    outcome,
    outcome_json,
    print_json,
    say,
    state,
    status_code,
)
from retinue.core.outcome import Status
from retinue.service import Because, Explanation, RunRow

SHORT_TIMER_MS = 60_000
LOOK_SECONDS = 0.1
PAGE = 500


class Rest(Enum):
    """Why nothing is watched any more."""

    ENDED = "ended"
    LEFT = "left"
    GONE = "gone"


async def attend(app: Retinue, run_id: str, *, as_json: bool, db: str | None, detach: bool = False) -> int:
    """Run a tree here, show what happens, say how it ended or what is left to do. The exit code."""
    rest = Rest.LEFT
    if detach and not as_json:
        say(f"{(await app.service.run(run_id)).target}  {run_id}")
    if not detach:
        async with viewing(silent=as_json) as view:
            view.note(f"{(await app.service.run(run_id)).target}  {run_id}")
            async with app.working(root_id=run_id, grace=0):
                rest = await _watch(app, run_id, view)
    row = await app.service.run(run_id)
    if rest is Rest.GONE:
        aside(f"left {run_id} as it is ({row.status}): {command(f'runs show {run_id}', db)}")
        return 130
    return await report(app, row, as_json=as_json, db=db)


async def report(app: Retinue, row: RunRow, *, as_json: bool, db: str | None) -> int:
    """How a run ended; or what it waits for, and how it goes on."""
    journal = await app.service.journal(row.id)
    ended = journal.state.outcome
    if as_json:
        print_json(outcome_json(row, ended, journal.state.usage))
    elif ended:
        outcome(row, ended)
    if ended is None:
        await say_what_is_left(app, row, as_json=as_json, db=db)
    elif ended.status is not Status.COMPLETED and not as_json:
        if ended.status is not Status.CANCELLED:
            say(("  go on at the failure: ", "dim"), command(f"runs retry {row.id}", db))
        say(("  what happened:        ", "dim"), command(f"runs show {row.id}", db))
    return status_code(row.status)


async def _watch(app: Retinue, run_id: str, view: View) -> Rest:
    asked, gone = asyncio.Event(), asyncio.Event()

    def interrupted() -> None:
        (gone if asked.is_set() else asked).set()

    async def cancelled() -> None:
        await asked.wait()
        view.note("cancelling; once more (Ctrl-C) leaves it at once")
        await app.service.cancel(run_id, message="Ctrl-C")
        await asyncio.Event().wait()

    resting, cancelling = asyncio.create_task(until_rest(app, run_id, view)), asyncio.create_task(cancelled())
    with on_signal(signal.SIGINT, interrupted), on_signal(signal.SIGTERM, gone.set):
        await _first(resting, cancelling, asyncio.create_task(gone.wait()))
    return resting.result() if not resting.cancelled() else Rest.GONE


async def until_rest(app: Retinue, run_id: str, view: View) -> Rest:
    """Show what happens until the run has ended, or nothing in its tree can go on here for a while."""
    following = asyncio.create_task(_follow(app, run_id, view))
    await _first(following, asyncio.create_task(_until_left(app, run_id)))
    if not following.cancelled():
        return Rest.ENDED
    await _catch_up(app, run_id, view)
    return Rest.LEFT


async def _first(*tasks: asyncio.Task[Any]) -> None:
    """Wait until one of them is done, and stop the others. Raises what one raised."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            raise error


async def _follow(app: Retinue, run_id: str, view: View) -> None:
    async for seen in app.service.follow(run_id, view.steps.place, tree=True):
        view.show(seen)


async def _catch_up(app: Retinue, run_id: str, view: View) -> None:
    """What is on disk and was not shown yet."""
    while page := await app.service.tree_events(run_id, view.steps.place, PAGE):
        for event in page:
            view.show(event)


async def _until_left(app: Retinue, run_id: str) -> None:
    """Return when nothing in the tree can go on here for a while."""
    while not await _is_left(app, run_id):
        await asyncio.sleep(LOOK_SECONDS)


async def _is_left(app: Retinue, run_id: str) -> bool:
    if app.worker.attempts:
        return False
    rows = [row for row in await app.service.tree(run_id) if not row.status.terminal]
    soon = await app.service.now() + SHORT_TIMER_MS
    return bool(rows) and all(_rests(app, row, soon) for row in rows)


def _rests(app: Retinue, row: RunRow, soon: int) -> bool:
    match row.status:
        case Status.WAITING:
            return row.wake_at is None or row.wake_at > soon
        case Status.QUEUED:
            return (row.due_at > soon and row.due_at != row.created_at) or app.worker.cannot_load(row.requires)
        case _:
            return False


@contextmanager
def on_signal(number: int, act: object) -> Iterator[None]:
    """Do something when a signal comes, instead of what Python does."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, act)  # type: ignore[arg-type]
    except (NotImplementedError, RuntimeError):  # Windows, or not the main thread: Ctrl-C then ends the program
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(number)


# What is left


async def say_what_is_left(app: Retinue, row: RunRow, *, as_json: bool, db: str | None) -> None:
    """What has to happen before the run goes on, and the commands for it."""
    tell = aside if as_json else say
    lines = [line async for line in _what_is_left(app, row, db)]
    if not as_json and console().is_terminal:
        say(state(row))
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        tell(f"  {name:{width}}  {text}")


async def _what_is_left(app: Retinue, row: RunRow, db: str | None) -> AsyncIterator[tuple[str, str]]:
    resting = [one for one in await app.service.tree(row.id) if not one.status.terminal]
    asked = [ticket for ticket in await app.service.tickets(root_id=row.root_id) if ticket.status == "open"]
    explained = await app.service.explain(row.id)
    for ticket in asked:
        yield "asks", asks(ticket)
        yield "approve it" if ticket.kind == "approval" else "answer it", command(how_to_close(ticket), db)
        yield "refuse it", command(f"approvals deny {ticket.id}", db)
    times = [one.wake_at for one in resting if one.wake_at] + [one.due_at for one in resting if _later(one, explained)]
    if times:
        yield "sleeps until", f"{at(min(times), explained.now)} ({ago(min(times), explained.now)})"
    if explained.because is Because.PAUSED:
        yield "resume it", command(f"runs resume {row.id}", db)
    if not any(view.takes_any and view.life == "alive" for view in explained.workers):
        yield "go on with", command("worker", db)
    yield "look at it", command(f"runs explain {row.id}", db)


def _later(row: RunRow, explained: Explanation) -> bool:
    return row.status is Status.QUEUED and row.due_at > explained.now and row.due_at != row.created_at
