"""How a run stands, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Where a run is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT})


class Reason(StrEnum):
    """Why a run ended as it did."""

    GOAL = "goal"
    MAX_TURNS = "max_turns"
    TIMEOUT = "timeout"
    NO_COMPLETION = "no_completion"
    BUDGET = "budget"
    LOOP = "loop"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    INVALID = "invalid"
    PROVIDER_ERROR = "provider_error"
    TOOL_ERROR = "tool_error"
    REMOTE_ERROR = "remote_error"
    LOST = "lost"
    INTERNAL = "internal"


class Waits(StrEnum):
    """What a waiting run waits for."""

    APPROVAL = "approval"
    INPUT = "input"
    CLIENT_TOOL = "client_tool"
    AUTH = "auth"
    CHILDREN = "children"
    TIMER = "timer"
    REMOTE = "remote"
    PAUSED = "paused"


class Effect(StrEnum):
    """What calling something again would do."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    WRITE = "write"


class Durability(StrEnum):
    """What a platform promises after a crash."""

    EFFECTS = "effects"
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What model calls consumed. `estimated` says that some of it was counted by us."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    thinking_tokens: int = 0
    cost_usd: float = 0.0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            thinking_tokens=self.thinking_tokens + other.thinking_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong, without internals."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. `output` is there only when it completed; what there was otherwise is `partial`."""

    status: Status
    reason: Reason
    output: object = None
    recovered: bool = False
    partial: object = None
    error: Failure | None = None
    usage: Usage = Usage()
    answer_of: str | None = None
    """The earlier run whose answer was given again."""

    @classmethod
    def completed(cls, output: object, usage: Usage = Usage()) -> Outcome:
        return cls(status=Status.COMPLETED, reason=Reason.GOAL, output=output, usage=usage)

    @classmethod
    def failed(cls, reason: Reason, kind: str, message: str, partial: object = None) -> Outcome:
        return cls(status=Status.FAILED, reason=reason, error=Failure(kind=kind, message=message), partial=partial)
