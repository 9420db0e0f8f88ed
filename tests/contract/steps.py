"""What the contract's tests do to a store, in few words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from threading import Event
from typing import Any

from retinue.core import events as e
from retinue.core.outcome import Reason, Status, Waits
from retinue.ids import new_id
from retinue.ports.store import (
    Append,
    Appended,
    Claim,
    Claimed,
    Draft,
    NewRun,
    Renew,
    RunRow,
    Speak,
    Store,
    Submit,
    WorkerRow,
)
from retinue.store.sql import SqlStore

LEASE_MS = 30_000


def draft(data: e.EventData) -> Draft:
    return Draft(data, e.encode(data).decode())


def new_run(**facts: Any) -> Submit:
    run_id = facts.pop("id", None) or new_id("run")
    queued = draft(e.RunQueued(target="function:shop:order"))
    given: dict[str, Any] = {
        "root_id": run_id,
        "target": "function:shop:order",
        "requires": "any",
        "queued": queued,
    } | facts
    return Submit(run=NewRun(id=run_id, **given))


async def queued(store: Store, **facts: Any) -> str:
    return await store.submit(new_run(**facts))


def worker(name: str = "wrk_1", *, host: str = "here") -> WorkerRow:
    return WorkerRow(name, host, "boot", 1, "0", 10, 0, 0)


async def renew(store: Store, name: str = "wrk_1") -> dict[str, tuple[int, int]]:
    return await store.renew(Renew(worker=worker(name), lease_ms=LEASE_MS))


async def claim(store: Store, name: str = "wrk_1", limit: int = 100, **rest: Any) -> list[Claimed]:
    return await claim_sets(store, ("any",), name, limit, **rest)


async def claim_sets(
    store: Store, requires: tuple[str, ...], name: str = "wrk_1", limit: int = 100, **rest: Any
) -> list[Claimed]:
    """Claim as a worker that has a lease: nobody else may."""
    if name not in {row.id for row in await store.workers()}:
        await renew(store, name)
    return await store.claim(Claim(worker_id=name, limit=limit, requires=requires, **rest))


async def claimed_ids(store: Store, name: str = "wrk_1", **rest: Any) -> list[str]:
    return [claimed.row.id for claimed in await claim(store, name, **rest)]


class Held:
    """A run that a worker holds, and how far its journal is."""

    def __init__(self, store: Store, row: RunRow, seq: int) -> None:
        self.store, self.row, self.seq = store, row, seq
        self.id, self.root_id, self.attempt = row.id, row.root_id, row.attempt

    @classmethod
    def just(cls, store: Store, claimed: Claimed) -> Held:
        """A run that has just been claimed: one event later than the row says."""
        return cls(store, claimed.row, claimed.row.last_seq + 1)

    def write(self, *events: e.EventData, **rest: Any) -> Append:
        drafts = tuple(draft(data) for data in events)
        given: dict[str, Any] = {"run_id": self.id, "attempt": self.attempt, "last_seq": self.seq}
        return Append(drafts=drafts, **given | rest)

    async def append(self, *events: e.EventData, **rest: Any) -> Appended | None:
        appended = await self.store.append(self.write(*events, **rest))
        self.seq += len(events) if appended else 0
        return appended

    async def work(self, count: int = 1) -> Appended | None:
        return await self.append(*(note(str(n)) for n in range(count)))

    async def park(
        self, *waits: Waits, until: int | None = None, seen: int = 0, tickets: tuple[e.TicketOpened, ...] = ()
    ) -> Appended | None:
        waiting = e.RunWaiting(reasons=waits or (Waits.INPUT,), until=until)
        return await self.append(*tickets, waiting, signal_seen=seen)

    async def finish(self, **rest: Any) -> Appended | None:
        return await self.append(finished(), **rest)

    async def start(self, call_id: str, **facts: Any) -> str:
        """Start a child that waits to be claimed."""
        child = self.child(call_id, **facts)
        await self.append(child_started(child), children=(child,))
        return child.run.id

    def child(self, call_id: str, **facts: Any) -> Submit:
        return new_run(root_id=self.root_id, parent_id=self.id, call_id=call_id, depth=self.row.depth + 1, **facts)


async def held(store: Store, name: str = "wrk_1", **facts: Any) -> Held:
    """A new run, claimed by a worker whose lease is good."""
    run_id = await queued(store, **facts)
    return await take(store, run_id, name)


async def take(store: Store, run_id: str, name: str = "wrk_1") -> Held:
    """Claim what can be claimed; give the run that is meant."""
    await renew(store, name)
    (claimed,) = [claimed for claimed in await claim(store, name) if claimed.row.id == run_id]
    return Held.just(store, claimed)


def note(code: str) -> e.Warned:
    return e.Warned(code=code, message="")


def finished(status: Status = Status.COMPLETED, reason: Reason = Reason.GOAL) -> e.RunFinished:
    return e.RunFinished(status=status, reason=reason)


def child_started(child: Submit) -> e.ChildStarted:
    return e.ChildStarted(call_id=child.run.call_id or "", run_id=child.run.id, target=child.run.target)


def ticket(ticket_id: str = "tkt_1", *, expires_at: int | None = None) -> e.TicketOpened:
    return e.TicketOpened(ticket_id=ticket_id, kind=Waits.APPROVAL, call_id="pay", title="Pay?", expires_at=expires_at)


def said(run: Held, text: str, offset: int = 0, *, kind: str = "text", turn: int = 1, try_: int = 1) -> Speak:
    return Speak(run_id=run.id, attempt=run.attempt, turn=turn, try_=try_, kind=kind, offset=offset, text=text)


async def status(store: Store, run_id: str) -> str:
    row = await store.run(run_id)
    assert row
    return row.status.value


async def types(store: Store, run_id: str) -> list[str]:
    return [recorded.type for recorded in await store.events(run_id)]


async def gapless(store: Store, root_id: str) -> None:
    """Every run's events and the whole tree's are numbered 1, 2, 3 … and the rows know how far."""
    tree = await store.tree_events(root_id, limit=100_000)
    assert [recorded.root_seq for recorded in tree] == list(range(1, len(tree) + 1))
    for row in await store.tree(root_id):
        mine = [recorded.seq for recorded in tree if recorded.run_id == row.id]
        assert mine == list(range(1, row.last_seq + 1))
        assert row.tree_seq == len(tree) or row.id != root_id


async def by_hand(store: SqlStore, sql: str, *params: object) -> None:
    """Do to the database what no write does."""
    await store._writer.look(lambda connection: store._dialect.read(connection, sql, params))


async def together(store: SqlStore, *writes: Awaitable[object]) -> list[object]:
    """Let the store find all writes waiting at once, so that they share a commit; give the answers or errors."""
    begun, gate = Event(), Event()

    def hold(_: object) -> None:
        begun.set()
        gate.wait()

    holding = asyncio.ensure_future(store._writer.look(hold))
    await asyncio.to_thread(begun.wait)
    waiting = asyncio.gather(*writes, return_exceptions=True)
    await asyncio.sleep(0)
    gate.set()
    await holding
    return await waiting
