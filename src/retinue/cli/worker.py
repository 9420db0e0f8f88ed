"""`retinue worker`"""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from retinue.app import Retinue
from retinue.cli.attend import on_signal
from retinue.cli.database import opened, public, settings_here, url_of
from retinue.cli.options import Db, examples, single
from retinue.cli.show import plural

app = single()


@app.command(epilog=examples("retinue worker", "retinue worker --concurrency 10 --db postgresql://db/retinue"))
def worker(
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", min=1, help="How many runs at once; 100 unless set.")
    ] = None,
    owner_limit: Annotated[
        int | None, typer.Option("--owner-limit", metavar="N", min=1, help="How many runs of one owner at once.")
    ] = None,
    db: Db = None,
) -> int:
    """Work on what is queued, until SIGTERM or Ctrl-C.

    The first signal drains: nothing more is begun, and each run is left for another worker when its steps that are
    under way have ended. The second one leaves all at once. Nothing is lost either way.
    """

    async def go() -> None:
        settings = settings_here().worker
        at_once, of_one = concurrency or settings.concurrency, owner_limit or settings.owner_limit
        async with opened(
            db, create=True, code=True, concurrency=at_once, owner_limit=of_one, lease=settings.lease
        ) as app:
            await _work(app, f"{public(url_of(db))}, {at_once} at once")

    asyncio.run(go())
    return 0


async def _work(app: Retinue, where: str) -> None:
    drain, leave = asyncio.Event(), asyncio.Event()

    def told() -> None:
        (leave if drain.is_set() else drain).set()

    with on_signal(signal.SIGTERM, told), on_signal(signal.SIGINT, told):
        async with app.working(grace=0):
            await app.worker.ready()
            print(f"worker {app.worker.id} works on {where}", flush=True)
            await drain.wait()
            if app.worker.attempts:
                held = plural(len(app.worker.attempts), "run")
                print(f"draining: waiting for the steps of {held}; once more leaves at once", flush=True)
            draining = asyncio.create_task(app.worker.stop(None))
            leaving = asyncio.create_task(leave.wait())
            await asyncio.wait({draining, leaving}, return_when=asyncio.FIRST_COMPLETED)
            left = len(app.worker.attempts)
            for task in (draining, leaving):
                task.cancel()
    print(_done(app, left), flush=True)


def _done(app: Retinue, left: int) -> str:
    """What the worker did, by how the runs came to rest."""
    rests = {rest: count for rest, count in sorted(app.worker.rests.items()) if rest != "lost"}
    said = ", ".join(f"{count} {rest.replace('_', ' ')}" for rest, count in rests.items())
    cut = f"; {plural(left, 'run')} left in the middle of a step" if left else ""
    return f"stopped: {said or 'nothing was done'}{cut}"
