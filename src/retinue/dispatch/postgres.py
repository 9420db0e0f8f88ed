"""Notices over PostgreSQL's LISTEN and NOTIFY: sent after commits, several at once.

A NOTIFY takes a lock that all of a database's commits with one pass through, so it is sent apart from the
transactions that it tells of, and at most every few milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import msgspec
import psycopg
from psycopg.conninfo import make_conninfo

from retinue.ids import new_id
from retinue.ports.bus import Notice
from retinue.ports.store import Commit

log = logging.getLogger("retinue")

CHANNEL = "retinue"
EVERY_SECONDS = 0.005
MOST_IDS = 150  # of 30 characters; a payload has room for 8,000
RECONNECT_SECONDS = (0.1, 5.0)
LAST_WORDS_SECONDS = 1.0
KINDS = ("signalled", "ended", "roots")

Connection = psycopg.AsyncConnection[tuple[object, ...]]


class _Message(msgspec.Struct, omit_defaults=True):
    """A notice on its way, with who sent it."""

    sender: str
    queued: bool = False
    signalled: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


@dataclass(slots=True)
class _Unsaid:
    """What was committed here and nobody was told of yet."""

    queued: bool = False
    ids: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in KINDS})

    def add(self, other: _Unsaid) -> None:
        self.queued |= other.queued
        for kind, ids in other.ids.items():
            self.ids[kind] |= ids

    def payloads(self, sender: str) -> Iterator[str]:
        ids = [(kind, run_id) for kind in KINDS for run_id in self.ids[kind]]
        for start in range(0, max(1, len(ids)), MOST_IDS):
            chunk = ids[start : start + MOST_IDS]
            kinds = {kind: tuple(i for k, i in chunk if k == kind) for kind in KINDS}
            yield msgspec.json.encode(_Message(sender, self.queued, **kinds)).decode()


class PostgresBus:
    """Tells others what is committed here, and `hear` what they commit."""

    def __init__(self, url: str, hear: Callable[[Notice], None]) -> None:
        self._hear = hear
        # Who only listens would not notice for hours that nobody is there any more.
        self._conninfo = make_conninfo(
            url, connect_timeout=10, keepalives_idle=5, keepalives_interval=2, keepalives_count=3
        )
        self._me = new_id("bus")
        self._unsaid = _Unsaid()
        self._something, self._nothing = asyncio.Event(), asyncio.Event()
        self._nothing.set()
        self.listening = asyncio.Event()
        self._tasks = [asyncio.create_task(self._keep(self._send)), asyncio.create_task(self._keep(self._listen))]

    def committed(self, commit: Commit) -> None:
        """Gather what a commit of this process changed."""
        unsaid = self._unsaid
        unsaid.queued |= commit.queued
        unsaid.ids["signalled"] |= commit.signalled
        unsaid.ids["roots"].update(commit.roots.values())
        unsaid.ids["ended"].update(event.run_id for event in commit.events if event.type == "run.finished")
        self._something.set()
        self._nothing.clear()

    async def close(self) -> None:
        """Say what is still unsaid, unless that takes too long: others would find out by themselves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._nothing.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Do something with a connection, and with a new one when it is lost. Meanwhile others look by themselves."""
        shortest, pause = RECONNECT_SECONDS[0], RECONNECT_SECONDS[0]
        while True:
            try:
                async with await Connection.connect(self._conninfo, autocommit=True) as connection:
                    pause = shortest
                    await work(connection)
            except psycopg.Error as error:
                log.warning("the notices' connection was lost: %s", str(error).strip().partition("\n")[0])
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_SECONDS[1])

    async def _send(self, connection: Connection) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            said, self._unsaid = self._unsaid, _Unsaid()
            try:
                for payload in said.payloads(self._me):
                    await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
            except psycopg.Error:  # who is told twice looks twice
                self._unsaid.add(said)
                self._something.set()
                raise
            if not self._something.is_set():
                self._nothing.set()
            await asyncio.sleep(EVERY_SECONDS)

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
