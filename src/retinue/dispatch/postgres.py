"""Notices over PostgreSQL's LISTEN and NOTIFY: sent after commits, several at once.

A NOTIFY takes a lock that all of a database's commits with one pass through, so it is sent apart from the
transactions that it tells of, and at most every few milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import psycopg

from retinue.ids import new_id
from retinue.ports.bus import Notice
from retinue.ports.store import Commit

log = logging.getLogger("retinue")

CHANNEL = "retinue"
EVERY_SECONDS = 0.005
MOST_IDS = 150  # of 30 characters; a payload has room for 8,000
RECONNECT_SECONDS = (0.1, 5.0)

Connection = psycopg.AsyncConnection[tuple[object, ...]]


class _Message(msgspec.Struct, omit_defaults=True):
    """A notice on its way, with who sent it."""

    sender: str
    queued: bool = False
    signalled: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


class PostgresBus:
    """Tells others what is committed here, and `hear` what they commit."""

    def __init__(self, url: str, hear: Callable[[Notice], None]) -> None:
        self._url, self._hear = url, hear
        self._me = new_id("bus")
        self._queued = False
        self._signalled: set[str] = set()
        self._ended: set[str] = set()
        self._roots: set[str] = set()
        self._something = asyncio.Event()
        self.listening = asyncio.Event()
        self._tasks = [asyncio.create_task(self._keep(self._send)), asyncio.create_task(self._keep(self._listen))]

    def committed(self, commit: Commit) -> None:
        """Gather what a commit of this process changed."""
        self._queued |= commit.queued
        self._signalled |= commit.signalled
        self._roots.update(commit.roots.values())
        self._ended.update(event.run_id for event in commit.events if event.type == "run.finished")
        self._something.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Do something with a connection, and with a new one when it is lost. Meanwhile others look by themselves."""
        shortest, pause = RECONNECT_SECONDS[0], RECONNECT_SECONDS[0]
        while True:
            try:
                async with await Connection.connect(self._url, autocommit=True, connect_timeout=10) as connection:
                    pause = shortest
                    await work(connection)
            except psycopg.Error as error:
                log.warning("the notices' connection was lost: %s", str(error).strip().partition("\n")[0])
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_SECONDS[1])

    async def _send(self, connection: Connection) -> None:
        while True:
            await self._something.wait()
            for payload in self._payloads():
                await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
            await asyncio.sleep(EVERY_SECONDS)

    def _payloads(self) -> Iterator[str]:
        self._something.clear()
        queued, self._queued = self._queued, False
        ids = [
            *(("signalled", run_id) for run_id in self._signalled),
            *(("ended", run_id) for run_id in self._ended),
            *(("roots", run_id) for run_id in self._roots),
        ]
        self._signalled, self._ended, self._roots = set(), set(), set()
        for start in range(0, max(1, len(ids)), MOST_IDS):
            chunk = ids[start : start + MOST_IDS]
            kinds = {kind: tuple(i for k, i in chunk if k == kind) for kind in ("signalled", "ended", "roots")}
            yield msgspec.json.encode(_Message(self._me, queued, **kinds)).decode()

    async def _listen(self, connection: Connection) -> None:
        await connection.execute(f"LISTEN {CHANNEL}".encode())
        self.listening.set()
        # What was said while nobody listened is gone: look at everything once.
        self._hear(Notice(queued=True))
        async with contextlib.aclosing(connection.notifies()) as notifies:
            async for notify in notifies:
                self._heard(notify.payload)

    def _heard(self, payload: str) -> None:
        try:
            said = msgspec.json.decode(payload, type=_Message)
        except msgspec.DecodeError:
            log.warning("an unreadable notice: %.80s", payload)
            return
        if said.sender != self._me:
            self._hear(Notice(queued=said.queued, signalled=said.signalled, ended=said.ended, roots=said.roots))
