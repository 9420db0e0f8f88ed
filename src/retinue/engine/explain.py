"""Why a run is where it is: facts, without the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

from retinue.core import events as e
from retinue.core.outcome import Outcome, Status, Waits
from retinue.core.run import Call, RunState
from retinue.engine.codec import Codec
from retinue.engine.past import PAGE
from retinue.engine.worker import is_dead, this_process
from retinue.ports.store import RunRow, Store, TicketRow, WorkerRow


class Because(StrEnum):
    """The one thing that keeps a run where it is."""

    NOT_DUE = "not_due"
    NO_WORKER = "no_worker"
    CANNOT_LOAD = "cannot_load"
    OWNER_LIMIT = "owner_limit"
    BEHIND = "behind"
    ABOUT_TO_START = "about_to_start"
    RUNNING = "running"
    LEFT_BEHIND = "left_behind"
    PERSON = "person"
    CHILDREN = "children"
    TIMER = "timer"
    PAUSED = "paused"
    REMOTE = "remote"
    ENDED = "ended"


class Life(StrEnum):
    """How a worker is."""

    ALIVE = "alive"
    DRAINING = "draining"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker, and what others see of it."""

    row: WorkerRow
    life: Life
    holds: int

    @property
    def free(self) -> int:
        return max(0, self.row.concurrency - self.holds)

    def loads(self, digest: str) -> bool:
        return digest in (msgspec.json.decode(self.row.loads) or ())

    @property
    def takes_any(self) -> bool:
        """Whether it works on whatever comes, not on one tree."""
        return self.row.loads != "null"


@dataclass(slots=True)
class Journal:
    """What a run's own events say of where it is, and since when."""

    state: RunState
    held_since: int | None = None
    rested_at: int | None = None
    began: dict[str, int] = field(default_factory=dict)
    turn_at: int | None = None
    asked: str = ""
    """The model that the open turn asks."""
    retry: e.ModelRetried | None = None
    """The last try of the open turn, if it failed."""
    retry_at: int = 0

    def take(self, event: e.Event) -> None:
        self.state.apply(event)
        match event.data:
            case e.RunStarted() | e.RunResumed():
                self.held_since = event.at
            case e.RunWaiting() | e.RunFinished():
                self.rested_at = event.at
            case e.ToolStarted(call_id=call_id):
                self.began[call_id] = event.at
            case e.TurnStarted(model=model):
                self.turn_at, self.asked, self.retry = event.at, model, None
            case e.ModelRetried() as retry:
                self.retry, self.retry_at = retry, event.at + retry.delay_ms
                self.asked = retry.model or self.asked
            case _:
                pass

    @property
    def under_way(self) -> list[tuple[Call, int]]:
        """The steps that are open, with when each began."""
        return [(call, self.began[call_id]) for call_id, call in self.state.open_calls.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that bears on where a run is."""

    because: Because
    row: RunRow
    now: int
    journal: Journal
    requires: Mapping[str, object]
    workers: Sequence[WorkerView]
    worker: WorkerView | None
    ahead: Mapping[int, int]
    owner_running: int
    owner_allowed: int | None
    tickets: Sequence[TicketRow]
    children: Sequence[RunRow]

    @property
    def outcome(self) -> Outcome | None:
        return self.journal.state.outcome

    @property
    def active_ms(self) -> int:
        """How long it has been active by now."""
        state = self.journal.state
        return state.active_ms + (max(0, self.now - state.last_at) if state.counts else 0)


async def read_journal(store: Store, codec: Codec, run_id: str) -> Journal:
    """A run's events, as people may see them."""
    journal = Journal(RunState(run_id))
    while page := await store.events(run_id, journal.state.seq, PAGE):
        for recorded in page:
            journal.take(await codec.shown(recorded))
        if len(page) < PAGE:
            break
    return journal


async def views_of_workers(store: Store, now: int) -> list[WorkerView]:
    """All workers that have not left in good order."""
    here, busy = this_process(0), await store.busy()

    def life(row: WorkerRow) -> Life:
        if row.lease_until <= now or is_dead(row, here):
            return Life.DEAD
        return Life.DRAINING if row.draining_since else Life.ALIVE

    return [WorkerView(row=row, life=life(row), holds=busy.get(row.id, 0)) for row in await store.workers()]


async def explain(store: Store, codec: Codec, row: RunRow) -> Explanation:
    """Why the run is where it is."""
    now = await store.now()
    workers = await views_of_workers(store, now)
    requires = await store.requirement(row.requires)
    running, allowed = await store.owner_load(row.owner)
    tickets = await store.tickets(root_id=row.root_id, status="open") if not row.status.terminal else []
    facts = Explanation(
        because=Because.ENDED,
        row=row,
        now=now,
        journal=await read_journal(store, codec, row.id),
        requires=msgspec.json.decode(requires) if requires else {},
        workers=workers,
        worker=next((worker for worker in workers if worker.row.id == row.worker_id), None),
        ahead=await store.ahead(row) if row.status is Status.QUEUED else {},
        owner_running=running,
        owner_allowed=_allowed(allowed, workers),
        tickets=[ticket for ticket in tickets if ticket.run_id == row.id],
        children=[child for child in await store.children(row.id) if not child.status.terminal],
    )
    return replace(facts, because=_because(facts))


def _allowed(allowed: int | None, workers: Sequence[WorkerView]) -> int | None:
    """How many runs of an owner run at once: what is said for the owner, where any worker keeps to a limit at all."""
    limits = [view.row.owner_limit for view in workers if view.life is Life.ALIVE and view.takes_any]
    if not limits or None in limits:
        return None
    return allowed if allowed is not None else max(limit for limit in limits if limit is not None)


def _because(facts: Explanation) -> Because:
    match facts.row.status:
        case Status.QUEUED:
            return _why_queued(facts)
        case Status.RUNNING:
            held = facts.worker is not None and facts.worker.life is not Life.DEAD
            return Because.RUNNING if held else Because.LEFT_BEHIND
        case Status.WAITING:
            return _why_waiting(facts)
        case _:
            return Because.ENDED


def _why_queued(facts: Explanation) -> Because:
    row = facts.row
    if row.due_at > facts.now and row.due_at != row.created_at:
        return Because.NOT_DUE
    alive = [view for view in facts.workers if view.life is Life.ALIVE and view.takes_any]
    if not alive:
        return Because.NO_WORKER
    able = [view for view in alive if view.loads(row.requires)]
    if not able:
        return Because.CANNOT_LOAD
    if row.parent_id is None and facts.owner_allowed is not None and facts.owner_running >= facts.owner_allowed:
        return Because.OWNER_LIMIT
    return Because.ABOUT_TO_START if any(view.free for view in able) else Because.BEHIND


def _why_waiting(facts: Explanation) -> Because:
    waits = (facts.row.waits_for or "").split(",")
    if Waits.PAUSED in waits:
        return Because.PAUSED
    if facts.tickets or not {Waits.CHILDREN, Waits.TIMER, Waits.REMOTE}.intersection(waits):
        return Because.PERSON
    if Waits.CHILDREN in waits:
        return Because.CHILDREN
    return Because.REMOTE if Waits.REMOTE in waits else Because.TIMER
