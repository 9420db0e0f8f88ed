"""How things look: times, states, tables, and the JSON of rows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from retinue.core.events import Event, as_dict
from retinue.core.outcome import Failure, Outcome, Status, Usage, Waits
from retinue.core.run import asker_of
from retinue.service import RunRow, TicketRow

MARKS = {
    "queued": ("○", "blue"),
    "running": ("▸", "cyan"),
    "waiting": ("◦", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("–", "yellow"),
    "timed_out": ("✗", "red"),
}
EXAMPLES = {None: "TEXT", "string": "TEXT", "boolean": "true", "integer": "NUMBER", "number": "NUMBER"}
UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 0))


@cache
def console() -> Console:
    """Standard output. Colours only on a terminal, and not with NO_COLOR."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def say(*parts: str | Text | tuple[str, str]) -> None:
    """A line."""
    console().print(Text.assemble(*parts), soft_wrap=True)


def aside(line: str) -> None:
    """A line for people beside an output for programs."""
    print(line, file=sys.stderr)


def print_json(value: object) -> None:
    print(msgspec.json.encode(value).decode())


def clean(text: str) -> str:
    """Text from elsewhere, without what could steer a terminal."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "·" for sign in text)


def one_line(value: object, longest: int = 200) -> str:
    """A value in one line, cut when it is long."""
    text = value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)
    begin = text[: 10 * longest]  # what is megabytes long is not cleaned as a whole
    line = clean(" ".join(begin.split()))
    return line if len(line) <= longest and len(begin) == len(text) else f"{line[: longest - 1]}…"


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value)


# Times


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def iso(ms: int | None) -> str | None:
    """A time as JSON has it."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def at(ms: int, now: int | None = None) -> str:
    """A time as people here say it: without the day when it is today's."""
    then, today = datetime.fromtimestamp(ms / 1000), datetime.fromtimestamp((now or now_ms()) / 1000)
    if then.date() == today.date():
        return then.strftime("%H:%M:%S")
    return then.strftime("%b %d %H:%M" if then.year == today.year else "%Y-%m-%d %H:%M")


def ago(ms: int, now: int) -> str:
    """How long ago something was, or in how long it will be."""
    seconds = (now - ms) / 1000
    if abs(seconds) < 1:
        return "just now"
    text = _rough(round(abs(seconds)))
    return f"{text} ago" if seconds > 0 else f"in {text}"


def _rough(seconds: int) -> str:
    """A time in its largest unit; hours, of which there are few, with minutes."""
    if 3600 <= seconds < 10 * 3600 and (minutes := seconds // 60 % 60):
        return f"{seconds // 3600} h {minutes} min"
    unit, length = next((unit, length) for unit, length in UNITS if seconds >= length)
    return f"{seconds // max(1, length)} {unit}"


def lasted(ms: float) -> str:
    """A duration."""
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{ms / 1000:.2f} s"
    if seconds < 60:
        return f"{int(seconds)} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def bytes_of(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def plural(count: int, noun: str) -> str:
    many = "" if count == 1 else "es" if noun.endswith(("sh", "ch", "s")) else "s"
    return f"{count:,} {noun}{many}"


# States


def tokens(usage: Usage) -> str:
    """What model calls consumed."""
    if not usage.calls:
        return ""
    cost = f", {usage.cost_usd:.4f} USD" if usage.cost_usd else ""
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"


def state(row: RunRow) -> Text:
    """A run's status with its mark, and what it waits for or why it ended."""
    mark, style = MARKS[row.status.value]
    more = row.waits_for if row.status is Status.WAITING else row.reason if row.reason != "goal" else None
    text = Text(f"{mark} {row.status.value.replace('_', ' ')}", style)
    if more and more != row.status.value:
        text.append(f" ({more.replace('_', ' ').replace(',', ', ')})")
    return text


def status_code(status: Status) -> int:
    """The exit code that a run's status is."""
    match status:
        case Status.COMPLETED:
            return 0
        case Status.FAILED | Status.TIMED_OUT:
            return 1
        case Status.CANCELLED:
            return 130
        case _:
            return 3


# Tables


def table(heads: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Columns side by side; on a terminal the last one is cut to what there is room for."""
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    lines = [[Text(head, "dim") for head in heads], *cells]
    widths = [max(cell_len(line[column].plain) for line in lines) for column in range(len(heads))]
    room = console().width if console().is_terminal else 10**6
    for line in lines:
        text = Text()
        for cell, width in zip(line[:-1], widths[:-1], strict=True):
            text.append_text(cell)
            text.append(" " * (width - cell_len(cell.plain) + 2))
        text.append_text(line[-1])
        if cell_len(text.plain) > room:
            text.truncate(room, overflow="ellipsis")
        text.rstrip()
        console().print(text, soft_wrap=True)


def facts(pairs: Iterable[tuple[str, str | Text | None]]) -> None:
    """What is known, a line each; what is not there is left out."""
    known = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        say((f"  {name:{width}}  ", "dim"), value or "")


# JSON of what the service gives


def outcome_json(row: RunRow, outcome: Outcome | None, usage: Usage) -> dict[str, object]:
    """The object that `run --json` prints; other programs know it."""
    return {
        "run_id": row.id,
        "thread_id": row.thread_id,
        "status": row.status.value,
        "reason": outcome.reason.value if outcome else None,
        "recovered": outcome.recovered if outcome else False,
        "output": outcome.output if outcome else None,
        "partial": outcome.partial if outcome else None,
        "error": outcome.error if outcome else None,
        "usage": outcome.usage if outcome else usage,
    }


def run_json(row: RunRow) -> dict[str, object]:
    """A run in a list."""
    return {
        "run_id": row.id,
        "root_id": row.root_id,
        "parent_id": row.parent_id,
        "call_id": row.call_id,
        "thread_id": row.thread_id,
        "target": row.target,
        "owner": row.owner,
        "priority": row.priority,
        "status": row.status.value,
        "reason": row.reason,
        "recovered": row.recovered,
        "waits_for": row.waits_for.split(",") if row.waits_for else [],
        "wake_at": iso(row.wake_at),
        "due_at": iso(row.due_at),
        "expires_at": iso(row.expires_at),
        "attempt": row.attempt,
        "crashes": row.crashes,
        "worker_id": row.worker_id,
        "source_run_id": row.source_run_id,
        "source_seq": row.source_seq,
        "last_seq": row.last_seq,
        "created_at": iso(row.created_at),
        "started_at": iso(row.started_at),
        "finished_at": iso(row.finished_at),
    }


def ticket_json(ticket: TicketRow) -> dict[str, object]:
    data: Mapping[str, object] = msgspec.json.decode(ticket.data)
    return {
        "ticket_id": ticket.id,
        "run_id": ticket.run_id,
        "root_id": ticket.root_id,
        "kind": ticket.kind,
        "call_id": ticket.call_id,
        "status": ticket.status,
        "decision": ticket.decision,
        "title": ticket.title,
        "tool": data.get("tool"),
        "schema": data.get("schema"),
        "arguments": data.get("arguments"),
        "opened_at": iso(ticket.opened_at),
        "expires_at": iso(ticket.expires_at),
        "closed_at": iso(ticket.closed_at),
    }


def event_json(event: Event) -> dict[str, object]:
    return {
        "run_id": event.run_id,
        "seq": event.seq,
        "root_seq": event.root_seq,
        "attempt": event.attempt,
        "at": iso(event.at),
        "type": event.type,
        "data": as_dict(event.data),
    }


# Outcomes and tickets, in words


def outcome(row: RunRow, ended: Outcome) -> None:
    """How a run ended, and what it gave."""
    mark, style = MARKS[row.status.value]
    took = f" in {lasted(row.finished_at - row.created_at)}" if row.finished_at else ""
    said = f"{mark} {row.status.value.replace('_', ' ')}{took}"
    recovered = ", with an answer in its last turn" if ended.recovered else ""
    reason = (
        "" if ended.reason.value in ("goal", row.status.value) else f" ({ended.reason.replace('_', ' ')}{recovered})"
    )
    say((said, f"bold {style}"), reason, (f"  {tokens(ended.usage)}" if ended.usage.calls else "", "dim"))
    if ended.error and ended.error.message != row.status.value:
        say(f"  {clean(failure(ended.error))}")
    for value, name in ((ended.output, ""), (ended.partial, "what there is of an answer:")):
        if value is not None:
            if name:
                say((name, "dim"))
            # On a terminal lines end between words; what is piped on stays as it is.
            console().print(Text(whole(value)), soft_wrap=not console().is_terminal)


def failure(error: Failure) -> str:
    """What went wrong; the kind goes first where the words do not begin with it."""
    said = error.message
    plain = error.kind in ("cancelled", "timeout") or said.startswith(error.kind)
    return said if plain else f"{error.kind}: {said}"


def whole(value: object) -> str:
    """A value to read: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return clean(value) if console().is_terminal else value
    return json.dumps(_plain(value), indent=2, ensure_ascii=False)


def asks(ticket: TicketRow) -> str:
    """What a ticket asks, in a line."""
    return question(ticket.kind, msgspec.json.decode(ticket.data).get("tool") or "", ticket.title, ticket.call_id)


def question(kind: str, tool: str, title: str, call_id: str) -> str:
    """What people, or a client, are asked."""
    if kind == Waits.APPROVAL and tool and not asker_of(call_id):
        return f"may it call {one_line(tool, 80)}?"
    if kind == Waits.CLIENT_TOOL:
        return f"what does {one_line(tool, 80)} give?"
    return one_line(title or tool or call_id)


def how_to_close(ticket: TicketRow) -> str:
    """The command that answers a ticket, without its options."""
    if ticket.kind == "approval":
        return f"approvals approve {ticket.id}"
    schema = msgspec.json.decode(ticket.data).get("schema") or {}
    if schema.get("type") in EXAMPLES:
        return f"approvals answer {ticket.id} {EXAMPLES[schema.get('type')]}"
    return f"approvals answer {ticket.id} --input-json '…'"
