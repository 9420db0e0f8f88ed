"""What a run's open turn says: at once to readers here, now and then to the store for everybody else."""

from __future__ import annotations

import asyncio

from retinue.core.delta import OpenTurn
from retinue.engine.hub import Hub
from retinue.engine.journal import WAIT_OUT
from retinue.errors import RetinueError
from retinue.ports.clock import Clock, Timer
from retinue.ports.store import RunRow, Speak, Store

KEEP_EVERY = 1.0
KEEP_CHARACTERS = 4096


class Speech:
    """The open turn of one attempt. What it said is stored each second or 4 KiB, only what is new."""

    def __init__(self, store: Store, hub: Hub, clock: Clock, row: RunRow) -> None:
        self._store, self._hub, self._clock, self._row = store, hub, clock, row
        self._turn: OpenTurn | None = None
        self._kept: dict[str, int] = {}
        self._unsent: list[Speak] = []
        self._unkept = 0
        self._timer: Timer | None = None
        self._keeping: asyncio.Task[None] | None = None

    def begin(self, turn: int, try_: int) -> None:
        self._turn, self._kept, self._unsent, self._unkept = OpenTurn(turn, try_), {}, [], 0
        self._hub.said(self._row.id, self._row.root_id, self._turn)

    def say(self, kind: str, text: str) -> None:
        assert self._turn, "a turn is begun before it says something"
        spoken = self._turn.spoken.get(kind)
        self._turn.add(kind, spoken.length if spoken else 0, text)
        self._hub.said(self._row.id, self._row.root_id, self._turn)
        self._unkept += len(text)
        if not self._store.shared:
            return  # nobody else can look, and nothing survives this process
        if self._unkept >= KEEP_CHARACTERS:
            self._keep_soon()
        else:
            self._keep_later()

    def said(self) -> OpenTurn | None:
        return self._turn

    def close(self) -> None:
        """What closes the turn is noted: nothing more of it is kept."""
        self._turn = None
        self._drop_timer()

    async def end(self, *, abandon: bool = False) -> None:
        """The turn is closed: its event holds the whole."""
        self.close()
        if self._keeping:
            if abandon:
                self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
            self._keeping = None
        self._hub.said(self._row.id, self._row.root_id, None)

    def _keep_later(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(KEEP_EVERY, self._keep_soon)

    def _drop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _keep_soon(self) -> None:
        self._drop_timer()
        if self._turn is None or not self._hub.is_open(self._row.id, self._turn):
            return  # its end is on disk, with the whole
        if self._keeping and not self._keeping.done():
            self._keep_later()
            return
        self._unkept = 0
        self._cut(self._turn)
        self._keeping = asyncio.create_task(self._keep(self._turn, self._unsent))

    def _cut(self, turn: OpenTurn) -> None:
        """Line up what is new. A piece that may be stored already is sent again as it was: no two begin alike."""
        for kind, spoken in turn.spoken.items():
            offset = self._kept.get(kind, 0)
            if text := spoken.since(offset):
                self._kept[kind] = offset + len(text)
                self._unsent.append(
                    Speak(
                        run_id=self._row.id,
                        attempt=self._row.attempt,
                        turn=turn.turn,
                        try_=turn.try_,
                        kind=kind,
                        offset=offset,
                        text=text,
                    )
                )

    async def _keep(self, turn: OpenTurn, unsent: list[Speak]) -> None:
        try:
            while unsent and self._hub.is_open(self._row.id, turn):
                await self._store.speak(unsent[0])
                unsent.pop(0)
        except WAIT_OUT:
            if turn is self._turn:
                self._keep_later()
        except RetinueError:
            unsent.clear()  # fenced, or it cannot be stored: the journal will say so
