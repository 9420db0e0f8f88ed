"""The nodes of a graph in words: each by its name, those that are run for many items with how far they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from retinue.cli.show import lasted
from retinue.core import events as e
from retinue.core.graph.call import NodeCall
from retinue.core.graph.progress import Progress
from retinue.core.outcome import Status

MOST_FAILURES_SHOWN = 5
ENOUGH_FOR_AN_ESTIMATE = 3


@dataclass(frozen=True, slots=True)
class Told:
    """What an event says of a node. `began` is there as long as it is under way; without a mark nothing has happened
    that is worth a line."""

    key: str
    name: str
    more: str = ""
    began: int | None = None
    mark: str = ""
    style: str = ""
    happened: str = ""
    """What the line says, where that is not all that is to be known of the node."""


@dataclass(slots=True)
class Items:
    """A node that is run for many items: which have ended, and how."""

    of: int
    began: int
    target: str
    running: int = 0
    done: set[int | None] = field(default_factory=set)
    failed: set[int | None] = field(default_factory=set)

    @property
    def ended(self) -> int:
        return len(self.done) + len(self.failed)

    def words(self, now: int, *, over: bool = False) -> str:
        """`3 of 10 · 2 running · 1 failed · about 5 s left`"""
        estimate = ""
        if self.ended >= ENOUGH_FOR_AN_ESTIMATE and not over:
            left = (now - self.began) * (self.of - self.ended) // self.ended
            estimate = f"about {lasted(left)} left" if left >= 1000 else ""
        said = [
            f"{len(self.done):,} of {self.of:,}",
            f"{self.running} running" if self.running else "",
            f"{len(self.failed):,} failed" if self.failed else "",
            estimate,
        ]
        return " · ".join(filter(None, said))


@dataclass(slots=True)
class Nodes:
    """Follows the nodes of graphs. What the runs of items do is not told one by one: there may be very many."""

    muted: set[str] = field(default_factory=set)
    _items: dict[tuple[str, str], Items] = field(default_factory=dict)
    _alone: dict[str, tuple[int, str]] = field(default_factory=dict)
    _first_target: dict[tuple[str, str], str] = field(default_factory=dict)

    def mute(self, event: e.Event) -> bool:
        """Whether nothing is told of what a run does, and of what runs below it."""
        if event.run_id not in self.muted:
            return False
        if isinstance(event.data, e.ChildStarted):
            self.muted.add(event.data.run_id)
        if isinstance(event.data, e.RunFinished):
            self.muted.discard(event.run_id)
        return not isinstance(event.data, e.TicketOpened | e.TicketClosed)

    def take(self, event: e.Event) -> Told | None:
        """What a graph's event says; nothing when it is not about a node."""
        match event.data:
            case e.NodeSkipped(node=node, why=why):
                name, _, iteration = node.partition("#")
                return Told(node, _named(name, int(iteration or 1)), why, mark="–", style="dim")
            case e.ChildStarted(call_id=call_id) as data if call := NodeCall.parse(call_id):
                return self._begins(event, call, data)
            case e.ChildFinished(call_id=call_id) as data if call := NodeCall.parse(call_id):
                return self._ends(event, call, data)
            case _:
                return None

    def _begins(self, event: e.Event, call: NodeCall, data: e.ChildStarted) -> Told:
        name, key = _named(call.node, call.iteration), _key(call)
        if data.of is None:
            instead = self._first_target.setdefault((event.run_id, call.node), data.target) != data.target
            notes = [f"{data.target} instead" if instead else data.target]
            notes += [f"try {call.try_}"] if call.try_ > 1 and not instead else []
            self._alone[data.run_id] = event.at, " · ".join(notes)
            return Told(key, name, " · ".join(notes), began=event.at)
        self.muted.add(data.run_id)
        items = self._items.setdefault((event.run_id, key), Items(data.of, event.at, data.target))
        items.failed.discard(call.item)  # it is tried again
        items.running += 1
        return Told(key, name, items.words(event.at), began=items.began)

    def _ends(self, event: e.Event, call: NodeCall, data: e.ChildFinished) -> Told:
        name, key = _named(call.node, call.iteration), _key(call)
        items = self._items.get((event.run_id, key))
        if items is None or call.item is None:
            began, notes = self._alone.pop(data.run_id, (event.at, ""))
            return _over(Told(key, name, _joined(notes, lasted(event.at - began))), data.status)
        items.running -= 1
        (items.done if data.status is Status.COMPLETED else items.failed).add(call.item)
        if items.ended == items.of and not items.running:
            more = _joined(items.target, items.words(event.at, over=True), lasted(event.at - items.began))
            mark, style = ("!", "yellow") if items.failed else ("✓", "green")
            return Told(key, name, more, mark=mark, style=style)
        if data.status is Status.FAILED and len(items.failed) <= MOST_FAILURES_SHOWN:
            happened = f"item {call.item} failed"
            return Told(key, name, items.words(event.at), items.began, "✗", "red", happened)
        return Told(key, name, items.words(event.at), began=items.began)


def progress_words(progress: Progress) -> str:
    """`search: 3 of 10 done, 2 running, 1 failed`"""
    said = [f"{progress.phase.value}" if progress.of is None else f"{len(progress.done):,} of {progress.of:,} done"]
    if progress.of is not None:
        said += [f"{progress.running} running"] if progress.running else []
        said += [f"{len(progress.failed):,} failed"] if progress.failed else []
    return f"{_named(progress.node, progress.iteration)}: {', '.join(said)}"


def _over(told: Told, status: Status) -> Told:
    match status:
        case Status.COMPLETED:
            mark, style, more = "✓", "green", told.more
        case Status.CANCELLED:
            mark, style, more = "–", "dim", _joined("not waited for any more", told.more)
        case _:
            mark, style, more = "✗", "red", _joined(status.value.replace("_", " "), told.more)
    return Told(told.key, told.name, more, mark=mark, style=style)


def _key(call: NodeCall) -> str:
    return f"{call.node}#{call.iteration}"


def _named(node: str, iteration: int) -> str:
    return node if iteration == 1 else f"{node} (round {iteration})"


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)
