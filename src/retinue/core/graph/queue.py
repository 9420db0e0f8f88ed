"""The nodes that may start, in the order of a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Literal

from retinue.core.graph.state import NodeState

Strategy = Literal["flow", "level", "sequence"]


class Queue:
    """Gives the next node. Under `level` that is none as long as something of a level above is not over, and under
    `sequence` as long as something that comes before it is not; people, who take no room, are asked first."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._nodes: Mapping[str, NodeState] = {}
        self._waiting: list[tuple[int, bool, int, int, str]] = []
        self._turns: list[tuple[int, str]] = []

    def know(self, nodes: Mapping[str, NodeState]) -> None:
        """Which nodes there are, also after some were added."""
        self._nodes = nodes
        if self._strategy != "flow":
            self._turns = [(self._turn(state), name) for name, state in nodes.items()]
            heapify(self._turns)

    def await_again(self, state: NodeState) -> None:
        """A node that was over is begun again."""
        if self._strategy != "flow":
            heappush(self._turns, (self._turn(state), state.name))

    def put(self, state: NodeState) -> None:
        """It may start, or one more of its items may."""
        key = self._turn(state), state.node.human is None, state.place.index, state.iteration, state.name
        heappush(self._waiting, key)

    def first(self) -> NodeState | None:
        """Whose turn it is. It stays the first until it is dropped or has nothing left to start."""
        while self._waiting:
            turn, _, _, iteration, name = self._waiting[0]
            state = self._nodes[name]
            if state.iteration == iteration and not state.phase.over and state.has_next:
                return None if self._is_before(turn) else state
            heappop(self._waiting)
        return None

    def drop(self) -> None:
        heappop(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def _turn(self, state: NodeState) -> int:
        match self._strategy:
            case "flow":
                return 0
            case "level":
                return state.place.depth
            case "sequence":
                return state.place.rank

    def _is_before(self, turn: int) -> bool:
        """Whether something that has its turn before is not over."""
        while self._turns and self._nodes[self._turns[0][1]].phase.over:
            heappop(self._turns)
        return bool(self._turns) and self._turns[0][0] < turn
