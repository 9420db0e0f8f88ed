"""What an open turn has said so far, and what of it a reader has seen.

Readers keep a place, not a queue: a slow one gets fewer, longer deltas and costs no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of an answer that is still being given. Streamed, never stored as an event."""

    run_id: str
    kind: str
    turn: int
    try_: int
    offset: int
    text: str

    type = "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a call is. Streamed, never stored; only the newest of each call counts."""

    run_id: str
    call_id: str
    tool: str
    message: str = ""
    done: float | None = None
    of: float | None = None

    type = "tool.progress"


@dataclass(slots=True)
class Spoken:
    """Text that grows, readable from any offset without copying what came before."""

    length: int = 0
    _chunks: list[str] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)

    def add(self, offset: int, text: str) -> None:
        """Take a piece; what is known of it already is left out, a piece after a hole waits for the next read."""
        if offset <= self.length < offset + len(text):
            self._starts.append(self.length)
            self._chunks.append(text[self.length - offset :])
            self.length = offset + len(text)

    def since(self, offset: int) -> str:
        if offset >= self.length:
            return ""
        at = bisect_right(self._starts, offset) - 1
        return self._chunks[at][offset - self._starts[at] :] + "".join(self._chunks[at + 1 :])


@dataclass(slots=True)
class OpenTurn:
    """The answer that is being given: one text for each kind (text, thinking, tool_args)."""

    turn: int
    try_: int
    spoken: dict[str, Spoken] = field(default_factory=dict)

    def add(self, kind: str, offset: int, text: str) -> None:
        self.spoken.setdefault(kind, Spoken()).add(offset, text)

    @property
    def length(self) -> int:
        """How many characters were said, of all kinds."""
        return sum(spoken.length for spoken in self.spoken.values())

    def text(self, kind: str = "text") -> str:
        return self.spoken[kind].since(0) if kind in self.spoken else ""


@dataclass(slots=True)
class Place:
    """How far one reader is in the open turn of a run."""

    turn: int = 0
    try_: int = 0
    offsets: dict[str, int] = field(default_factory=dict)

    def advance(self, run_id: str, said: OpenTurn) -> list[Delta]:
        """What is new to the reader; afterwards it has seen it. A next try waits for the end of the one it has seen."""
        if (said.turn, said.try_) < (self.turn, self.try_):
            return []
        if (said.turn, said.try_) > (self.turn, self.try_):
            if self.offsets:
                return []
            self.turn, self.try_ = said.turn, said.try_
        new = []
        for kind, spoken in said.spoken.items():
            offset = self.offsets.get(kind, 0)
            if text := spoken.since(offset):
                self.offsets[kind] = offset + len(text)
                new.append(Delta(run_id=run_id, kind=kind, turn=said.turn, try_=said.try_, offset=offset, text=text))
        return new

    def close(self, turn: int, try_: int) -> None:
        """The try is over: nothing of it is new any more."""
        if (turn, try_ + 1) > (self.turn, self.try_):
            self.turn, self.try_, self.offsets = turn, try_ + 1, {}
