"""Legal journals. What may come next is decided here by a memory of its own, which knows nothing of the fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hypothesis import strategies as st

from retinue.core import events as e
from retinue.core.messages import AnyPart, Text, ToolCall
from retinue.core.outcome import Effect, Failure, Reason, Status, Usage, Waits
from tests.core.values import json_values, texts

RUN_ID = "run_1"
ENDS = (Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT)
PEOPLE = (Waits.APPROVAL, Waits.INPUT, Waits.CLIENT_TOOL, Waits.AUTH)
usages = st.builds(Usage, calls=st.just(1), input_tokens=st.integers(0, 9), cost_usd=st.sampled_from([0.0, 0.25]))
notes = st.sampled_from(
    [
        e.ModelRouted(model="test", why="cheap", usage=Usage(calls=1, input_tokens=3)),
        e.LimitReached(reason=Reason.BUDGET, limit="max_tokens"),
        e.RecoveryFinished(ok=True),
        e.BudgetSettled(reserved_usd=0.5, spent_usd=0.25),
        e.NodeSkipped(node="review", why="not needed"),
        e.RemoteAccepted(task_id="task-1"),
        e.RemoteUpdated(state="working"),
        e.PlatformEvent(platform="adk", raw={"step": 1}),
        e.ArtifactAdded(uri="file:1", media_type="text/plain"),
        e.Warned(code="slow", message="It takes long."),
    ]
)


@dataclass(frozen=True)
class Open:
    """A call that has no result yet."""

    tool: str
    effect: Effect
    tries: int
    attempt: int
    asks: bool = False


@dataclass
class Draft:
    """A journal as far as it is written, and what its writer must remember to go on."""

    events: tuple[e.Event, ...] = ()
    phase: Literal["new", "queued", "running", "parked", "over"] = "new"
    attempt: int = 0
    at: int = 1_700_000_000_000
    signal: int = 0
    recovering: bool = False
    turn: int = 0
    try_: int = 0
    turn_open: bool = False
    broken_off: bool = False
    messages: int = 0
    """In the transcript. What calls gave and people said comes to it with the next turn."""
    said_since: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    owed: set[str] = field(default_factory=set)
    open_calls: dict[str, Open] = field(default_factory=dict)
    ended_calls: dict[str, bool] = field(default_factory=dict)
    open_tickets: list[str] = field(default_factory=list)
    closed_tickets: list[str] = field(default_factory=list)
    open_children: dict[str, str] = field(default_factory=dict)
    ended_children: dict[str, str] = field(default_factory=dict)

    def snapshot(self) -> Draft:
        kept: dict[str, Any] = {
            name: value.copy() for name, value in vars(self).items() if isinstance(value, list | set | dict)
        }
        return replace(self, **kept)

    def then(self, data: e.EventData, attempt: int | None = None) -> e.Event:
        """The event that this would be if it came next."""
        seq = len(self.events) + 1
        return e.Event(RUN_ID, seq, seq, self.attempt if attempt is None else attempt, self.at, data)

    def write(self, data: e.EventData) -> None:
        self.events += (self.then(data),)

    @property
    def writes_open(self) -> bool:
        return any(call.effect is Effect.WRITE and not call.asks for call in self.open_calls.values())

    def moves(self) -> Sequence[Callable[[st.DrawFn], e.EventData]]:
        """All that may happen next."""
        if self.phase == "new":
            return [self.queue]
        if self.phase == "queued":
            return [*[self.start] * 5, self.give_up]
        if self.phase == "parked":
            return [self.resume] if self.open_calls else [self.resume, self.resume, self.give_up]
        if self.phase == "over":
            return []
        may = {
            self.start_turn: not self.turn_open and not self.owed,
            self.end_turn: self.turn_open,
            self.start_asked: bool(self.asked),
            self.end_call: bool(self.open_calls),
            self.start_step: True,
            self.repeat_call: any(call.attempt < self.attempt or call.asks for call in self.open_calls.values()),
            self.lose_worker: True,
            self.refuse_asked: bool(self.asked),
            self.refuse_step: True,
            self.break_turn: self.turn_open,
            self.retry_turn: self.turn_open,
            self.close_ticket: bool(self.open_tickets),
            self.open_ticket: True,
            self.ask: any(not call.asks for call in self.open_calls.values()),
            self.end_child: bool(self.open_children),
            self.start_child: True,
            self.note: True,
            self.recover: not self.recovering and (not self.turn_open or self.broken_off),
            self.compact: True,
            self.steer: True,
            self.warn: True,
            self.park: (not self.turn_open or self.broken_off) and not self.writes_open,
            self.finish: not self.open_calls and (not self.turn_open or self.broken_off),
        }
        return [move for move, legal in may.items() if legal]

    # the run

    def queue(self, draw: st.DrawFn) -> e.EventData:
        self.phase = "queued"
        given = draw(st.none() | texts | json_values)
        self.messages = int(given is not None)
        return e.RunQueued(target="function:shop:refund", input=given)

    def claim(self, draw: st.DrawFn) -> None:
        """A claim may die before it says anything, so attempts can leave out numbers."""
        self.attempt += draw(st.sampled_from([1, 1, 1, 2]))
        self.phase = "running"

    def start(self, draw: st.DrawFn) -> e.EventData:
        self.claim(draw)
        return e.RunStarted(worker=f"w{self.attempt}")

    def resume(self, draw: st.DrawFn) -> e.EventData:
        self.claim(draw)
        return e.RunResumed(worker=f"w{self.attempt}", cause=draw(st.sampled_from(["timer", "signal"])))

    def lose_worker(self, draw: st.DrawFn) -> e.EventData:
        self.claim(draw)
        return e.RunResumed(worker=f"w{self.attempt}", cause=draw(st.sampled_from(["crash", "released"])))

    def give_up(self, draw: st.DrawFn) -> e.EventData:
        self.claim(draw)
        self.phase = "over"
        return e.RunFinished(status=Status.CANCELLED, reason=Reason.CANCELLED, signal=self.hear(draw))

    def park(self, draw: st.DrawFn) -> e.EventData:
        self.phase = "parked"
        reasons = draw(st.lists(st.sampled_from(list(Waits)), min_size=1, max_size=2, unique=True))
        return e.RunWaiting(reasons=tuple(reasons), until=self.at + 60_000, signal=self.hear(draw))

    def finish(self, draw: st.DrawFn) -> e.EventData:
        self.phase = "over"
        status, value = draw(st.sampled_from(ENDS)), draw(json_values)
        if status is Status.COMPLETED:
            return e.RunFinished(status=status, reason=Reason.GOAL, output=value)
        return e.RunFinished(status=status, reason=Reason.INTERNAL, partial=value, signal=self.hear(draw))

    def hear(self, draw: st.DrawFn) -> int | None:
        """The signal that an event takes, if it takes one."""
        further = draw(st.sampled_from([0, 0, 1, 1, 3]))
        self.signal += further
        return self.signal if further else None

    def note(self, draw: st.DrawFn) -> e.EventData:
        return draw(notes)

    def recover(self, draw: st.DrawFn) -> e.EventData:
        self.recovering, self.turn_open = True, False
        return e.RecoveryStarted(reason=Reason.BUDGET)

    def compact(self, draw: st.DrawFn) -> e.EventData:
        """Of the messages that there are, some are replaced; or it failed."""
        usage, before = draw(usages), draw(st.integers(1, 9))
        if draw(st.booleans()):
            return e.HistoryCompacted(ok=False, problem="no summary", tokens_before=before, usage=usage)
        moved = tuple(draw(st.lists(st.sampled_from(sorted({"none", *self.ended_calls})), max_size=2)))
        upto = draw(st.integers(0, self.messages))
        summary = "so far" if upto else ""
        return e.HistoryCompacted(upto=upto, summary=summary, moved=moved, tokens_after=before, usage=usage)

    def steer(self, draw: st.DrawFn) -> e.EventData:
        self.said_since.add("user")
        return e.SteerReceived(text=draw(texts), by="user:1", signal=self.hear(draw))

    def warn(self, draw: st.DrawFn) -> e.EventData:
        return e.Warned(code="ignored", message="It came too late.", signal=self.hear(draw))

    # turns

    def start_turn(self, draw: st.DrawFn) -> e.EventData:
        self.turn, self.try_, self.turn_open, self.broken_off = self.turn + 1, 1, True, False
        notes = tuple(draw(st.lists(texts, max_size=1)))
        self.messages += len({*self.said_since, *("user" for _ in notes)})
        self.asked, self.said_since = [], set()
        names = draw(st.none() | st.just(("look",)))
        return e.TurnStarted(
            turn=self.turn, model="test", notes=notes, tools=names, characters=draw(st.integers(0, 99))
        )

    def break_turn(self, draw: st.DrawFn) -> e.EventData:
        self.try_, self.broken_off = self.try_ + 1, True
        return e.TurnInterrupted(turn=self.turn, try_=self.try_ - 1, cause="crash", usage=draw(usages))

    def retry_turn(self, draw: st.DrawFn) -> e.EventData:
        self.try_, self.broken_off = self.try_ + 1, False
        return e.ModelRetried(turn=self.turn, try_=self.try_ - 1, error=Failure(kind="busy", message="later"))

    def end_turn(self, draw: st.DrawFn) -> e.EventData:
        self.turn_open = False
        self.messages += 1
        self.asked = [f"ask-{self.turn}-{n}" for n in range(draw(st.integers(0, 2)))]
        self.owed = set(self.asked)
        calls = tuple(ToolCall(call_id=call_id, tool="look", arguments={}) for call_id in self.asked)
        parts: tuple[AnyPart, ...] = (Text(text=draw(texts)), *calls)
        return e.ModelResponded(turn=self.turn, try_=self.try_, parts=parts, model="test", usage=draw(usages))

    # calls

    def start_step(self, draw: st.DrawFn) -> e.EventData:
        return self.open_call(draw, f"step-{len(self.open_calls) + len(self.ended_calls)}")

    def start_asked(self, draw: st.DrawFn) -> e.EventData:
        return self.open_call(draw, self.asked.pop(0))

    def open_call(self, draw: st.DrawFn, call_id: str) -> e.EventData:
        call = Open("look", draw(st.sampled_from(list(Effect))), 1, self.attempt)
        self.open_calls[call_id] = call
        return e.ToolStarted(call_id=call_id, tool=call.tool, effect=call.effect, key=f"{RUN_ID}/{call_id}")

    def repeat_call(self, draw: st.DrawFn) -> e.EventData:
        """A later attempt found the call without a result, or it has asked somebody: it is made again."""
        waiting = [id for id, call in self.open_calls.items() if call.attempt < self.attempt or call.asks]
        call_id = draw(st.sampled_from(waiting))
        before = self.open_calls[call_id]
        call = replace(before, tries=before.tries + 1, attempt=self.attempt, asks=False)
        self.open_calls[call_id] = call
        return e.ToolStarted(call_id=call_id, tool=call.tool, effect=call.effect, try_=call.tries)

    def end_call(self, draw: st.DrawFn) -> e.EventData:
        call_id = draw(st.sampled_from(list(self.open_calls)))
        call = self.open_calls.pop(call_id)
        self.ended_calls[call_id] = True
        self.give(call_id)
        if draw(st.booleans()):
            return e.ToolFinished(call_id=call_id, ok=True, result=draw(json_values))
        unknown = call.effect is Effect.WRITE and draw(st.booleans())
        kind = "unknown" if unknown else draw(st.sampled_from(["interrupted", "ValueError"]))
        return e.ToolFinished(call_id=call_id, ok=False, error=Failure(kind=kind, message="no"), unknown=unknown)

    def refuse_step(self, draw: st.DrawFn) -> e.EventData:
        return self.refuse(f"step-{len(self.open_calls) + len(self.ended_calls)}")

    def refuse_asked(self, draw: st.DrawFn) -> e.EventData:
        return self.refuse(self.asked.pop())

    def refuse(self, call_id: str) -> e.EventData:
        self.ended_calls[call_id] = False
        self.give(call_id)
        return e.ToolRefused(call_id=call_id, tool="look", why="not allowed")

    def give(self, call_id: str) -> None:
        """The model hears of what it has asked for."""
        if call_id in self.owed:
            self.owed.remove(call_id)
            self.said_since.add("tool")

    # people and children

    def open_ticket(self, draw: st.DrawFn) -> e.EventData:
        ticket_id = f"tkt_{len(self.open_tickets) + len(self.closed_tickets)}"
        self.open_tickets.append(ticket_id)
        return e.TicketOpened(ticket_id=ticket_id, kind=draw(st.sampled_from(PEOPLE)), call_id=f"for-{ticket_id}")

    def ask(self, draw: st.DrawFn) -> e.EventData:
        """A call asks a person before it does anything; or one is asked about a call that was interrupted."""
        asking = [id for id, call in self.open_calls.items() if not call.asks]
        call_id = draw(st.sampled_from(asking))
        self.open_calls[call_id] = replace(self.open_calls[call_id], asks=True)
        ticket_id = f"tkt_{len(self.open_tickets) + len(self.closed_tickets)}"
        self.open_tickets.append(ticket_id)
        return e.TicketOpened(ticket_id=ticket_id, kind=Waits.INPUT, call_id=f"{call_id}?{ticket_id}")

    def close_ticket(self, draw: st.DrawFn) -> e.EventData:
        ticket_id = draw(st.sampled_from(self.open_tickets))
        self.open_tickets.remove(ticket_id)
        self.closed_tickets.append(ticket_id)
        decision = draw(st.sampled_from(["approve", "reject", "answer", "expired"]))
        return e.TicketClosed(ticket_id=ticket_id, decision=decision, signal=self.hear(draw))

    def start_child(self, draw: st.DrawFn) -> e.EventData:
        number = len(self.open_children) + len(self.ended_children)
        self.open_children[f"child-{number}"] = f"run_c{number}"
        return e.ChildStarted(
            call_id=f"child-{number}", run_id=f"run_c{number}", target="agent:a", background=draw(st.booleans())
        )

    def end_child(self, draw: st.DrawFn) -> e.EventData:
        call_id = draw(st.sampled_from(list(self.open_children)))
        run_id = self.ended_children[call_id] = self.open_children.pop(call_id)
        status = draw(st.sampled_from(ENDS))
        return e.ChildFinished(
            call_id=call_id, run_id=run_id, status=status, reason=Reason.GOAL, signal=self.hear(draw)
        )


@st.composite
def journals(draw: st.DrawFn, most: int = 30) -> list[Draft]:
    """A legal journal, as its draft stood after each of its events. The clock may jump back."""
    draft, drafts = Draft(), list[Draft]()
    lengths = st.integers(1, most)
    for _ in range(max(draw(lengths), draw(lengths))):
        if not (moves := draft.moves()):
            break
        draft.at += draw(st.integers(-2_000, 5_000))
        draft.write(draw(st.sampled_from(moves))(draw))
        drafts.append(draft.snapshot())
    return drafts
