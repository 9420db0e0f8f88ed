"""What a graph wants done, and what it is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from retinue.core.graph.call import NodeCall
from retinue.core.graph.definition import Human
from retinue.core.outcome import Failure, Reason, Status


@dataclass(frozen=True, slots=True)
class Start:
    """Start a run."""

    call: NodeCall
    target: str
    input: object
    timeout: float | None = None
    of: int | None = None
    """How many items the node has."""
    cache: float | None = None
    """How old an earlier result may be that does as well."""


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Open a ticket."""

    call: NodeCall
    title: str
    human: Human


@dataclass(frozen=True, slots=True)
class Skip:
    """Say that a node will not run."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Cancel a run whose result is of no use any more, or close its ticket."""

    call: NodeCall


Action: TypeAlias = Start | AskPerson | Skip | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run of a node ended, and when."""

    call: NodeCall
    run_id: str
    status: Status
    reason: Reason
    error: Failure | None = None
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a person said."""

    call: NodeCall
    decision: str
    value: object = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the journal says was decided: nodes, with their iteration, that were begun and that were skipped. It holds,
    whatever the conditions would say now."""

    begun: frozenset[tuple[str, int]] = frozenset()
    skipped: frozenset[str] = frozenset()
