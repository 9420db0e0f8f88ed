"""The store: rows, what can be written, what can be read.

Each write is one value; those that arrive while a commit is under way share the next one. A write that
is refused fails alone and leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from retinue.core.delta import OpenTurn
from retinue.core.events import EventData, RunFinished
from retinue.core.outcome import Status


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is not recorded yet, with its data as it will be stored."""

    data: EventData
    encoded: str


class Recorded(NamedTuple):
    """A stored event, its data still as stored: secrets by reference, large data by URI."""

    run_id: str
    seq: int
    root_seq: int
    attempt: int
    at: int
    type: str
    data: str


class Appended(NamedTuple):
    """Where an append begins in its tree, and when it was."""

    root_seq: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be stored as queued."""

    id: str
    root_id: str
    target: str
    queued: Draft
    parent_id: str | None = None
    call_id: str | None = None
    depth: int = 0
    owner: str = ""
    thread_id: str | None = None
    message_id: str | None = None
    definition: str | None = None
    requires: str = ""
    durability: str = "effects"
    priority: int = 0
    due_at: int | None = None
    expires_at: int | None = None
    source_run_id: str | None = None
    source_seq: int | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    after_run_id: str | None = None
    purse_limit: int | None = None


@dataclass(frozen=True, slots=True)
class RunRow:
    """What the store knows of a run besides its journal. Fields are in the order of the table's columns."""

    id: str
    root_id: str
    parent_id: str | None
    call_id: str | None
    depth: int
    owner: str
    thread_id: str | None
    message_id: str | None
    target: str
    definition: str | None
    requires: str
    durability: str
    priority: int
    due_at: int
    expires_at: int | None
    source_run_id: str | None
    source_seq: int | None
    idempotency_key: str | None
    request_digest: str | None
    status: Status
    reason: str | None
    recovered: bool
    waits_for: str | None
    wake_at: int | None
    cause: str
    cancelled: bool
    attempt: int
    crashes: int
    worker_id: str | None
    last_seq: int
    tree_seq: int
    signal_seq: int
    created_at: int
    started_at: int | None
    finished_at: int | None
    after_run_id: str | None = None
    """The run on its branch that it waits for, before anybody may claim it."""
    purse_limit: int | None = None
    """What its tree may cost, in millionths of a dollar. The root's row has what was spent and what is held back."""
    purse_spent: int | None = None
    purse_held: int | None = None
    reserved: int | None = None


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A conversation."""

    id: str
    owner: str
    title: str
    created_at: int
    updated_at: int
    deleted_at: int | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One node of a conversation, its parts as stored. `status` is that of the run that answers with it, if there is
    one still."""

    id: str
    thread_id: str
    parent_id: str | None
    participant: str
    parts: str
    run_id: str | None
    created_at: int
    status: Status | None = None


@dataclass(frozen=True, slots=True)
class SignalRow:
    """Something said to a run."""

    n: int
    kind: str
    data: str
    at: int


@dataclass(frozen=True, slots=True)
class TicketRow:
    """A ticket, as lists show it."""

    id: str
    run_id: str
    root_id: str
    kind: str
    call_id: str
    status: str
    title: str
    data: str
    decision: str | None
    opened_at: int
    expires_at: int | None
    closed_at: int | None

    @property
    def end(self) -> str:
        """How it was closed; its run says that when it takes up what was decided."""
        return self.decision or (
            "decided; its run has not taken it up yet" if self.status == "deciding" else self.status
        )


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A process that claims runs. The lease of a worker is the lease of all its runs."""

    id: str
    host: str
    boot_id: str
    pid: int
    process_started: str
    concurrency: int
    started_at: int
    lease_until: int
    draining_since: int | None = None
    owner_limit: int | None = None
    loads: str = "[]"
    """The digests of what it can load, as JSON. One that works on a single tree says null: it takes nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How much a database holds."""

    size: int
    rows: dict[str, int]
    statuses: dict[str, int]
    oldest_queued: int | None


UPLOAD = "upl"
"""What the ids of uploads begin with."""
NOBODY = "-"
"""Who holds a file that nothing refers to any more, as long as it may still be there."""


# What can be written


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Store a queued run, with the sets that it refers to. Gives its id, or that of the run with the same key."""

    run: NewRun
    requirement: str = ""
    definition: str = ""
    files: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to be stored, its parts as JSON."""

    id: str
    parent_id: str | None
    participant: str
    parts: str = "[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A placeholder, and the run that will fill it."""

    message: NewMessage
    submit: Submit


class OnBusy(StrEnum):
    """What happens when a run is under way on the branch that a new one would continue."""

    QUEUE = "queue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """Say something in a thread, and queue what answers: all of it is stored, or nothing.

    `ahead` are the runs that were under way on the branch, nearest first. Gives the id of the first answer's run, or
    that of the one with the same key, and the ids and statuses of those that were told to stop. One that goes on
    `at_end` has the newest message as its parent; when somebody was quicker, nothing is stored and the answer is None.
    """

    thread_id: str
    owner: str
    title: str | None
    """Of a new thread; None for one that is there."""
    message: NewMessage | None
    answers: tuple[Answer, ...]
    ahead: tuple[str, ...] = ()
    on_busy: OnBusy = OnBusy.QUEUE
    at_end: bool = False
    files: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What came of a post."""

    run_id: str
    interrupted: Mapping[str, Status] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Give a thread another title."""

    thread_id: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Delete a thread for its readers at once, and stop what runs in it. Gives the runs that it reached."""

    thread_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """Take away what is left of a dropped thread once nothing runs in it; None as long as something does."""

    thread_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Say that a stored file is somebody's. An upload is held by an id of its own until something is said with it."""

    uri: str
    holder: str
    owner: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """These files, which were nobody's, are gone or somebody's again."""

    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Put money aside for a call, in place of what the run had put aside before. False when the purse has less."""

    run_id: str
    attempt: int
    micros: int
    keep: int = 0
    """What must be left over afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Record events of a claimed run, in order, with the children that they start.

    `run.waiting` parks the run, `run.finished` ends it, unless signals after `signal_seen` are there: then nothing is
    written and the answer is None. An end that names none comes whatever was said. It tells the parent, and with
    `cancel_children` cancels what still runs below; `answer` are the parts of the message that the run answers with.
    `again` says that the write may have been done already: the answer was lost with the connection.
    """

    run_id: str
    attempt: int
    last_seq: int
    drafts: tuple[Draft, ...]
    children: tuple[Submit, ...] = ()
    files: tuple[tuple[str, int], ...] = ()
    signal_seen: int | None = None
    cancel_children: bool = False
    answer: str | None = None
    again: bool = False

    @property
    def ends(self) -> bool:
        """Whether it is the end of the run."""
        return bool(self.drafts) and isinstance(self.drafts[-1].data, RunFinished)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Take up to `limit` runs that want a worker, with `root_id` in that tree; with `run_id` just that one, to end it.

    Who claims lives: its lease is prolonged, so that one that slept takes not its own runs for left behind.
    """

    worker_id: str
    limit: int
    lease_ms: int = 30_000
    requires: tuple[str, ...] = ()
    owner_limit: int | None = None
    root_id: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A run that this worker now holds. `events` is the whole journal of a run that never ran before, else None."""

    row: RunRow
    events: tuple[Recorded, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Say something to a run. For a ticket, the ticket is taken in the same transaction: nobody answers it twice."""

    run_id: str
    kind: str
    data: str = "{}"
    ticket_id: str | None = None
    wakes_paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Tell a run and all that runs below it to stop. Gives the ids and statuses of those that it reached."""

    run_id: str
    data: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Prolong a worker's lease. Gives what it holds: run id to (attempt, signal_seq)."""

    worker: WorkerRow
    lease_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo:
    """Give runs back, uncrashed; with no ids named all of a worker's, and its lease ends. `requires` and `requirement`
    are what a worker must be able to load from now on, where that has become more."""

    worker_id: str
    run_ids: tuple[str, ...] | None = None
    requires: str | None = None
    requirement: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDied:
    """A worker is known to be dead: its lease ends now."""

    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeDue:
    """Queue what waits for a time that has come, close tickets that have expired, so many at once. Gives whether there
    may be more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speak:
    """Keep what an open turn has said so far, for readers elsewhere and for the next attempt."""

    run_id: str
    attempt: int
    turn: int
    try_: int
    kind: str
    offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Delete those of these trees that ended before a time and are no source of one that stays."""

    root_ids: tuple[str, ...]
    before: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted; `files` are those that nothing refers to any more, `roots` the trees that are gone."""

    trees: int = 0
    runs: int = 0
    events: int = 0
    files: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


Write = (
    Submit
    | Post
    | Rename
    | Drop
    | Purge
    | Keep
    | Forget
    | Reserve
    | Append
    | Claim
    | Signal
    | Cancel
    | Renew
    | LetGo
    | WorkerDied
    | WakeDue
    | Speak
    | Prune
)


@dataclass(slots=True)
class Commit:
    """What one commit changed, for those in this process who want to know."""

    events: list[Recorded] = field(default_factory=list)
    roots: dict[str, str] = field(default_factory=dict)
    queued: bool = False
    due: list[int] = field(default_factory=list)
    signalled: set[str] = field(default_factory=set)
    spoken: list[Speak] = field(default_factory=list)


class Store(Protocol):
    """Rows and journals, the same on every database."""

    url: str
    shared: bool
    """Whether other processes can be on the same database."""

    @property
    def commits(self) -> int:
        """How many commits there were in this process."""

    def on_commit(self, listener: Callable[[Commit], None]) -> None: ...

    async def submit(self, write: Submit) -> str: ...
    async def post(self, write: Post) -> Posted | None: ...
    async def rename(self, write: Rename) -> None: ...
    async def drop(self, write: Drop) -> dict[str, Status]: ...
    async def purge(self, write: Purge) -> Pruned | None: ...
    async def keep(self, write: Keep) -> None: ...
    async def forget(self, write: Forget) -> None: ...
    async def reserve(self, write: Reserve) -> bool: ...
    async def append(self, write: Append) -> Appended | None: ...
    async def claim(self, write: Claim) -> list[Claimed]: ...
    async def signal(self, write: Signal) -> int: ...
    async def cancel(self, write: Cancel) -> dict[str, Status]: ...
    async def renew(self, write: Renew) -> dict[str, tuple[int, int]]: ...
    async def let_go(self, write: LetGo) -> None: ...
    async def worker_died(self, write: WorkerDied) -> None: ...
    async def wake_due(self, write: WakeDue) -> bool: ...
    async def speak(self, write: Speak) -> None: ...
    async def prune(self, write: Prune) -> Pruned: ...

    async def run(self, run_id: str) -> RunRow | None: ...
    async def runs(
        self,
        *,
        root_id: str | None = None,
        status: str | None = None,
        owner: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[RunRow]: ...
    async def ids_like(self, table: str, text: str, limit: int) -> list[str]: ...
    async def tree(self, root_id: str) -> list[RunRow]: ...
    async def held(self, worker_id: str) -> dict[str, tuple[int, int]]: ...
    async def statuses(self, run_ids: Sequence[str]) -> dict[str, Status]: ...
    async def answered(self, owner: str, answer_key: str, since: int) -> str | None:
        """The newest run that ended since then with an answer that may be given again under that key."""

    async def children(self, parent_id: str) -> list[RunRow]: ...
    async def thread(self, thread_id: str) -> ThreadRow | None: ...
    async def threads(
        self, *, owner: str | None = None, before: ThreadRow | None = None, limit: int = 50
    ) -> list[ThreadRow]:
        """Those that something was said in last, first; with `before`, those that come after that one."""

    async def dropped(self) -> list[str]: ...
    async def message(self, message_id: str) -> MessageRow | None: ...
    async def messages(self, thread_id: str, after: MessageRow | None = None, limit: int = 500) -> list[MessageRow]:
        """In the order in which they were said, by the database's time; with `after`, those after that one."""

    async def branch(self, message_id: str) -> list[MessageRow]:
        """A message and all above it, in no order: as much as there is, also of a thread that is broken."""

    async def path(self, message_id: str) -> list[MessageRow]:
        """The same without what they say."""

    async def latest(self, thread_id: str) -> str | None:
        """The newest message of a thread."""

    async def idle_in(self, thread_id: str) -> list[str]:
        """The runs of a thread's trees that nobody runs and that have not ended, deepest first."""

    async def saying(
        self, text: str, *, owner: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[MessageRow]:
        """Messages whose stored parts have a text in them, newest first; with `before`, those with a lower id."""

    async def replies(self, thread_id: str, message_id: str | None) -> list[MessageRow]:
        """What hangs from a message, in order; with None, what begins the thread."""

    async def holds(self, owner: str, uris: Sequence[str]) -> dict[str, int]:
        """Which of these files are an owner's, and their sizes."""

    async def orphans(self, before: int) -> dict[str, bool]:
        """Files that became nobody's before a time, and whether they are somebody's again."""

    async def events(self, run_id: str, after: int = 0, limit: int = 500) -> list[Recorded]: ...
    async def tree_events(self, root_id: str, after: int = 0, limit: int = 500) -> list[Recorded]: ...
    async def events_of(self, run_ids: Sequence[str], types: Sequence[str]) -> list[Recorded]:
        """The events of some types of some runs, run by run."""

    async def alive(self, root_id: str) -> int:
        """How many runs of a tree have not ended."""

    async def last_event(self, run_id: str) -> Recorded | None: ...
    async def signals(self, run_id: str, after: int) -> list[SignalRow]: ...
    async def paused(self, run_id: str, upto: int) -> bool: ...
    async def open_turn(self, run_id: str) -> OpenTurn | None: ...
    async def open_turns(self, root_id: str) -> dict[str, OpenTurn]: ...
    async def tickets(self, *, root_id: str | None = None, status: str | None = None) -> list[TicketRow]: ...
    async def ticket(self, ticket_id: str) -> TicketRow | None: ...
    async def unseen_requirements(self, seen: Sequence[str], root_id: str | None = None) -> dict[str, str]: ...
    async def requirement(self, digest: str) -> str | None: ...
    async def definition(self, digest: str) -> str | None: ...
    async def workers(self) -> list[WorkerRow]: ...
    async def busy(self) -> dict[str, int]: ...
    async def ahead(self, row: RunRow) -> dict[int, int]: ...
    async def owner_load(self, owner: str) -> tuple[int, int | None]: ...
    async def stats(self) -> Stats: ...
    async def prunable(self, before: int) -> list[str]: ...
    async def expired(self) -> list[str]: ...
    async def now(self) -> int: ...
    async def close(self) -> None: ...
