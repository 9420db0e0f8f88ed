"""What a run does, as lines: one for each step that ended, and those that are under way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from retinue.cli import brief
from retinue.cli.meter import Meter
from retinue.cli.nodes import Nodes, Told
from retinue.cli.show import lasted, one_line, question, tokens
from retinue.core import events as e
from retinue.core.approval import Approval
from retinue.core.delta import Delta, Progress
from retinue.core.messages import AnyPart, Thinking, ToolCall, text_of
from retinue.core.outcome import Effect, Waits
from retinue.core.target import Target
from retinue.core.tool import FINISH
from retinue.service import Followed

LOUD_CAUSES = {"crash": "goes on after a crash", "released": "goes on with another worker"}
TURN = "turn"
KEPT_OF_SPEECH = 4000
LONGEST_SAID = 300


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened. What has only begun is shown where nothing else shows that it is under way; of what is
    only `brief` there is more to be seen elsewhere, so a screen may cut it."""

    at: int
    depth: int
    mark: str
    text: str
    more: str = ""
    style: str = ""
    begun: bool = False
    kind: Literal["", "turn", "said", "ticket"] = ""
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Open:
    """Something that is under way since `at`, or rests until `until`."""

    at: int
    depth: int
    text: str
    more: str = ""
    until: int | None = None
    arguments: object = None


@dataclass(slots=True)
class Steps:
    """Turns events into lines."""

    depths: dict[str, int] = field(default_factory=dict)
    open: dict[tuple[str, str], Open] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    thought: dict[str, str] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    nodes: Nodes = field(default_factory=Nodes)
    place: int = 0
    _unshown: dict[str, Line] = field(default_factory=dict)
    """Texts of answers that call nothing: the last of them is the run's output, and shown as that."""
    _turning: set[str] = field(default_factory=set)
    _recovering: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    def take(self, seen: Followed) -> list[Line]:
        """One more event, or something said; the lines that it makes."""
        if isinstance(seen, Delta):
            if seen.run_id not in self.nodes.muted:
                self._hear(seen)
            return []
        if isinstance(seen, Progress):
            if step := self.open.get((seen.run_id, seen.call_id)):
                self.open[seen.run_id, seen.call_id] = replace(step, more=_how_far(seen))
            return []
        self.place = seen.root_seq
        self.meter.take(seen)
        if self.nodes.mute(seen):
            return []
        depth = self.depths.setdefault(seen.run_id, 0)
        return list(self._lines(seen, depth, depth + (seen.run_id in self._turning)))

    def _hear(self, said: Delta) -> None:
        if said.kind in ("text", "thinking"):
            kept = self.said if said.kind == "text" else self.thought
            kept[said.run_id] = (kept.get(said.run_id, "") + said.text)[-KEPT_OF_SPEECH:]

    def _lines(self, event: e.Event, depth: int, inner: int) -> Iterator[Line]:
        """The lines of an event; what belongs to a turn stands below it."""
        match event.data:
            case e.TurnStarted() | e.ModelResponded() | e.TurnInterrupted() | e.ModelRetried() | e.ModelRouted():
                yield from self._turn(event, depth)
            case e.ToolStarted() | e.ToolFinished() | e.ToolRefused():
                yield from self._call(event, inner)
            case e.TicketOpened() | e.TicketClosed() | e.SteerReceived():
                yield from _people(event, inner)
            case e.LimitReached() | e.RecoveryStarted() | e.HistoryCompacted():
                yield from self._limit(event, inner)
            case e.ChildStarted() | e.ChildFinished() | e.NodeSkipped():
                yield from self._tree(event, inner)
            case e.RunWaiting() as data:
                yield from self._rest(event, inner, data)
            case e.RunResumed(cause=cause):
                self.open.pop((event.run_id, "rest"), None)
                if cause in LOUD_CAUSES:
                    yield Line(event.at, inner, "↻", LOUD_CAUSES[cause], f"attempt {event.attempt}", "yellow")
            case e.RunFinished() as data:
                yield from self._end(event, inner, data)
            case e.ArtifactAdded() as data:
                yield Line(event.at, inner, "+", one_line(data.name or data.uri), data.media_type)
            case e.Warned() as data if data.message not in self._told:
                yield Line(event.at, inner, "!", one_line(data.message), "", "yellow")
            case _:
                pass

    # Turns

    def _turn(self, event: e.Event, depth: int) -> Iterator[Line]:
        run_id, at = event.run_id, event.at
        match event.data:
            case e.TurnStarted() as data:
                yield from self._turn_begins(event, depth, data)
            case e.ModelResponded() as data:
                yield from self._turn_ends(event, depth, data)
            case e.TurnInterrupted() as data:
                self._forget_speech(run_id)
                self.open.pop((run_id, TURN), None)
                yield Line(at, depth + 1, "!", "the answer broke off", one_line(data.cause), "yellow", kind="turn")
            case e.ModelRetried() as data:
                self._forget_speech(run_id)
                later = f"in {lasted(data.delay_ms)}" if data.delay_ms else ""
                why = _joined(one_line(data.error.message), later)
                yield Line(at, depth + 1, "!", f"{data.model or 'the model'} is asked again", why, "yellow")
            case e.ModelRouted() as data:
                yield Line(at, depth, "›", f"{data.model} was chosen", one_line(data.why), "dim")

    def _turn_begins(self, event: e.Event, depth: int, data: e.TurnStarted) -> Iterator[Line]:
        run_id, at = event.run_id, event.at
        self._forget_speech(run_id)
        yield from self._say_what_was_said(run_id)
        self._turning.add(run_id)
        if run_id not in self._recovering:  # what is told then, the lines before it say already
            self._told.update(data.notes)
            for note in data.notes:
                yield Line(at, depth + 1, "›", "it is reminded", one_line(note), "dim", brief=True)
        left = self.meter.left_ms(at)
        time_left = "" if left is None else f"{lasted(left)} left"
        self.open[run_id, TURN] = Open(at, depth, f"turn {data.turn}", data.model)
        yield Line(at, depth, "▸", f"turn {data.turn}", _joined(data.model, time_left), "dim", begun=True, kind="turn")

    def _turn_ends(self, event: e.Event, depth: int, data: e.ModelResponded) -> Iterator[Line]:
        run_id, at = event.run_id, event.at
        self._forget_speech(run_id)
        began = self.open.pop((run_id, TURN), None)
        took = lasted(at - began.at) if began else ""
        more = _joined(data.model, took, tokens(data.usage), "" if data.stop != "length" else "cut off: too long")
        yield Line(at, depth, "✓", f"turn {data.turn}", more, "green", kind="turn", brief=True)
        if thought := _thinking(data.parts):
            yield Line(at, depth + 1, "…", thought, "", "dim", kind="said", brief=True)
        if text := one_line(text_of(data.parts), LONGEST_SAID):
            said = Line(at, depth + 1, "“", text, "", "dim", kind="said", brief=True)
            if any(isinstance(part, ToolCall) for part in data.parts):
                yield said
            else:
                self._unshown[run_id] = said

    def _say_what_was_said(self, run_id: str) -> Iterator[Line]:
        if said := self._unshown.pop(run_id, None):
            yield said

    def _forget_speech(self, run_id: str) -> None:
        self.said.pop(run_id, None)
        self.thought.pop(run_id, None)

    # Calls

    def _call(self, event: e.Event, depth: int) -> Iterator[Line]:
        run_id, at = event.run_id, event.at
        match event.data:
            case e.ToolStarted() as data:
                name, given = _called(data)
                notes = [brief.arguments(given)] if given is not None and data.tool != FINISH else []
                notes += [data.effect.value] if data.effect is Effect.WRITE else []
                notes += [f"try {data.try_}"] if data.try_ > 1 else []
                begun = Open(at, depth, name, _joined(*notes), arguments=given)
                self.open[run_id, data.call_id] = begun
                yield Line(at, depth, "▸", name, begun.more, "dim", begun=True)
            case e.ToolFinished() as data:
                yield self._call_ends(event, depth, data)
            case e.ToolRefused() as data:
                yield Line(at, depth, "✗", brief.name(data.tool), f"refused: {one_line(data.why)}", "red")

    def _call_ends(self, event: e.Event, depth: int, data: e.ToolFinished) -> Line:
        began = self.open.pop((event.run_id, data.call_id), None)
        name = began.text if began else data.call_id
        took = lasted(event.at - began.at) if began else ""
        given = began.arguments if began else None
        if data.unknown:
            why = "interrupted; nobody can tell whether it took effect"
            return Line(event.at, depth, "?", name, _joined(brief.arguments(given), why), "yellow")
        if not data.ok:
            return Line(event.at, depth, "✗", name, _joined(took, brief.call(name, given, data) or "failed"), "red")
        checked = "its check found it done" * data.checked
        came = "" if given is None else brief.call(name, given, data)
        kind: Literal["", "said"] = "said" if name == FINISH else ""
        return Line(event.at, depth, "✓", name, _joined(took, checked, came), "green", kind=kind, brief=True)

    # Limits, trees, rests

    def _limit(self, event: e.Event, depth: int) -> Iterator[Line]:
        match event.data:
            case e.LimitReached() as data:
                yield from self._say_what_was_said(event.run_id)
                yield Line(event.at, depth, "!", f"limit reached: {one_line(data.limit)}", "", "yellow")
            case e.RecoveryStarted():
                self._recovering.add(event.run_id)
                yield Line(event.at, depth, "!", "one last turn, to answer with what there is", "", "yellow")
            case e.HistoryCompacted(ok=False) as data:
                yield Line(event.at, depth, "!", "the history could not be shortened", one_line(data.problem), "yellow")
            case e.HistoryCompacted() as data:
                how = "by a summary" if data.summary else f"of {len(data.moved)} results only the ends are left"
                size = f"{data.tokens_before:,} to {data.tokens_after:,} tokens"
                yield Line(event.at, depth, "›", "the history was shortened", _joined(size, how), "dim")

    def _tree(self, event: e.Event, depth: int) -> Iterator[Line]:
        run_id, at = event.run_id, event.at
        if told := self.nodes.take(event):
            yield from self._node(event, depth, told)
            return
        match event.data:
            case e.ChildStarted() as data:
                self.depths[data.run_id] = depth + 1
                self.open[run_id, data.call_id] = Open(at, depth, _name(data.target))
                yield Line(at, depth, "▸", _name(data.target), data.run_id, "cyan")
            case e.ChildFinished() as data:
                began = self.open.pop((run_id, data.call_id), None)
                ok = data.status.value == "completed"
                took = lasted(at - began.at) if began else ""
                more = took if ok else _joined(data.status.replace("_", " "), took)
                name = began.text if began else data.call_id
                yield Line(at, depth, "✓" if ok else "✗", name, more, "green" if ok else "red")

    def _node(self, event: e.Event, depth: int, told: Told) -> Iterator[Line]:
        """A node of a graph: under way as one, however many items it has."""
        key = event.run_id, told.key
        if told.began is None:
            self.open.pop(key, None)
        else:
            if key not in self.open:
                yield Line(event.at, depth, "▸", told.name, told.more, "dim", begun=True)
            self.open[key] = Open(told.began, depth, told.name, told.more)
        if isinstance(event.data, e.ChildStarted):
            self.depths[event.data.run_id] = depth + 1
        if told.mark:
            yield Line(
                event.at, depth, told.mark, told.name, one_line(told.happened or told.more), told.style, brief=True
            )

    def _rest(self, event: e.Event, depth: int, data: e.RunWaiting) -> Iterator[Line]:
        reasons: set[Waits] = {reason for reason in data.reasons if reason is not Waits.CHILDREN}
        sleeps = [key for key in self.open if key[0] == event.run_id and key[1].partition("#")[0] == "sleep"]
        if reasons == {Waits.TIMER} and sleeps:
            self.open[sleeps[0]] = replace(self.open[sleeps[0]], until=data.until)
        elif reasons:
            self.open[event.run_id, "rest"] = Open(event.at, depth, _resting(reasons), "", data.until)
        if Waits.PAUSED in reasons:
            yield Line(event.at, depth, "◦", "paused", "", "yellow")

    def _end(self, event: e.Event, depth: int, data: e.RunFinished) -> Iterator[Line]:
        for key in [key for key in self.open if key[0] == event.run_id]:
            del self.open[key]
        self._forget_speech(event.run_id)
        self._unshown.pop(event.run_id, None)
        for hint in data.unread:
            yield Line(event.at, depth, "!", "a hint came too late to be read", one_line(hint), "yellow")


def _people(event: e.Event, depth: int) -> Iterator[Line]:
    match event.data:
        case e.TicketOpened() as data:
            asked = question(data.kind, data.tool, data.title, data.call_id)
            text = _joined(asked, brief.arguments(data.arguments, 1000, 400))
            yield Line(event.at, depth, "?", text, data.ticket_id, "yellow", kind="ticket")
        case e.TicketClosed() as data:
            by = f"by {one_line(data.by)}" if data.by else ""
            more = _joined(by, *_with(data.value), one_line(data.message))
            yield Line(event.at, depth, "›", data.decision, more, "dim")
        case e.SteerReceived() as data:
            yield Line(event.at, depth, "›", f"hint: {one_line(data.text)}", f"by {data.by}" if data.by else "", "dim")


def _with(value: object) -> Iterator[str]:
    """What somebody said with a decision: other arguments, or that it holds from now on; an answer is shown itself."""
    try:
        said = Approval.of(value)
    except ValueError:
        yield one_line(value, 80)
        return
    if said.arguments is not None:
        yield f"with {brief.arguments(said.arguments, 1000, 400)}"
    if said.remember:
        yield "for the rest of the run"


def _called(data: e.ToolStarted) -> tuple[str, object]:
    """A tool that a model called goes by its name and arguments. A step of code is known by its place in it."""
    if data.turn is None:
        return data.call_id, None
    return brief.name(data.tool), data.arguments if data.arguments is not None else {}


def _thinking(parts: tuple[AnyPart, ...]) -> str:
    return one_line("".join(part.text for part in parts if isinstance(part, Thinking)), LONGEST_SAID)


def _resting(reasons: set[Waits]) -> str:
    if reasons == {Waits.TIMER}:
        return "sleeping"
    if reasons == {Waits.PAUSED}:
        return "paused"
    return "waiting for a person" if reasons & PEOPLE else f"waiting ({', '.join(sorted(reasons))})"


PEOPLE = {Waits.APPROVAL, Waits.INPUT, Waits.CLIENT_TOOL, Waits.AUTH}


def _name(target: str) -> str:
    """A target as a person would call it."""
    return Target.parse(target).name.replace(":", ".")


def _how_far(progress: Progress) -> str:
    """As much of it as is known: 3 of 10, what it is at."""
    done = "" if progress.done is None else f"{progress.done:g}"
    if done and progress.of is not None:
        done += f" of {progress.of:g}"
    return _joined(done, one_line(progress.message))


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)
