"""How processes on one database tell each other that there is something to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What another process has committed. It only says where to look: a lost one breaks nothing."""

    queued: bool = False
    signalled: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


class Bus(Protocol):
    """Carries notices between processes. Without one, they look now and then."""

    async def close(self) -> None: ...
