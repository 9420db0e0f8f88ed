"""One write transaction, as the writes see it: the same calls on both databases.

`?` stands for a parameter, `{rows}` for a table of rows given with the call, `{in}` for a test against a list,
`{lock}` for holding the trees of the rows that are found and passing by those that somebody else holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]


class Transaction(Protocol):
    """An open transaction with the time at which it began."""

    now: int

    def run(self, sql: str, *params: object) -> list[Row]:
        """Execute; give the rows."""

    def rows(self, sql: str, columns: str, rows: Sequence[Sequence[object]], *params: object) -> list[Row]:
        """Execute a statement that begins with `WITH b(...) AS ({rows})`; `columns` names and types them. Other
        parameters come after the rows."""

    def insert(self, table: str, columns: str, rows: Sequence[Sequence[object]], conflict: str = "") -> None:
        """Insert many rows; `columns` names and types them."""

    def any(self, values: Sequence[object]) -> object:
        """The parameter for `{in}`."""

    def lock_trees(self, run_ids: Sequence[str], ending: Sequence[str] = ()) -> None:
        """Hold the trees of these runs until the end, and of those that wait for one that is `ending`. The root's row
        is the lock of its tree; taken in order of id, so that no two processes wait for each other."""

    def lock_threads(self, thread_ids: Sequence[str]) -> None:
        """Hold these threads, in order of id: nothing is said in one that is being deleted. Trees come first."""

    def serialize(self) -> None:
        """Let no other process do the same at the same time."""
