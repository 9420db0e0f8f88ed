"""A run as a text to read, in Markdown: what was said, thought and called, what people decided, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from retinue.cli.show import failure, iso, lasted, one_line, question, tokens
from retinue.core import events as e
from retinue.core.approval import Approval
from retinue.core.messages import AnyPart, Data, File, Text, Thinking, ToolCall
from retinue.core.tool import FINISH
from retinue.service import RunRow


def transcript(row: RunRow, events: Iterable[e.Event]) -> str:
    """One run."""
    writer = Transcript(row)
    return "\n\n".join(block for event in events for block in writer.blocks(event)) + "\n"


@dataclass(slots=True)
class Transcript:
    """Turns events into blocks of Markdown."""

    row: RunRow
    _asked: dict[str, ToolCall] = field(default_factory=dict)
    _started: dict[str, e.ToolStarted] = field(default_factory=dict)

    def blocks(self, event: e.Event) -> Iterator[str]:
        match event.data:
            case e.RunQueued() as data:
                yield from self._head(data)
            case e.TurnStarted() as data:
                yield f"## Turn {data.turn}: {_inline(data.model)}"
                if data.instructions:
                    yield _folded("Instructions", data.instructions)
                yield from (_said_by_run(note) for note in data.notes)
            case e.ModelResponded() as data:
                yield from self._answer(data)
            case e.ToolStarted() as data:
                self._started[data.call_id] = data
            case e.ToolFinished() as data:
                yield from self._called(data)
            case e.ToolRefused() as data:
                asked = self._asked.get(data.call_id)
                yield f"**{_inline(data.tool)}** was refused"
                yield from [_json(asked.arguments)] if asked else []
                yield _fenced(data.why)
            case e.RunFinished() as data:
                yield from self._end(data)
            case _:
                yield from _noted(event)

    def _head(self, queued: e.RunQueued) -> Iterator[str]:
        yield f"# {_inline(queued.target)}"
        facts = [f"`{self.row.id}`", str(iso(self.row.created_at))]
        facts += [f"part of `{self.row.parent_id}`"] if self.row.parent_id else []
        facts += [f"goes on from `{queued.source_run_id}`, event {queued.source_seq}"] if queued.source_run_id else []
        yield ", ".join(facts)
        if queued.input is not None:
            yield "## Asked"
            yield from _value(queued.input)

    def _answer(self, data: e.ModelResponded) -> Iterator[str]:
        for part in data.parts:
            if isinstance(part, ToolCall):
                self._asked[part.call_id] = part
            else:
                yield from _part(part)
        facts = [lasted(data.total_ms) if data.total_ms is not None else "", tokens(data.usage)]
        if said := ", ".join(filter(None, facts)):
            yield f"*{said}*"

    def _called(self, data: e.ToolFinished) -> Iterator[str]:
        started = self._started.get(data.call_id)
        tool = started.tool if started else data.call_id
        if tool == FINISH and data.ok:
            yield f"**{FINISH}**: the answer stands at the end"
            return
        ended = "nobody can tell whether it took effect" if data.unknown else "gave" if data.ok else "failed"
        yield f"**{_inline(tool)}**"
        if started and started.arguments is not None:
            yield _json(started.arguments)
        yield f"{ended}:"
        yield _fenced(failure(data.error)) if data.error else "\n\n".join(_value(data.result))
        yield from (
            f"with the file {_inline(file.name or file.uri)} ({_inline(file.media_type)})" for file in data.files
        )

    def _end(self, data: e.RunFinished) -> Iterator[str]:
        status = data.status.replace("_", " ")
        recovered = ", with an answer in its last turn" if data.recovered else ""
        reason = "" if data.reason in ("goal", data.status) else f" ({data.reason.replace('_', ' ')}{recovered})"
        yield f"## {status.capitalize()}{reason}"
        took = lasted(self.row.finished_at - self.row.created_at) if self.row.finished_at else ""
        if facts := ", ".join(filter(None, (took, tokens(data.usage)))):
            yield f"*{facts}*"
        if data.error:
            yield _fenced(failure(data.error))
        for name, value in (("", data.output), ("What there is of an answer:", data.partial)):
            if value is not None:
                yield from filter(None, [name])
                yield from _value(value)
        yield from (f"A hint came too late to be read: {_inline(hint)}" for hint in data.unread)


def _noted(event: e.Event) -> Iterator[str]:
    """What happened beside turns and calls, a line each."""
    match event.data:
        case e.TicketOpened() as data:
            yield f"> **Asked:** {_inline(question(data.kind, data.tool, data.title, data.call_id))}"
            if data.arguments is not None:
                yield _json(data.arguments)
        case e.TicketClosed() as data:
            yield f"> **{data.decision.capitalize()}**{_decision(data)}"
        case e.SteerReceived() as data:
            yield f"> **Hint:** {_inline(data.text)}"
        case e.LimitReached() as data:
            yield f"> **Limit reached:** {_inline(data.limit)}"
        case e.TurnInterrupted() as data:
            yield f"> The answer broke off: {_inline(data.cause)}"
            if data.text:
                yield _folded("What there was of it", data.text)
        case e.ModelRetried() as data:
            yield f"> {_inline(data.model or 'The model')} was asked again: {_inline(data.error.message)}"
        case e.ModelRouted() as data:
            yield f"> {_inline(data.model)} was chosen: {_inline(data.why)}"
        case e.HistoryCompacted() as data:
            how = f"{data.tokens_before:,} to {data.tokens_after:,} tokens" if data.ok else f"failed, {data.problem}"
            yield f"> The history was shortened: {_inline(how)}"
            if data.summary:
                yield _folded("What stands for the older part", data.summary)
        case e.ChildStarted() as data:
            yield f"> **Started** {_inline(data.target)} (`{data.run_id}`)"
        case e.ChildFinished() as data:
            yield f"> `{data.run_id}` is {data.status.replace('_', ' ')}"
        case e.ArtifactAdded() as data:
            yield f"> **File:** {_inline(data.name or data.uri)} ({_inline(data.media_type)})"
        case e.Warned() as data:
            yield f"> **Warning:** {_inline(data.message)}"
        case e.RunResumed(cause="crash"):
            yield "> It went on after a crash."
        case _:
            pass


def _decision(closed: e.TicketClosed) -> str:
    by = f" by {_inline(closed.by)}" if closed.by else ""
    try:
        said = Approval.of(closed.value)
    except ValueError:
        value = f": {_inline(closed.value)}"
    else:
        value = f" with `{_inline(said.arguments)}`" if said.arguments is not None else ""
        value += ", for the rest of the run" if said.remember else ""
    return f"{by}{value}{f' ({_inline(closed.message)})' if closed.message else ''}"


def _part(part: AnyPart) -> Iterator[str]:
    match part:
        case Text(text=text) if text.strip():
            yield text.strip()
        case Thinking(text=text) if text.strip():
            yield _folded("Thinking", text)
        case Data(data=data):
            yield _json(data)
        case File() as file:
            yield _file(file)
        case _:
            pass


def _file(file: File) -> str:
    return f"[{_inline(file.name or file.uri)}, {_inline(file.media_type)}]"


def _value(value: object) -> Iterator[str]:
    """A value that somebody wrote, or that came from elsewhere: nothing in it is Markdown of ours."""
    yield _fenced(value) if isinstance(value, str) else _json(value)


def _said_by_run(note: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in note.splitlines())


def _inline(value: object) -> str:
    """In one line; backticks would end what is quoted."""
    return one_line(value).replace("`", "'")


def _json(value: object) -> str:
    return _fenced(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False), "json")


def _fenced(text: str, language: str = "text") -> str:
    """With a fence that is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _folded(title: str, text: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{_fenced(text)}\n\n</details>"
