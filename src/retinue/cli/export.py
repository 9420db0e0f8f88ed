"""All of a run's tree in one text: as JSON lines, as one JSON document, or to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from retinue.app import Retinue
from retinue.cli.show import event_json, iso, run_json, ticket_json
from retinue.cli.transcript import transcript
from retinue.core.events import Event
from retinue.service import RunRow, TicketRow

FORMAT = "retinue.export/1"


class Format(Enum):
    """How it is written."""

    JSONL = "jsonl"
    JSON = "json"
    MARKDOWN = "markdown"


SUFFIXES = {".json": Format.JSON, ".md": Format.MARKDOWN}


def format_of(said: Format | None, path: Path | None) -> Format:
    """What is said; else what the file's name says; else lines."""
    return said or SUFFIXES.get(path.suffix if path else "", Format.JSONL)


@dataclass(frozen=True, slots=True)
class Export:
    """A tree of runs as it is now."""

    row: RunRow
    at: int
    runs: list[RunRow]
    tickets: list[TicketRow]
    events: list[Event]

    @classmethod
    async def of(cls, app: Retinue, row: RunRow, events: list[Event]) -> Export:
        tickets = await app.service.tickets(root_id=row.root_id, status=None)
        return cls(row, await app.service.now(), await app.service.tree(row.id), tickets, events)

    def text(self, form: Format) -> str:
        match form:
            case Format.JSONL:
                return "".join(f"{_encoded(line)}\n" for line in self._lines())
            case Format.JSON:
                return _encoded(self._document()) + "\n"
            case Format.MARKDOWN:
                return self._to_read()

    def _head(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "exported_at": iso(self.at),
            "run_id": self.row.id,
            "root_id": self.row.root_id,
        }

    def _document(self) -> dict[str, object]:
        return self._head() | {
            "runs": [run_json(row) for row in self.runs],
            "tickets": [ticket_json(ticket) for ticket in self.tickets],
            "events": [event_json(event) for event in self.events],
        }

    def _lines(self) -> Iterator[dict[str, object]]:
        """Each line says in `record` what it is."""
        yield {"record": "export"} | self._head()
        yield from ({"record": "run"} | run_json(row) for row in self.runs)
        yield from ({"record": "ticket"} | ticket_json(ticket) for ticket in self.tickets)
        yield from ({"record": "event"} | event_json(event) for event in self.events)

    def _to_read(self) -> str:
        """The run and all below it, one after the other."""
        of_run: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            of_run[event.run_id].append(event)
        below = {self.row.id}
        for row in sorted(self.runs, key=lambda row: row.id):
            if row.parent_id in below:
                below.add(row.id)
        shown = [self.row, *(row for row in self.runs if row.id in below and row.id != self.row.id)]
        return "\n".join(transcript(row, of_run[row.id]) for row in shown)


def _encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()
