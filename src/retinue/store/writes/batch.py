"""The writes that share a commit."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from retinue.ports.store import (
    Commit,
    RunRow,
    Write,
)
from retinue.store.transaction import Transaction

RUN_COLUMNS = ", ".join(RunRow.__dataclass_fields__)
KEY_LIVES_MS = 24 * 3_600_000
GRACE_OF_CLOCK_MS = 120_000


@dataclass(slots=True)
class Batch:
    """The writes that share a commit, what came of each, and what to tell afterwards."""

    tx: Transaction
    results: dict[int, object] = field(default_factory=dict)
    commit: Commit = field(default_factory=Commit)

    def settle(self, write: Write, result: object) -> None:
        self.results[id(write)] = result


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
