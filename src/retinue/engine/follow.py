"""Reading a run while it goes on: stored events, then live ones and deltas, without gap or duplicate."""

from __future__ import annotations

from collections.abc import AsyncIterator

from retinue.core.delta import Delta, Place
from retinue.core.events import Event, ModelResponded, ModelRetried, RunFinished, TurnInterrupted
from retinue.engine.codec import Codec
from retinue.engine.hub import Hub, Tail
from retinue.errors import UnknownRun
from retinue.ports.store import Recorded, RunRow, Store

PAGE = 256


class Follower:
    """Reads journals for whoever wants to see them. Reading changes nothing."""

    def __init__(self, store: Store, hub: Hub, codec: Codec) -> None:
        self._store, self._hub, self._codec = store, hub, codec

    async def follow(self, run_id: str, after: int = 0, *, tree: bool = False) -> AsyncIterator[Event | Delta]:
        """The events after a place, and what open turns say meanwhile, until the run (or its whole tree) has ended."""
        row = await self._store.run(run_id)
        if row is None:
            raise UnknownRun(run_id=run_id)
        places: dict[str, Place] = {}
        may_have_ended = True
        with self._hub.watch(run_id, tree=tree) as tail:
            while True:
                version = tail.version
                for recorded in await self._page(tail, after):
                    event = await self._codec.shown(recorded)
                    _close(places, event)
                    after = tail.place(recorded)
                    yield event
                    if recorded.type == RunFinished.type:
                        if not tree:
                            return
                        may_have_ended = True
                if tail.version != version:
                    continue
                for said_by, turn in self._hub.open_turns(tail):
                    for delta in places.setdefault(said_by, Place()).advance(said_by, turn):
                        yield delta
                if may_have_ended and await self._has_ended(run_id, after, tree=tree):
                    return
                may_have_ended = False
                await tail.changed(version)

    async def _page(self, tail: Tail, after: int) -> list[Recorded]:
        page = tail.after(after)
        if page is None:
            read = self._store.tree_events if tail.tree else self._store.events
            page = await read(tail.key, after, PAGE)
            if not page:
                tail.caught_up(after)
            else:
                tail.stir()
        return page

    async def _has_ended(self, run_id: str, after: int, *, tree: bool) -> bool:
        """Whether there can be nothing after this place any more."""
        if tree:
            rows: list[RunRow] = await self._store.tree(run_id)
            return all(row.status.terminal for row in rows) and rows[0].tree_seq <= after
        row = await self._store.run(run_id)
        return row is None or (row.status.terminal and row.last_seq <= after)


def _close(places: dict[str, Place], event: Event) -> None:
    match event.data:
        case ModelResponded(turn=turn, try_=try_) | TurnInterrupted(turn=turn, try_=try_):
            places.setdefault(event.run_id, Place()).close(turn, try_)
        case ModelRetried(turn=turn, try_=try_):
            places.setdefault(event.run_id, Place()).close(turn, try_)
        case _:
            pass
