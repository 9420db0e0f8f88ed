"""What a run does, as lines: one for each step that ended, and those that are under way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from retinue.cli.show import failure, lasted, one_line
from retinue.core import events as e
from retinue.core.delta import Delta, Progress
from retinue.core.outcome import Effect, Usage, Waits
from retinue.core.target import Target
from retinue.service import Followed

LOUD_CAUSES = {"crash": "goes on after a crash", "released": "goes on with another worker"}


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened. What has only begun is shown where nothing else shows that it is under way."""

    at: int
    depth: int
    mark: str
    text: str
    more: str = ""
    style: str = ""
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Open:
    """Something that is under way since `at`, or rests until `until`."""

    at: int
    depth: int
    text: str
    more: str = ""
    until: int | None = None


@dataclass(slots=True)
class Steps:
    """Turns events into lines."""

    depths: dict[str, int] = field(default_factory=dict)
    open: dict[tuple[str, str], Open] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    place: int = 0
    answered: dict[str, str] = field(default_factory=dict)

    def take(self, seen: Followed) -> list[Line]:
        """One more event, or something said; the lines that it makes."""
        if isinstance(seen, Delta):
            if seen.kind == "text":
                self.said[seen.run_id] = self.said.get(seen.run_id, "") + seen.text
            return []
        if isinstance(seen, Progress):
            if step := self.open.get((seen.run_id, seen.call_id)):
                self.open[seen.run_id, seen.call_id] = replace(step, more=_how_far(seen))
            return []
        self.place = seen.root_seq
        return self._lines(seen, self.depths.setdefault(seen.run_id, 0))

    def _lines(self, event: e.Event, depth: int) -> list[Line]:
        run_id, at = event.run_id, event.at
        match event.data:
            case e.ToolStarted(call_id=call_id) as data:
                notes = [data.effect.value] if data.effect is Effect.WRITE else []
                notes += [f"try {data.try_}"] if data.try_ > 1 else []
                return self._begin(run_id, call_id, Open(at, depth, call_id, ", ".join(notes)))
            case e.ToolFinished(call_id=call_id) as data:
                return [self._end(event, depth, call_id, data)]
            case e.ToolRefused() as data:
                return [Line(at, depth, "✗", data.call_id, f"refused: {one_line(data.why)}", "red")]
            case e.TurnStarted() as data:
                self.said.pop(run_id, None)
                return self._begin(run_id, f"turn {data.turn}", Open(at, depth, data.model, "answering"))
            case e.ModelResponded() as data:
                self.said.pop(run_id, None)
                began = self.open.pop((run_id, f"turn {data.turn}"), None)
                took = lasted(at - began.at) if began else ""
                return [Line(at, depth, "✓", data.model, _joined(took, tokens(data.usage)), "green")]
            case e.TurnInterrupted() as data:
                self.said.pop(run_id, None)
                self.open.pop((run_id, f"turn {data.turn}"), None)
                return [Line(at, depth, "!", "the answer broke off", data.cause, "yellow")]
            case e.ModelRetried() as data:
                self.said.pop(run_id, None)
                return [Line(at, depth, "!", "asked again", one_line(data.error.message), "yellow")]
            case e.ChildStarted() as data:
                self.depths[data.run_id] = depth + 1
                self.open[(run_id, data.call_id)] = Open(at, depth, _name(data.target), data.run_id)
                return [Line(at, depth, "▸", _name(data.target), data.run_id, "cyan")]
            case e.ChildFinished() as data:
                began = self.open.pop((run_id, data.call_id), None)
                ok = data.status.value == "completed"
                took = lasted(at - began.at) if began else ""
                more = took if ok else _joined(data.status.replace("_", " "), took)
                name = began.text if began else data.call_id
                return [Line(at, depth, "✓" if ok else "✗", name, more, "green" if ok else "red")]
            case e.RunWaiting() as data:
                return self._rest(event, depth, data)
            case e.RunResumed(cause=cause):
                self.open.pop((run_id, "rest"), None)
                if cause not in LOUD_CAUSES:
                    return []
                return [Line(at, depth, "↻", LOUD_CAUSES[cause], f"attempt {event.attempt}", "yellow")]
            case e.TicketOpened() as data:
                return [Line(at, depth, "?", one_line(data.title or data.call_id), data.ticket_id, "yellow")]
            case e.TicketClosed() as data:
                by = f"by {data.by}" if data.by else ""
                return [Line(at, depth, "›", data.decision, _joined(by, one_line(data.message)), "dim")]
            case e.SteerReceived() as data:
                return [Line(at, depth, "›", one_line(data.text), "", "dim")]
            case e.LimitReached() as data:
                return [Line(at, depth, "!", f"limit reached: {data.limit}", "", "yellow")]
            case e.ArtifactAdded() as data:
                return [Line(at, depth, "+", data.name or data.uri, data.media_type)]
            case e.Warned() as data:
                return [Line(at, depth, "!", one_line(data.message), "", "yellow")]
            case e.RunFinished():
                for key in [key for key in self.open if key[0] == run_id]:
                    del self.open[key]
                self.said.pop(run_id, None)
        return []

    def _begin(self, run_id: str, key: str, begun: Open) -> list[Line]:
        self.open[(run_id, key)] = begun
        return [Line(begun.at, begun.depth, "▸", begun.text, begun.more, "dim", begun=True)]

    def _end(self, event: e.Event, depth: int, call_id: str, data: e.ToolFinished) -> Line:
        began = self.open.pop((event.run_id, call_id), None)
        took = lasted(event.at - began.at) if began else ""
        if data.ok:
            return Line(event.at, depth, "✓", call_id, _joined(took, "its check found it done" * data.checked), "green")
        why = one_line(failure(data.error)) if data.error else "failed"
        if data.unknown:
            return Line(event.at, depth, "?", call_id, "interrupted; nobody can tell whether it took effect", "yellow")
        return Line(event.at, depth, "✗", call_id, _joined(took, why), "red")

    def _rest(self, event: e.Event, depth: int, data: e.RunWaiting) -> list[Line]:
        reasons: set[Waits] = {reason for reason in data.reasons if reason is not Waits.CHILDREN}
        sleeps = [key for key in self.open if key[0] == event.run_id and key[1].partition("#")[0] == "sleep"]
        if reasons == {Waits.TIMER} and sleeps:
            self.open[sleeps[0]] = replace(self.open[sleeps[0]], until=data.until)
        elif reasons:
            self.open[(event.run_id, "rest")] = Open(event.at, depth, _resting(reasons), "", data.until)
        return [Line(event.at, depth, "◦", "paused", "", "yellow")] if Waits.PAUSED in reasons else []


def _resting(reasons: set[Waits]) -> str:
    if reasons == {Waits.TIMER}:
        return "sleeping"
    if reasons == {Waits.PAUSED}:
        return "paused"
    return "waiting for a person" if reasons & PEOPLE else f"waiting ({', '.join(sorted(reasons))})"


PEOPLE = {Waits.APPROVAL, Waits.INPUT, Waits.CLIENT_TOOL, Waits.AUTH}


def tokens(usage: Usage) -> str:
    """What a model call consumed."""
    if not usage.calls:
        return ""
    cost = f", {usage.cost_usd:.4f} USD" if usage.cost_usd else ""
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"


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
