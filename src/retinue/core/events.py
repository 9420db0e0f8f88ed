"""The closed list of events. A run is its events; everything else is a view of them.

Names are past tense, data is flat. `docs/reference/events.md` is generated from these classes.
A field called `try_` is `try` in JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from math import isfinite
from typing import Any, ClassVar

import msgspec

from retinue.core.messages import AnyPart, File, Message
from retinue.core.outcome import Durability, Effect, Failure, Reason, Status, Usage, Waits
from retinue.core.policy import Policy
from retinue.errors import NotStorable


class EventData:
    """What happened. Each subclass is one type of event."""

    __slots__ = ()
    type: ClassVar[str]


# run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQueued(EventData):
    """The run was accepted and stored."""

    type: ClassVar[str] = "run.queued"
    target: str
    input: object = None
    owner: str = ""
    definition: str | None = None
    durability: Durability = Durability.EFFECTS
    max_minutes: float | None = None
    expires_at: int | None = None
    parent_id: str | None = None
    call_id: str | None = None
    thread_id: str | None = None
    message_id: str | None = None
    source_run_id: str | None = None
    source_seq: int | None = None
    continues: bool = False
    client_tools: tuple[dict[str, object], ...] = ()
    seed: tuple[Message, ...] = ()
    policy: Policy | None = None
    at_node: str | None = None
    again_at: str | None = None
    cache: float | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(EventData):
    """A worker claimed the run for the first time."""

    type: ClassVar[str] = "run.started"
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWaiting(EventData):
    """The run parked: it holds no worker until what it waits for is there."""

    type: ClassVar[str] = "run.waiting"
    reasons: tuple[Waits, ...]
    until: int | None = None
    active_ms: int = 0
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(EventData):
    """A worker claimed the run again; `cause` says why it was there to be claimed."""

    type: ClassVar[str] = "run.resumed"
    worker: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(EventData):
    """The run ended. Always the last event, and the only one of its type. `answer_of` is the earlier run whose answer
    was given again; by `answer_key` this answer may be found in its turn."""

    type: ClassVar[str] = "run.finished"
    status: Status
    reason: Reason
    output: object = None
    recovered: bool = False
    partial: object = None
    error: Failure | None = None
    usage: Usage = Usage()
    unread: tuple[str, ...] = ()
    answer_of: str | None = None
    answer_key: str | None = None
    active_ms: int = 0
    signal: int | None = None


# turn


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(EventData):
    """A model is about to be asked. What it is given of `tools`, `settings` and `instructions` stands here when it is
    not as in the turn before; `notes` are what the run itself says to it, after the hints that came since;
    `results` what agents in the background gave, by their call, before all of that."""

    type: ClassVar[str] = "turn.started"
    turn: int
    model: str
    tools: tuple[str, ...] | None = None
    settings: dict[str, object] | None = None
    instructions: str | None = None
    notes: tuple[str, ...] = ()
    results: dict[str, str] | None = None
    messages: int = 0
    characters: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInterrupted(EventData):
    """The answer broke off; the turn is asked again or the run ends. Readers drop what this try said."""

    type: ClassVar[str] = "turn.interrupted"
    turn: int
    try_: int
    cause: str
    text: str = ""
    thinking: str = ""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponded(EventData):
    """The whole answer of one turn."""

    type: ClassVar[str] = "model.responded"
    turn: int
    try_: int
    parts: tuple[AnyPart, ...]
    model: str
    stop: str = "end"
    usage: Usage = Usage()
    first_token_ms: int | None = None
    total_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetried(EventData):
    """A try failed and the next one follows after `delay_ms`. `usage` is what it cost, by our own count, if it had said
    something."""

    type: ClassVar[str] = "model.retried"
    turn: int
    try_: int
    error: Failure
    delay_ms: int = 0
    model: str = ""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRouted(EventData):
    """A model was chosen for the run, and why."""

    type: ClassVar[str] = "model.routed"
    model: str
    why: str
    usage: Usage = Usage()


# tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(EventData):
    """A step or tool is about to run. It is on disk before a `write` can take effect."""

    type: ClassVar[str] = "tool.started"
    call_id: str
    tool: str
    arguments: object = None
    effect: Effect = Effect.WRITE
    key: str = ""
    try_: int = 1
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(EventData):
    """A step or tool gave its result, or failed; `unknown` says that nobody can tell whether it took effect."""

    type: ClassVar[str] = "tool.finished"
    call_id: str
    ok: bool
    result: object = None
    files: tuple[File, ...] = ()
    error: Failure | None = None
    unknown: bool = False
    checked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRefused(EventData):
    """A call was not made, and why."""

    type: ClassVar[str] = "tool.refused"
    call_id: str
    tool: str
    why: str
    turn: int | None = None


# people


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketOpened(EventData):
    """The run needs a person (or a client program)."""

    type: ClassVar[str] = "ticket.opened"
    ticket_id: str
    kind: Waits
    call_id: str
    title: str = ""
    tool: str = ""
    schema: dict[str, object] | None = None
    arguments: object = None
    expires_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketClosed(EventData):
    """The person decided or answered, or the ticket expired."""

    type: ClassVar[str] = "ticket.closed"
    ticket_id: str
    decision: str
    value: object = None
    message: str = ""
    by: str = ""
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SteerReceived(EventData):
    """A hint from a person, for this turn. One for which that turn does not come stands in the end's `unread`."""

    type: ClassVar[str] = "steer.received"
    text: str
    by: str = ""
    key: str = ""
    turn: int | None = None
    signal: int | None = None


# limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(EventData):
    """A limit was hit."""

    type: ClassVar[str] = "limit.reached"
    reason: Reason
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryStarted(EventData):
    """The grace turn begins."""

    type: ClassVar[str] = "recovery.started"
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFinished(EventData):
    """The grace turn ended."""

    type: ClassVar[str] = "recovery.finished"
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCompacted(EventData):
    """The prompt was shortened. Of the results of the calls in `moved` only the ends stand in it, `read_result` opens
    the rest; `summary` stands for the messages before number `upto` of the run. With `ok` false it failed, and
    nothing is replaced."""

    type: ClassVar[str] = "history.compacted"
    upto: int = 0
    summary: str = ""
    moved: tuple[str, ...] = ()
    ok: bool = True
    problem: str = ""
    usage: Usage = Usage()
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettled(EventData):
    """What a call had reserved was replaced by what it cost."""

    type: ClassVar[str] = "budget.settled"
    reserved_usd: float
    spent_usd: float


# tree


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStarted(EventData):
    """A child run was stored together with this event; `of` is how many items a graph's node has, when this is one."""

    type: ClassVar[str] = "child.started"
    call_id: str
    run_id: str
    target: str
    background: bool = False
    of: int | None = None
    continues: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFinished(EventData):
    """A child run ended. Its output stays with the child."""

    type: ClassVar[str] = "child.finished"
    call_id: str
    run_id: str
    status: Status
    reason: Reason
    recovered: bool = False
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSkipped(EventData):
    """A node of a graph will not run, and why."""

    type: ClassVar[str] = "node.skipped"
    node: str
    why: str


# remote


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAccepted(EventData):
    """The peer took the task; from now on it is re-attached by this id."""

    type: ClassVar[str] = "remote.accepted"
    task_id: str
    context_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteUpdated(EventData):
    """The peer said where its task stands."""

    type: ClassVar[str] = "remote.updated"
    state: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEvent(EventData):
    """The raw step of a run on another platform."""

    type: ClassVar[str] = "platform.event"
    platform: str
    raw: object


# other


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactAdded(EventData):
    """The run made a file."""

    type: ClassVar[str] = "artifact.added"
    uri: str
    media_type: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(EventData):
    """Something to know that stopped nothing. With `definition`, the run goes on with that code."""

    type: ClassVar[str] = "warning"
    code: str
    message: str
    definition: str | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a journal."""

    run_id: str
    seq: int
    root_seq: int
    attempt: int
    at: int
    data: EventData

    @property
    def type(self) -> str:
        return self.data.type


KINDS: dict[str, type[EventData]] = {kind.type: kind for kind in EventData.__subclasses__()}


@dataclass(frozen=True, slots=True)
class Unknown(EventData):
    """An event of a newer release: it can be shown as it is, and no state can be made with it."""

    type: str  # type: ignore[misc]
    data: dict[str, object]


GROUPS: dict[str, tuple[str, ...]] = {
    "run": ("run.queued", "run.started", "run.waiting", "run.resumed", "run.finished"),
    "turn": ("turn.started", "turn.interrupted", "model.responded", "model.retried", "model.routed"),
    "tool": ("tool.started", "tool.finished", "tool.refused"),
    "people": ("ticket.opened", "ticket.closed", "steer.received"),
    "limits": ("limit.reached", "recovery.started", "recovery.finished", "history.compacted", "budget.settled"),
    "tree": ("child.started", "child.finished", "node.skipped"),
    "remote": ("remote.accepted", "remote.updated", "platform.event"),
    "other": ("artifact.added", "warning"),
}


# To and from JSON

_encoder = msgspec.json.Encoder()


def _fields_of(kind: Any) -> tuple[tuple[str, str, object], ...]:
    return tuple((one.name, one.name.rstrip("_"), one.default) for one in fields(kind))


_fields = {kind: _fields_of(kind) for kind in KINDS.values()}
_decoders = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}
_renamed = {name for name, kind in KINDS.items() if any(name != key for name, key, _ in _fields[kind])}


def as_dict(data: EventData) -> dict[str, object]:
    """The event's data by the names of its JSON; what has its default is left out."""
    if isinstance(data, Unknown):
        return data.data
    return {key: value for name, key, default in _fields[type(data)] if (value := getattr(data, name)) != default}


def encode(data: EventData) -> bytes:
    """The event's data as JSON."""
    try:
        return _checked(_encoder.encode(plain := as_dict(data)), plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotStorable(what=f"The data of {data.type}", problem=str(error)) from None


def decode(type: str, data: bytes | str) -> EventData:
    """The event that `encode` wrote. Unknown fields are left aside, so newer writers can be read."""
    if type not in KINDS:
        return Unknown(type, msgspec.json.decode(data))
    if type in _renamed:
        raw = msgspec.json.decode(data)
        raw["try_"] = raw.pop("try", 1)
        return msgspec.convert(raw, KINDS[type])
    return _decoders[type].decode(data)


def encode_json(value: object, what: str) -> bytes:
    """A value as JSON, or an error that names it."""
    try:
        return _checked(_encoder.encode(value), value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotStorable(what=what, problem=str(error)) from None


def _checked(encoded: bytes, value: object) -> bytes:
    """The encoder writes NaN and infinities as null; who reads them back would get None."""
    if b"null" in encoded:
        _refuse_nan(value)
    return encoded


def _refuse_nan(value: object) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    if isinstance(value, dict):
        for item in value.values():
            _refuse_nan(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            _refuse_nan(item)
    elif isinstance(value, msgspec.Struct):
        _refuse_nan(msgspec.structs.asdict(value))
    elif is_dataclass(value):
        _refuse_nan([getattr(value, one.name) for one in fields(value)])
