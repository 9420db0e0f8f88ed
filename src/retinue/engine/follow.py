"""Reading a run while it goes on: stored events, then live ones and deltas, without gap or duplicate."""

from __future__ import annotations

from collections.abc import AsyncIterator

from retinue.core.delta import Delta, Place, Progress
from retinue.core.events import Event, ModelResponded, ModelRetried, RunFinished, RunQueued, TurnInterrupted
from retinue.engine.codec import Codec
from retinue.engine.hub import PAGE, Hub, Tail
from retinue.errors import UnknownRun
from retinue.ports.store import Recorded, RunRow, Store

Followed = Event | Delta | Progress


class Follower:
    """Reads journals for whoever wants to see them. Reading changes nothing."""

    def __init__(self, store: Store, hub: Hub, codec: Codec) -> None:
        self._store, self._hub, self._codec = store, hub, codec

    async def follow(self, run_id: str, after: int = 0, *, tree: bool = False) -> AsyncIterator[Followed]:
        """The events after a place, and what open turns say meanwhile, until the run (or its whole tree) has ended."""
        row = await self._store.run(run_id)
        if row is None:
            raise UnknownRun(run_id=run_id)
        seen: dict[str, Place] = {}
        told: dict[tuple[str, str], Progress] = {}
        with self._hub.watch(row.root_id if tree else run_id, tree=tree, root=row.root_id) as tail:
            unended, end = await self._extent(row, tree=tree)
            place = min(after, end)
            while unended or place < end:
                version = tail.version
                page = await self._page(tail, place)
                for recorded in page:
                    place = tail.place(recorded)
                    _count(unended, recorded)
                    if place > after:
                        event = await self._codec.shown(recorded)
                        _close(seen, event)
                        yield event
                if page or tail.version != version:
                    continue
                if tail.gone:
                    raise UnknownRun(run_id=run_id)
                for key, progress in list(tail.progress.items()):
                    if told.get(key) is not progress:
                        told[key] = progress
                        yield progress
                if place == tail.end:  # who is ahead of the tail may have read the end of what it still takes for open
                    for said_by, turn in list(tail.turns.items()):
                        for delta in seen.setdefault(said_by, Place()).advance(said_by, turn):
                            yield delta
                await tail.changed(version)

    async def _extent(self, row: RunRow, *, tree: bool) -> tuple[set[str], int]:
        """The runs that have not ended, and how far the journal goes."""
        if not tree:
            return (set() if row.status.terminal else {row.id}), row.last_seq
        rows = await self._store.tree(row.root_id)
        return {row.id for row in rows if not row.status.terminal}, rows[0].tree_seq

    async def _page(self, tail: Tail, after: int) -> list[Recorded]:
        page = tail.after(after)
        if page is None:
            read = self._store.tree_events if tail.tree else self._store.events
            async with tail.in_turn():
                page = await read(tail.key, after, PAGE)
            if not page:
                if tail.ring and tail.place(tail.ring[0]) > after + 1:  # what went before was there
                    tail.gone |= await self._store.run(tail.key) is None
                tail.caught_up(after)
        return page


def _count(unended: set[str], recorded: Recorded) -> None:
    if recorded.type == RunQueued.type:
        unended.add(recorded.run_id)
    elif recorded.type == RunFinished.type:
        unended.discard(recorded.run_id)


def _close(seen: dict[str, Place], event: Event) -> None:
    match event.data:
        case ModelResponded() | ModelRetried() | TurnInterrupted() as end:
            seen.setdefault(event.run_id, Place()).close(end.turn, end.try_)
        case _:
            pass
