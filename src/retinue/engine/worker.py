"""A worker claims what it can load, as much as it has slots for, and looks after its duties meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from retinue.engine.attempt import Attempt, Services
from retinue.engine.hub import TICK_SECONDS
from retinue.engine.purge import purge, sweep
from retinue.errors import RetinueError, StoreClosed, StoreError
from retinue.ids import new_id
from retinue.ports.store import Claim, Claimed, LetGo, Renew, WakeDue, WorkerDied, WorkerRow

log = logging.getLogger("retinue")

LEASE_SECONDS = 30.0
RENEWALS = 3  # in a lease, so that one or two may fail
LOOK_SECONDS = 0.25
MOST_AT_ONCE = 64


class Worker:
    """Runs what is queued, until it is stopped."""

    def __init__(
        self,
        services: Services,
        *,
        concurrency: int = 100,
        owner_limit: int | None = None,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self._services, self._owner_limit, self._lease = services, owner_limit, lease
        self.row = this_process(concurrency)
        self.attempts: dict[str, Attempt] = {}
        self.rests: Counter[str] = Counter()
        self._root_id: str | None = None
        self._free = concurrency
        self._may_be_more = True
        """Whether the last claim has left something that there was no slot for."""
        self._loadable: set[str] = set()
        self._seen: set[str] = set()
        self._strangers: set[str] = set()
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()
        self._wake = services.hub.queued
        self._has_lease = False

    @property
    def id(self) -> str:
        return self.row.id

    def can_load(self, digest: str) -> None:
        """What was described in this process can be loaded here."""
        self._seen.add(digest)
        self._loadable.add(digest)

    def cannot_load(self, digest: str) -> bool:
        """It was tried here, without success."""
        return digest in self._seen and digest not in self._loadable

    async def run(self, root_id: str | None = None) -> None:
        """Work until `stop`; with `root_id`, on that tree only."""
        self._root_id = root_id
        while not self._stopping.is_set() and not await self._patiently(self.renew):
            await asyncio.sleep(LOOK_SECONDS)
        self._ready.set()
        async with asyncio.TaskGroup() as tasks:
            duties = [
                tasks.create_task(self._mind_time()),
                tasks.create_task(self._keep_lease()),
                tasks.create_task(self._look()),
            ]
            await self._claim_all(tasks)
            while self.attempts:  # their lease is kept until the last of them is left
                await asyncio.sleep(0.01)
            for duty in duties:
                duty.cancel()

    def begin(self) -> None:
        """It may work (again)."""
        self._stopping.clear()
        self._ready.clear()
        self.row = replace(self.row, draining_since=None)

    async def ready(self) -> None:
        """Return when it has its lease and begins to claim."""
        await self._ready.wait()

    async def stop(self, grace: float | None = 10.0) -> None:
        """Claim nothing more, leave each run at its next safe point, give all back; wait for that as long as it takes
        (None) or for a time."""
        self._stopping.set()
        self._wake.set()
        for attempt in list(self.attempts.values()):
            attempt.release()
        if self.attempts and grace != 0:
            self.row = replace(self.row, draining_since=self._services.clock.now_ms())
            await self._patiently(self._announce)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                while self.attempts:
                    await asyncio.sleep(0.01)

    async def let_go(self) -> None:
        """Give back whatever is still held: the lease ends now and not in half a minute. Who only looked has none."""
        if not self._has_lease:
            return
        with suppress(RetinueError):
            await self._services.store.let_go(LetGo(worker_id=self.id))

    # Claiming

    async def _claim_all(self, tasks: asyncio.TaskGroup) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            claimed = await self.claim()
            for one in claimed:
                self._begin(one, tasks)
            if claimed and self._may_be_more:
                continue
            if claimed or not await self.learn():
                await self._rest()

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._wake.wait()

    async def claim(self) -> list[Claimed]:
        """Take what there are slots for."""
        self._may_be_more = True
        if self._free <= 0:
            return []
        limit = min(self._free, MOST_AT_ONCE)
        write = Claim(
            worker_id=self.id,
            limit=limit,
            lease_ms=int(self._lease * 1000),
            requires=tuple(self._loadable),
            owner_limit=self._owner_limit,
            root_id=self._root_id,
        )
        try:
            claimed = await self._services.store.claim(write)
            self._may_be_more = len(claimed) == limit
            return claimed
        except StoreClosed:
            self._stopping.set()
        except StoreError as error:
            log.warning("claiming failed: %s", error)
            await asyncio.sleep(LOOK_SECONDS)
        return []

    async def learn(self) -> bool:
        """Try each set of requirements that was never seen here, once. Whether there is one that can be loaded."""
        try:
            unseen = await self._services.store.unseen_requirements(sorted(self._seen), self._root_id)
        except StoreError:
            return False
        for digest, data in unseen.items():
            self._seen.add(digest)
            try:
                can_load = self._services.runners.can_load(msgspec.json.decode(data))
            except Exception:  # whatever a runner stumbles over, the runs of others go on
                log.exception("cannot tell whether %s can be loaded", data)
                continue
            if can_load:
                self._loadable.add(digest)
        if found := not self._loadable.isdisjoint(unseen):
            await self._patiently(self._announce)  # others see that there is somebody for these runs
        return found

    def _begin(self, claimed: Claimed, tasks: asyncio.TaskGroup) -> None:
        self._free -= 1
        attempt = Attempt(self._services, claimed, self._slot)
        self.attempts[claimed.row.id] = attempt
        if self._stopping.is_set():  # it was being claimed when the others were told
            attempt.release()
        tasks.create_task(self._execute(attempt))

    async def _execute(self, attempt: Attempt) -> None:
        try:
            await attempt.execute()
        except Exception:
            log.exception("run %s: the attempt failed", attempt.row.id)
        finally:
            self.rests[attempt.rest] += 1
            if self.attempts.get(attempt.row.id) is attempt:
                del self.attempts[attempt.row.id]
            attempt.give_slot_back()

    def _slot(self, change: int) -> None:
        """A run that waits in memory gives its slot back; when it goes on it takes one at once, even if none is free:
        it could not wait for one without holding up those that wait for it."""
        self._free += change
        if change > 0 and (self._may_be_more or self._owner_limit is not None):
            self._wake.set()

    # Duties, each with a step that can be called alone

    async def _mind_time(self) -> None:
        """Each second, and sooner when something is due sooner."""
        tick, clock = self._services.hub.tick, self._services.clock
        while True:
            timer = clock.call_later(TICK_SECONDS, tick.set)
            await tick.wait()
            tick.clear()
            timer.cancel()
            await self._patiently(self.duty)

    async def _keep_lease(self) -> None:
        while True:
            await self._services.clock.sleep(self._lease / RENEWALS)
            await self._patiently(self.renew)

    async def _patiently(self, step: Callable[[], Awaitable[object]]) -> bool:
        """One pass of a duty. One that fails does not end the worker."""
        try:
            await step()
            return True
        except StoreClosed:
            self._stopping.set()
        except Exception as error:
            log.warning("%s failed: %s", step.__qualname__, error)
        return False

    async def renew(self) -> None:
        """Prolong the lease; give back what the database says is held here and is not, drop what is held elsewhere."""
        attempts = dict(self.attempts)
        held = await self._announce()
        for run_id, attempt in attempts.items():
            if held.get(run_id, (0, 0))[0] != attempt.row.attempt:
                attempt.lost()
        strangers = set(held) - set(self.attempts)
        if lost := tuple(strangers & self._strangers):
            await self._services.store.let_go(LetGo(worker_id=self.id, run_ids=lost))
        self._strangers = strangers

    async def _announce(self) -> dict[str, tuple[int, int]]:
        """Say that it lives, and what it can load."""
        loads = None if self._root_id else sorted(self._loadable)
        row = replace(self.row, owner_limit=self._owner_limit, loads=msgspec.json.encode(loads).decode())
        self._has_lease = True  # before the answer: it may be on disk although nobody hears of it
        return await self._services.store.renew(Renew(worker=row, lease_ms=int(self._lease * 1000)))

    async def duty(self) -> None:
        """Wake what waits for a time, end what has expired, take away what was deleted, free what the dead hold."""
        store = self._services.store
        while await store.wake_due(WakeDue()):
            pass
        for run_id in await store.expired():
            await self.end(run_id)
        for thread_id in await store.dropped():
            for run_id in await store.idle_in(thread_id):  # told to stop; nobody may be able to load them
                await self.end(run_id)
            await purge(store, self._services.codec, self._services.workspaces, thread_id)
        await sweep(store, self._services.codec)
        for worker in await store.workers():
            if worker.lease_until and worker.id != self.id and is_dead(worker, self.row):
                await store.worker_died(WorkerDied(worker_id=worker.id))

    async def end(self, run_id: str) -> None:
        """End a run that nobody runs: it was cancelled, or its time is over."""
        await end_run(self._services, self.id, run_id)

    async def _look(self) -> None:
        """What was said to runs here by other processes, and what a hurried commit told before the run was there."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.attempts:
                await self._patiently(self.look)

    async def look(self) -> None:
        for run_id, (_, signal_seq) in (await self._services.store.held(self.id)).items():
            attempt = self.attempts.get(run_id)
            if attempt and not attempt.has_seen(signal_seq):
                attempt.signalled()


async def end_run(services: Services, worker_id: str, run_id: str) -> None:
    """Claim a queued or waiting run only to end it, whatever it requires."""
    for claimed in await services.store.claim(Claim(worker_id=worker_id, limit=1, run_id=run_id)):
        await Attempt(services, claimed, lambda change: None, only_to_end=True).execute()


def this_process(concurrency: int) -> WorkerRow:
    """Who this worker is, so that others on the same host can see whether it lives."""
    return WorkerRow(
        id=new_id("wrk"),
        host=socket.gethostname(),
        boot_id=_boot_id(),
        pid=os.getpid(),
        process_started=_process_started(os.getpid()) or "",
        concurrency=concurrency,
        started_at=0,
        lease_until=0,
    )


def is_dead(worker: WorkerRow, here: WorkerRow) -> bool:
    """Whether a worker is surely gone: it was on this host, and its process is no more.

    Hosts may have the same name, and containers of one host the same boot: what cannot be looked at from here is left
    to its lease.
    """
    if (worker.host, worker.boot_id) != (here.host, here.boot_id):
        return False
    return _process_started(worker.pid) != worker.process_started


def _boot_id() -> str:
    """This boot of this machine, and the container in it whose numbers of processes these are."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _process_started(pid: int) -> str | None:
    """When a process began, in a form that differs when its number is used again; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        return _exists(pid)
    except OSError:
        return _exists(pid)
    return None if fields[0] == "Z" else fields[19]


def _exists(pid: int) -> str | None:
    """Where there is no /proc: only that the process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "there"
