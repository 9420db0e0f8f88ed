"""What a run of a node is called: `NODE[ITEM]#ITERATION.TRY`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_said = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[(\d+)\])?#(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class NodeCall:
    """One run of a node: of which item, in which iteration of its loop, for the how manieth time."""

    node: str
    item: int | None = None
    iteration: int = 1
    try_: int = 1

    def __str__(self) -> str:
        item = "" if self.item is None else f"[{self.item}]"
        return f"{self.node}{item}#{self.iteration}.{self.try_}"

    @classmethod
    def parse(cls, call_id: str) -> NodeCall | None:
        """Nothing for a call id that is none of a node's."""
        found = _said.fullmatch(call_id)
        if found is None:
            return None
        item = int(found[2]) if found[2] is not None else None
        return cls(found[1], item, int(found[3]), int(found[4]))

    def again(self) -> NodeCall:
        return replace(self, try_=self.try_ + 1)
