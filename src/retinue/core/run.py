"""A run's state is the fold of its events. Nothing else decides what a run is.

The fold changes the state in place: copying it for each event would make a long run quadratic.
An event that cannot follow what is recorded raises `IllegalEvent` and leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from retinue.core import events as e
from retinue.core.messages import Data, File, Message, Text, ToolCall, ToolResult, text_of
from retinue.core.outcome import Effect, Failure, Outcome, Reason, Status, Usage, Waits
from retinue.errors import IllegalEvent, NewerEvent

CHARACTERS_OF_A_TOKEN = 4
UNKNOWN, INTERRUPTED = "unknown", "interrupted"
"""Kinds of errors of calls that have no result of their own, because their run was stopped: a write may have taken
effect."""
NEVER_ENDED = (
    "The run ended before this call had a result. It was not repeated, and nobody can tell whether it took effect."
)


@dataclass(slots=True)
class Call:
    """A step or tool call, and what is known of it."""

    call_id: str
    tool: str
    arguments: object
    effect: Effect
    key: str
    try_: int
    attempt: int
    finished: bool = False
    ok: bool = False
    result: object = None
    files: tuple[File, ...] = ()
    error: Failure | None = None
    unknown: bool = False
    asks: bool = False
    """It has asked a person before it did anything, and is called again with the answer."""


@dataclass(slots=True)
class Ticket:
    """Something that a person is asked."""

    ticket_id: str
    kind: Waits
    call_id: str
    expires_at: int | None
    schema: dict[str, object] | None = None
    tool: str = ""
    arguments: object = None
    decision: str | None = None
    value: object = None
    message: str = ""


@dataclass(slots=True)
class Child:
    """A child run, as its parent knows it."""

    call_id: str
    run_id: str
    target: str
    background: bool
    of: int | None = None
    continues: str | None = None
    status: Status = Status.QUEUED
    reason: Reason | None = None
    recovered: bool = False


@dataclass(slots=True)
class RunState:
    """What the events of a run say together."""

    run_id: str
    seq: int = 0
    attempt: int = 0
    status: Status | None = None
    started: bool = False
    started_at: int = 0
    asked_ms: int = 0
    """How long it was parked for people alone."""
    parked_at: int | None = None
    queued: e.RunQueued | None = None
    definition: str | None = None
    outcome: Outcome | None = None
    waits_for: tuple[Waits, ...] = ()
    until: int | None = None
    active_ms: int = 0
    counts: bool = False
    last_at: int = 0
    signals_seen: int = 0
    usage: Usage = Usage()
    turn: int = 0
    try_: int = 0
    turn_open: bool = False
    broken_off: bool = False
    calls: dict[str, Call] = field(default_factory=dict)
    open_calls: dict[str, Call] = field(default_factory=dict)
    tickets: dict[str, Ticket] = field(default_factory=dict)
    ticket_of_call: dict[str, Ticket] = field(default_factory=dict)
    open_tickets: dict[str, Ticket] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)
    open_children: dict[str, Child] = field(default_factory=dict)
    settled: list[tuple[str, int]] = field(default_factory=list)
    """Call ids of children that ended and of tickets that were closed, in this order, each with its time."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Nodes of a graph that do not run, and why."""
    transcript: list[Message] = field(default_factory=list)
    input_at: int | None = None
    """Where in it the input stands, when it is not in a thread."""
    asked: dict[str, ToolCall] = field(default_factory=dict)
    """The calls of the last answer, in its order."""
    results: dict[str, ToolResult] = field(default_factory=dict)
    unheard: list[str] = field(default_factory=list)
    """Calls of background children that have ended, and of which the model has not been told."""
    hint_keys: set[str] = field(default_factory=set)
    """Of hints that are said only once."""
    hints: list[str] = field(default_factory=list)
    """What people said since the last turn began."""
    steered: bool = False
    """Whether people said anything at all."""
    silent_turns: int = 0
    """How many answers in a row asked for nothing."""
    prompt_characters: int = 0
    prompt_tokens: int = 0
    model: str = ""
    """Who was chosen for the run."""
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    settings: dict[str, object] | None = None
    summary: str = ""
    summarised: int = 0
    """How many messages the summary stands for."""
    moved: set[str] = field(default_factory=set)
    """Calls of whose results the prompt has only the ends."""
    compacted_at: int = 0
    """How many tokens the prompt had when it had been shortened last, or could not be."""
    recovery: Reason | None = None
    recovery_turn: int = 0
    recovery_over: bool = False
    limit: str = ""
    """Which limit was reached last, in words."""
    said: str = ""
    """The last text that a model gave, whole or not."""
    warned: set[tuple[str, str]] = field(default_factory=set)

    @property
    def messages(self) -> list[Message]:
        """What was said so far. Results of one turn's calls are one message, in the order of the calls."""
        return [*self.transcript, *_said_by_tools(self)]

    def next_messages(self, notes: tuple[str, ...], results: Iterable[str] = ()) -> list[Message]:
        """What the next turn adds to what was said: results of calls, what people said, what the run itself says."""
        said = tuple(Text(text=text) for text in (*results, *self.hints, *notes))
        return [*_said_by_tools(self), *([Message(role="user", parts=said)] if said else [])]

    @property
    def since_asked(self) -> list[Message]:
        """What was said since the last prompt: its answer, and what came of it."""
        return [*(message for message in self.transcript[-1:] if message.role == "model"), *self.next_messages(())]

    @property
    def silent(self) -> bool:
        """Whether the last that was said is an answer that asks for nothing."""
        return not self.asked and bool(self.transcript) and self.transcript[-1].role == "model"

    @property
    def unanswered(self) -> list[ToolCall]:
        """The calls of the last answer that have no result yet."""
        return [call for call_id, call in self.asked.items() if call_id not in self.results]

    def cut_off(self, call_id: str) -> bool:
        """Whether a call has no result of its own: its run was stopped, or nobody can tell what became of it."""
        call = self.calls.get(call_id)
        return bool(call and call.error and (call.unknown or call.error.kind == INTERRUPTED))

    def warned_of(self, code: str) -> bool:
        return any(code == warned for warned, _ in self.warned)

    def go_on_from(self, past: RunState) -> None:
        """Begin with what another run had said and heard, and with the calls that it left without a result."""
        self.transcript, self.asked, self.hints = list(past.transcript), dict(past.asked), list(past.hints)
        self.results = {call_id: said for call_id, said in past.results.items() if not past.cut_off(call_id)}
        self.summary, self.summarised, self.moved = past.summary, past.summarised, set(past.moved)
        self.prompt_characters, self.prompt_tokens = past.prompt_characters, past.prompt_tokens
        self.model, self.tools, self.input_at = past.model, past.tools, past.input_at

    def close_past(self) -> None:
        """End what it goes on from, so that something new can be said: what has no result there gets none any more."""
        for call in self.unanswered:
            self.results[call.call_id] = ToolResult(call_id=call.call_id, ok=False, result=NEVER_ENDED)
        self.transcript += self.next_messages(())
        self.asked, self.results, self.hints = {}, {}, []

    @property
    def begun(self) -> bool:
        """Whether its code has left anything in the journal."""
        return bool(self.calls or self.children or self.tickets or self.turn)

    @property
    def terminal(self) -> bool:
        return self.outcome is not None

    def apply(self, event: e.Event) -> RunState:
        """Take one more event."""
        refuse = _Refusal(event)
        if isinstance(event.data, e.Unknown):
            raise NewerEvent(run_id=self.run_id, type=event.type)
        if event.run_id != self.run_id:
            refuse(f"it is of run {event.run_id}.")
        if event.seq != self.seq + 1:
            refuse(f"seq {self.seq + 1} was expected.")
        if self.outcome is not None:
            refuse("the run has ended.")
        if self.queued is None and type(event.data) is not e.RunQueued:
            refuse("a journal begins with run.queued.")
        if type(event.data) not in CLAIMS and event.attempt != self.attempt:
            refuse(f"attempt {self.attempt} holds the run.")
        if self.status is not Status.RUNNING and type(event.data) not in BETWEEN:
            refuse(f"the run is {self.status}.")
        _APPLY[type(event.data)](self, event, event.data, refuse)
        self.seq, self.attempt = event.seq, event.attempt
        self._count_active(event)
        return self

    def _count_active(self, event: e.Event) -> None:
        """The clock runs while the run does and no person is asked. What a park or an end says of it is exact; the
        rest is summed."""
        said = event.data.active_ms if isinstance(event.data, e.RunWaiting | e.RunFinished) else 0
        if said:
            self.active_ms = said
        elif self.counts and type(event.data) not in CLAIMS and event.at > self.last_at:
            self.active_ms += event.at - self.last_at
        self.counts = self.status is Status.RUNNING and not self.open_tickets
        self.last_at = event.at


PEOPLE = frozenset({Waits.APPROVAL, Waits.INPUT, Waits.CLIENT_TOOL, Waits.AUTH, Waits.PAUSED})
CLAIMS = (e.RunStarted, e.RunResumed, e.RunFinished)
BETWEEN = (e.RunQueued, e.RunStarted, e.RunResumed, e.RunFinished)


@dataclass(slots=True)
class _Refusal:
    event: e.Event

    def __call__(self, problem: str) -> NoReturn:
        raise IllegalEvent(seq=self.event.seq, type=self.event.type, problem=problem)


def fold(run_id: str, events: Iterable[e.Event], past: RunState | None = None) -> RunState:
    """The state of a run from the events of its journal; with `past`, of one that goes on from there."""
    state = RunState(run_id)
    if past:
        state.go_on_from(past)
    for event in events:
        state.apply(event)
    return state


# One function for each type. Each checks everything before it changes anything.


def _queued(state: RunState, event: e.Event, data: e.RunQueued, refuse: _Refusal) -> None:
    if state.queued is not None:
        refuse("the run is queued already.")
    state.status, state.queued, state.definition = Status.QUEUED, data, data.definition
    if data.continues:
        state.close_past()
    if data.message_id is not None or (state.transcript and not data.continues):
        return  # what it answers is in its thread, or in what it goes on from
    if data.seed:
        state.transcript += data.seed
        state.input_at = len(state.transcript) - 1
        return
    if data.input is not None:
        state.input_at = len(state.transcript)
    if isinstance(data.input, str):
        state.transcript.append(Message(role="user", parts=(Text(text=data.input),)))
    elif data.input is not None:
        state.transcript.append(Message(role="user", parts=(Data(data=data.input),)))


def _started(state: RunState, event: e.Event, data: e.RunStarted, refuse: _Refusal) -> None:
    if state.started:
        refuse("the run was started before; a later claim records run.resumed.")
    if event.attempt <= state.attempt:
        refuse("a claim begins a new attempt.")
    state.status, state.started, state.started_at = Status.RUNNING, True, event.at


def _resumed(state: RunState, event: e.Event, data: e.RunResumed, refuse: _Refusal) -> None:
    if not state.started:
        refuse("the run was never started.")
    if event.attempt <= state.attempt:
        refuse("a claim begins a new attempt.")
    if state.parked_at is not None:
        state.asked_ms += max(0, event.at - state.parked_at)
        state.parked_at = None
    state.status, state.waits_for, state.until = Status.RUNNING, (), None


def _waiting(state: RunState, event: e.Event, data: e.RunWaiting, refuse: _Refusal) -> None:
    if not data.reasons:
        refuse("it says not what for.")
    for call in state.open_calls.values():
        if call.effect is Effect.WRITE and not call.asks:
            refuse(f"the write call {call.call_id} is under way.")
    if state.turn_open and not state.broken_off:
        refuse("a turn is open.")
    _take_signal(state, data.signal, refuse)
    state.status, state.waits_for, state.until = Status.WAITING, data.reasons, data.until
    state.parked_at = event.at if PEOPLE.issuperset(data.reasons) else None


def _finished(state: RunState, event: e.Event, data: e.RunFinished, refuse: _Refusal) -> None:
    if not data.status.terminal:
        refuse(f"{data.status} is no end.")
    if state.status is Status.RUNNING:
        if event.attempt != state.attempt:
            refuse(f"attempt {state.attempt} holds the run.")
    elif event.attempt <= state.attempt:
        refuse("who ends a run that does not run claims it first.")
    if state.open_calls:
        refuse(f"calls have no result: {', '.join(state.open_calls)}.")
    if state.turn_open and not state.broken_off:
        refuse("a turn is open.")
    if data.output is not None and data.status is not Status.COMPLETED:
        refuse("only a completed run has an output.")
    _take_signal(state, data.signal, refuse)
    state.status, state.waits_for, state.until = data.status, (), None
    state.open_tickets.clear()
    state.open_children.clear()
    state.outcome = outcome_in(data)


def outcome_in(data: e.RunFinished) -> Outcome:
    """How the run ended, without what only its journal is for."""
    return Outcome(
        status=data.status,
        reason=data.reason,
        output=data.output,
        recovered=data.recovered,
        partial=data.partial,
        error=data.error,
        usage=data.usage,
        answer_of=data.answer_of,
    )


def _turn_started(state: RunState, event: e.Event, data: e.TurnStarted, refuse: _Refusal) -> None:
    if state.turn_open:
        refuse(f"turn {state.turn} is open.")
    if data.turn != state.turn + 1:
        refuse(f"turn {state.turn + 1} was expected.")
    if owed := state.unanswered:
        refuse(f"calls have no result: {', '.join(call.call_id for call in owed)}.")
    state.turn, state.try_, state.turn_open, state.broken_off = data.turn, 1, True, False
    state.prompt_characters = data.characters
    heard = data.results or {}
    state.transcript += state.next_messages(data.notes, heard.values())
    state.unheard = [call_id for call_id in state.unheard if call_id not in heard]
    state.asked, state.results, state.hints = {}, {}, []
    state.instructions = state.instructions if data.instructions is None else data.instructions
    state.tools = state.tools if data.tools is None else data.tools
    state.settings = state.settings if data.settings is None else data.settings


def _in_open_turn(state: RunState, turn: int, try_: int, refuse: _Refusal) -> None:
    if not state.turn_open:
        refuse("no turn is open.")
    if (turn, try_) != (state.turn, state.try_):
        refuse(f"turn {state.turn}, try {state.try_} was expected.")


def _turn_interrupted(state: RunState, event: e.Event, data: e.TurnInterrupted, refuse: _Refusal) -> None:
    _in_open_turn(state, data.turn, data.try_, refuse)
    state.try_ += 1
    state.broken_off = True
    state.usage += data.usage
    state.said = data.text or state.said


def _model_retried(state: RunState, event: e.Event, data: e.ModelRetried, refuse: _Refusal) -> None:
    _in_open_turn(state, data.turn, data.try_, refuse)
    state.try_ += 1
    state.broken_off = False
    state.usage += data.usage


def _model_responded(state: RunState, event: e.Event, data: e.ModelResponded, refuse: _Refusal) -> None:
    _in_open_turn(state, data.turn, data.try_, refuse)
    state.turn_open = False
    state.usage += data.usage
    state.prompt_tokens = data.usage.input_tokens
    state.said = text_of(data.parts) or state.said
    state.transcript.append(Message(role="model", parts=data.parts))
    state.asked = {part.call_id: part for part in data.parts if isinstance(part, ToolCall)}
    state.silent_turns = 0 if state.asked else state.silent_turns + 1


def _said_by_tools(state: RunState) -> list[Message]:
    """What the calls of the last turn gave so far."""
    said = tuple(state.results[call_id] for call_id in state.asked if call_id in state.results)
    return [Message(role="tool", parts=said)] if said else []


def _model_routed(state: RunState, event: e.Event, data: e.ModelRouted, refuse: _Refusal) -> None:
    state.model, state.usage = data.model, state.usage + data.usage


def _tool_started(state: RunState, event: e.Event, data: e.ToolStarted, refuse: _Refusal) -> None:
    before = state.calls.get(data.call_id)
    if before is not None and before.finished:
        refuse(f"call {data.call_id} has its result.")
    if before is not None and before.attempt >= event.attempt and not before.asks:
        refuse(f"call {data.call_id} is under way.")
    if data.try_ != (before.try_ + 1 if before else 1):
        refuse(f"call {data.call_id} has had {before.try_ if before else 0} tries.")
    call = Call(data.call_id, data.tool, data.arguments, data.effect, data.key, data.try_, event.attempt)
    state.calls[data.call_id] = state.open_calls[data.call_id] = call


def _tool_finished(state: RunState, event: e.Event, data: e.ToolFinished, refuse: _Refusal) -> None:
    if data.call_id not in state.open_calls:
        refuse(f"call {data.call_id} is not under way.")
    if data.ok and (data.unknown or data.error is not None):
        refuse("a success has no error.")
    call = state.open_calls.pop(data.call_id)
    call.finished, call.ok, call.result = True, data.ok, data.result
    call.error, call.unknown, call.files = data.error, data.unknown, data.files
    said = data.error.message if data.error and data.result is None else data.result
    _add_result(state, ToolResult(call_id=data.call_id, ok=data.ok, result=said, files=data.files))


def _tool_refused(state: RunState, event: e.Event, data: e.ToolRefused, refuse: _Refusal) -> None:
    if data.call_id in state.calls:
        refuse(f"call {data.call_id} was made.")
    error = Failure(kind="refused", message=data.why)
    call = Call(data.call_id, data.tool, None, Effect.READ, "", 1, event.attempt, finished=True, error=error)
    state.calls[data.call_id] = call
    _add_result(state, ToolResult(call_id=data.call_id, ok=False, result=data.why))


def _add_result(state: RunState, result: ToolResult) -> None:
    """What the model asked for, it is told; what code did besides is no part of the conversation."""
    if result.call_id in state.asked:
        state.results[result.call_id] = result


def _ticket_opened(state: RunState, event: e.Event, data: e.TicketOpened, refuse: _Refusal) -> None:
    if data.ticket_id in state.tickets:
        refuse(f"ticket {data.ticket_id} was opened before.")
    ticket = Ticket(data.ticket_id, data.kind, data.call_id, data.expires_at, data.schema, data.tool, data.arguments)
    state.tickets[data.ticket_id] = state.open_tickets[data.ticket_id] = ticket
    state.ticket_of_call[data.call_id] = ticket
    if asking := state.open_calls.get(asker_of(data.call_id)):
        asking.asks = True


def asker_of(call_id: str) -> str:
    """The call that asks a question, from the call id of the question: `CALL?2`."""
    return call_id.rpartition("?")[0]


def _ticket_closed(state: RunState, event: e.Event, data: e.TicketClosed, refuse: _Refusal) -> None:
    if data.ticket_id not in state.open_tickets:
        refuse(f"ticket {data.ticket_id} is not open.")
    _take_signal(state, data.signal, refuse)
    ticket = state.open_tickets.pop(data.ticket_id)
    ticket.decision, ticket.value, ticket.message = data.decision, data.value, data.message
    state.settled.append((ticket.call_id, event.at))


def _steer_received(state: RunState, event: e.Event, data: e.SteerReceived, refuse: _Refusal) -> None:
    _take_signal(state, data.signal, refuse)
    state.hints.append(data.text)
    state.hint_keys.add(data.key)
    state.steered = True


def _recovery_started(state: RunState, event: e.Event, data: e.RecoveryStarted, refuse: _Refusal) -> None:
    if state.recovery:
        refuse("there is one grace turn, and it was begun.")
    if state.turn_open and not state.broken_off:
        refuse(f"turn {state.turn} is open.")
    state.recovery, state.turn_open, state.recovery_turn = data.reason, False, state.turn + 1


def _recovery_finished(state: RunState, event: e.Event, data: e.RecoveryFinished, refuse: _Refusal) -> None:
    state.recovery_over = True


def _limit_reached(state: RunState, event: e.Event, data: e.LimitReached, refuse: _Refusal) -> None:
    state.limit = data.limit


def _compacted(state: RunState, event: e.Event, data: e.HistoryCompacted, refuse: _Refusal) -> None:
    if data.upto > len(state.transcript):
        refuse(f"there are {len(state.transcript)} messages.")
    state.usage += data.usage
    state.compacted_at = data.tokens_after or data.tokens_before
    if not data.ok:
        return
    state.moved.update(data.moved)
    state.prompt_tokens = data.tokens_after or state.prompt_tokens
    if data.summary:
        state.summary, state.summarised = data.summary, data.upto


def _child_started(state: RunState, event: e.Event, data: e.ChildStarted, refuse: _Refusal) -> None:
    if data.call_id in state.children:
        refuse(f"call {data.call_id} has its child.")
    child = Child(data.call_id, data.run_id, data.target, data.background, data.of, data.continues)
    state.children[data.call_id] = state.open_children[data.call_id] = child


def _child_finished(state: RunState, event: e.Event, data: e.ChildFinished, refuse: _Refusal) -> None:
    child = state.open_children.get(data.call_id)
    if child is None or child.run_id != data.run_id:
        refuse(f"no such child runs as {data.call_id}.")
    if not data.status.terminal:
        refuse(f"{data.status} is no end.")
    _take_signal(state, data.signal, refuse)
    del state.open_children[data.call_id]
    child.status, child.reason, child.recovered = data.status, data.reason, data.recovered
    state.settled.append((data.call_id, event.at))
    if child.background:
        state.unheard.append(data.call_id)


def _node_skipped(state: RunState, event: e.Event, data: e.NodeSkipped, refuse: _Refusal) -> None:
    state.skipped[data.node] = data.why


def _warned(state: RunState, event: e.Event, data: e.Warned, refuse: _Refusal) -> None:
    _take_signal(state, data.signal, refuse)
    state.definition = data.definition or state.definition
    state.warned.add((data.code, data.message))


def _noted(state: RunState, event: e.Event, data: e.EventData, refuse: _Refusal) -> None:
    """Recorded for people; changes nothing."""


def _take_signal(state: RunState, signal: int | None, refuse: _Refusal) -> None:
    """Signals are consumed in order; an event that names one says that all before it were taken too."""
    if signal is None:
        return
    if signal <= state.signals_seen:
        refuse(f"signal {state.signals_seen} was taken already.")
    state.signals_seen = signal


_APPLY: dict[type[e.EventData], Callable[[RunState, e.Event, Any, _Refusal], None]] = {
    e.RunQueued: _queued,
    e.RunStarted: _started,
    e.RunWaiting: _waiting,
    e.RunResumed: _resumed,
    e.RunFinished: _finished,
    e.TurnStarted: _turn_started,
    e.TurnInterrupted: _turn_interrupted,
    e.ModelResponded: _model_responded,
    e.ModelRetried: _model_retried,
    e.ModelRouted: _model_routed,
    e.ToolStarted: _tool_started,
    e.ToolFinished: _tool_finished,
    e.ToolRefused: _tool_refused,
    e.TicketOpened: _ticket_opened,
    e.TicketClosed: _ticket_closed,
    e.SteerReceived: _steer_received,
    e.LimitReached: _limit_reached,
    e.RecoveryStarted: _recovery_started,
    e.RecoveryFinished: _recovery_finished,
    e.HistoryCompacted: _compacted,
    e.BudgetSettled: _noted,
    e.ChildStarted: _child_started,
    e.ChildFinished: _child_finished,
    e.NodeSkipped: _node_skipped,
    e.RemoteAccepted: _noted,
    e.RemoteUpdated: _noted,
    e.PlatformEvent: _noted,
    e.ArtifactAdded: _noted,
    e.Warned: _warned,
}


def closing(
    state: RunState, cause: str, text: str = "", thinking: str = "", lost: Usage | None = None
) -> list[e.EventData]:
    """What must be recorded before a run can end while calls or a turn are open: nothing is left without a result.

    `text` and `thinking` are what the open turn has said so far, `lost` is what that cost. Of a turn that broke off
    before and has said nothing since, there is nothing more to record.
    """
    ends: list[e.EventData] = []
    if state.turn_open and (text or thinking or not state.broken_off):
        ends.append(interruption(state, cause, text, thinking, lost))
    for call in state.open_calls.values():
        unknown = call.effect is Effect.WRITE and not call.asks
        error = Failure(kind=UNKNOWN if unknown else INTERRUPTED, message=f"interrupted: {cause}")
        ends.append(e.ToolFinished(call_id=call.call_id, ok=False, error=error, unknown=unknown))
    return ends


def interruption(state: RunState, cause: str, text: str, thinking: str, lost: Usage | None = None) -> e.TurnInterrupted:
    """The open turn broke off; what it cost is estimated, since nobody said."""
    lost = lost or Usage(
        calls=1,
        input_tokens=state.prompt_characters // CHARACTERS_OF_A_TOKEN,
        output_tokens=(len(text) + len(thinking)) // CHARACTERS_OF_A_TOKEN,
        estimated=True,
    )
    return e.TurnInterrupted(turn=state.turn, try_=state.try_, cause=cause, text=text, thinking=thinking, usage=lost)
