"""What processes of their own do to one database, all at the same time."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from threading import Barrier
from typing import Any

from retinue.errors import ChildRefused, TicketEnded
from retinue.ports.clock import SystemClock
from retinue.ports.store import Cancel, LetGo, Signal, Store
from retinue.store import schema
from retinue.store.sql import dialect_of, open_store

from .steps import Held, claim, new_run, note, renew

Racer = Callable[..., Coroutine[Any, Any, Any]]


async def race(racer: Racer, *calls: Sequence[object]) -> list[Any]:
    """Run the racer in one process for each call; all begin together, with the store open."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(calls), context, _line_up, (context.Barrier(len(calls)),)) as pool:
        running = [pool.submit(_run, racer, *call) for call in calls]
        return list(await asyncio.gather(*map(asyncio.wrap_future, running)))


_barrier: Barrier


def _line_up(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _run(racer: Racer, *call: object) -> object:
    return asyncio.run(racer(*call))


async def _open(url: str) -> Store:
    store = await open_store(url, SystemClock())
    _barrier.wait()
    return store


async def opener(url: str) -> list[str]:
    _barrier.wait()
    store = await open_store(url, SystemClock())
    await store.submit(new_run())
    await store.close()
    return []


async def migrator(url: str) -> None:
    _barrier.wait()
    await asyncio.to_thread(schema._migrate, dialect_of(url))


async def claimer(url: str, name: str, rest: dict[str, Any]) -> list[str]:
    store, ids = await _open(url), list[str]()
    await renew(store, name)
    while taken := await claim(store, name, limit=1, **rest):
        ids += [claimed.row.id for claimed in taken]
    await store.close()
    return ids


async def signaller(url: str, run_id: str, kind: str, times: int) -> list[int]:
    store = await _open(url)
    numbers = [await store.signal(Signal(run_id=run_id, kind=kind, data=str(n))) for n in range(times)]
    await store.close()
    return numbers


async def decider(url: str, run_id: str, tickets: list[str]) -> list[str]:
    """Answer tickets; give those that nobody else had answered."""
    store, mine = await _open(url), []
    for ticket_id in tickets:
        try:
            await store.signal(Signal(run_id=run_id, kind="decide", ticket_id=ticket_id))
        except TicketEnded:
            continue
        mine.append(ticket_id)
    await store.close()
    return mine


async def submitter(url: str, keys: list[str]) -> list[str]:
    store = await _open(url)
    runs = [new_run(idempotency_key=key, request_digest="x", definition=f"d{key}") for key in keys]
    ids = await asyncio.gather(*(store.submit(run) for run in runs))
    await store.close()
    return ids


async def appender(url: str, name: str, run_ids: list[str], times: int) -> int:
    """Work on runs that are held already: append, start a child each, say a word to the root, end."""
    store = await _open(url)

    async def work(run: Held) -> None:
        for n in range(times):
            await run.append(*(note(str(m)) for m in range(1 + n % 3)))
        await run.start("child")
        await store.signal(Signal(run_id=run.root_id, kind="steer"))
        await run.finish(cancel_children=True)

    rows = [row for run_id in run_ids if (row := await store.run(run_id))]
    await asyncio.gather(*(work(Held(store, row, row.last_seq)) for row in rows))
    await store.close()
    return len(rows)


async def breeder(url: str, root_ids: list[str], cancels: bool) -> int:
    """Cancel runs one after the other, or start children of all of them until they are cancelled."""
    store = await _open(url)

    async def breed(run: Held) -> int:
        for n in count():
            try:
                await run.start(f"c{n}")
            except ChildRefused:
                return n
        raise AssertionError

    async def stop() -> int:
        return sum([run_id in await store.cancel(Cancel(run_id=run_id)) for run_id in root_ids])

    rows = [row for run_id in root_ids if (row := await store.run(run_id))]
    runs = [Held(store, row, row.last_seq) for row in rows]
    done = await stop() if cancels else sum(await asyncio.gather(*map(breed, runs)))
    await store.close()
    return done


async def quitter(url: str, name: str, root_id: str, times: int) -> int:
    """Claim a tree and let go of it, again and again; without a name, speak to all of it instead."""
    store = await _open(url)
    runs = [row.id for row in await store.tree(root_id)]
    await renew(store, name or "wrk_0")
    for n in range(times):
        if name:
            await claim(store, name)
            await store.let_go(LetGo(worker_id=name, run_ids=tuple(runs) if n % 2 else None))
            await renew(store, name)
        else:
            await asyncio.gather(*(store.signal(Signal(run_id=run_id, kind="steer")) for run_id in runs))
    await store.close()
    return times
