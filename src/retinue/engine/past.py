"""What a run knows from the run that it retries or forks: read through the source, never copied."""

from __future__ import annotations

from dataclasses import dataclass

from retinue.core import events as e
from retinue.core.outcome import Outcome
from retinue.core.run import Call, Child, RunState, Ticket, fold, outcome_in
from retinue.engine.codec import Codec
from retinue.errors import UnknownRun
from retinue.ports.store import RunRow, Store

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Past:
    """The states of the source, its source and so on, newest first."""

    states: tuple[RunState, ...]

    def call(self, call_id: str) -> Call | None:
        return next((state.calls[call_id] for state in self.states if call_id in state.calls), None)

    def child(self, call_id: str) -> Child | None:
        """A child that has ended: one that completed is used as it is, another one is retried."""
        found = next((state.children[call_id] for state in self.states if call_id in state.children), None)
        return found if found and found.status.terminal else None

    def ticket(self, call_id: str) -> Ticket | None:
        """A ticket that somebody has answered."""
        found = next((s.ticket_of_call[call_id] for s in self.states if call_id in s.ticket_of_call), None)
        return found if found and found.decision not in (None, "expired", "void") else None


async def read_state(
    store: Store, codec: Codec, run_id: str, upto: int | None = None, past: RunState | None = None
) -> RunState:
    """The state that a run's journal says, all of it or up to a seq, with its secrets; with `past`, of a run that goes
    on from there."""
    state = fold(run_id, (), past)
    while page := await store.events(run_id, state.seq, PAGE):
        for recorded in page:
            if upto is not None and recorded.seq > upto:
                return state
            state.apply(await codec.used(recorded))
        if len(page) < PAGE:
            break
    return state


async def read_past(store: Store, codec: Codec, row: RunRow, *, continued: bool = False) -> Past:
    """Follow the sources of a run back to the first. When it is `continued`, each goes on from the one before."""
    sources: list[tuple[str, int | None]] = []
    source, upto = row.source_run_id, row.source_seq
    while source and upto != 0:
        sources.append((source, upto))
        before = await store.run(source)
        if before is None:
            raise UnknownRun(run_id=source)
        source, upto = before.source_run_id, before.source_seq
    states: list[RunState] = []
    for run_id, until in reversed(sources):
        past = states[-1] if continued and states else None
        states.append(await read_state(store, codec, run_id, until, past))
    return Past(tuple(reversed(states)))


async def read_whole(store: Store, codec: Codec, run_id: str) -> RunState | None:
    """The state of a run with all that it went on from; None when it is gone."""
    row = await store.run(run_id)
    if row is None:
        return None
    past = await read_past(store, codec, row, continued=True)
    return await read_state(store, codec, run_id, past=past.states[0] if past.states else None)


async def read_outcome(store: Store, codec: Codec, run_id: str) -> Outcome:
    """How a run ended, from its last event."""
    last = await store.last_event(run_id)
    if last is None:
        raise UnknownRun(run_id=run_id)  # deleted meanwhile
    return outcome_of(await codec.used(last))


def outcome_of(last: e.Event) -> Outcome:
    """What the last event of a run says."""
    assert isinstance(last.data, e.RunFinished)
    return outcome_in(last.data)
