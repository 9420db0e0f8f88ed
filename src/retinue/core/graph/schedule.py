"""What a graph does next. Pure: it is told what ended, and says what is to be started, asked, skipped and stopped.

A graph that is resumed is told again what its journal says, in the order of the journal, and comes to where it was.
Each call does work in proportion to what changed, not to the size of the graph.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from retinue.core.graph.actions import Action, Answered, AskPerson, Ended, Recorded, Skip, Start, Stop
from retinue.core.graph.call import NodeCall
from retinue.core.graph.definition import GraphDefinition, OnError
from retinue.core.graph.following import followers
from retinue.core.graph.queue import Queue
from retinue.core.graph.shape import Shape, Trigger, regions_of, shape_of
from retinue.core.graph.spawning import Spawned, spawned_nodes, with_more
from retinue.core.graph.state import NodeState, Phase
from retinue.core.graph.values import Values
from retinue.core.outcome import Failure, Reason, Status
from retinue.errors import BadInput


@dataclass(frozen=True, slots=True)
class Arrived:
    """A result that is an item of another node, in the iteration that this was in; none of a run that failed."""

    follower: NodeState
    iteration: int
    item: int
    run_id: str | None


@dataclass
class Schedule:
    """A graph that runs. `only` are the nodes of a graph that is started in its middle."""

    graph: GraphDefinition
    values: Values
    recorded: Recorded = field(default_factory=Recorded)
    only: frozenset[str] | None = None
    nodes: dict[str, NodeState] = field(default_factory=dict, init=False)
    shape: Shape = field(init=False)
    stopped: NodeState | None = field(default=None, init=False)
    unloaded: list[NodeState] = field(default_factory=list, init=False)
    """Nodes that are over, and whose output somebody will ask for: it is to be put into `values` first."""
    arrived: list[Arrived] = field(default_factory=list, init=False)
    """Results that are items of another node: they are to be put into `values`, too."""

    def __post_init__(self) -> None:
        self._actions: list[Action] = []
        self._over: deque[NodeState] = deque()
        self._ready = Queue(self.graph.strategy)
        self._delayed: list[tuple[int, str, NodeCall]] = []
        self._put_off: set[NodeCall] = set()
        self._asked: set[NodeCall] = set()
        self._live = 0
        self._spawned: dict[str, Spawned] = {}
        self._reshape()
        if self.only is not None:
            self._leave_out(self.only)
        for state in list(self.nodes.values()):
            if state.phase is Phase.WAITING and self._is_resolved(state):
                self._decide(state)

    def _reshape(self) -> None:
        """See how the nodes hang together, also those that were added."""
        self.shape, _ = shape_of(self.graph.nodes)
        self._regions = regions_of(self.graph, self.shape)
        self._followers = followers(self.graph, self.shape)
        for name, place in self.shape.places.items():
            if name not in self.nodes:
                self.nodes[name] = NodeState(name, self.graph.nodes[name], place, open_needs=len(place.needs))
            self.nodes[name].place, self.nodes[name].node = place, self.graph.nodes[name]
        self._ready.know(self.nodes)
        self.values.know(self.graph, self.shape, self.nodes)

    def _leave_out(self, only: frozenset[str]) -> None:
        """A graph that is started in its middle: what comes before is given, and all else does not run."""
        for state in self.nodes.values():
            if state.name not in only:
                state.phase = Phase.COMPLETED if state.name in self.values.outputs else Phase.SKIPPED
                state.settled = True
        for name in only:
            self._count(self.nodes[name])

    # From outside

    @property
    def done(self) -> bool:
        """Nothing runs, waits or can begin any more."""
        return not (self._live or self._asked or self._over or (not self.stopped and (self._ready or self._put_off)))

    @property
    def unsettled(self) -> bool:
        """Something is over, and those that wait for it do not know yet."""
        return bool(self._over or self.unloaded or self.arrived)

    @property
    def next_due(self) -> int | None:
        """When something is to be tried again; where there is no room for it, that is not a matter of time."""
        return self._delayed[0][0] if self._put_off and not self.stopped and self._live < self._limit else None

    @property
    def live(self) -> int:
        return self._live

    @property
    def asking(self) -> bool:
        return bool(self._asked)

    def advance(self, now: int) -> list[Action]:
        """What is to be done now. The outputs of `unloaded` nodes and the items that `arrived` are there."""
        self.unloaded.clear()
        self._take_arrived()
        while self._over and not self.unloaded:
            self._settle(self._over.popleft())
        if not self.unloaded:
            self._try_again(now)
            self._start_ready()
        actions, self._actions = self._actions, []
        return actions

    def ended(self, ended: Ended) -> None:
        """A run of a node has ended. One that nobody waits for any more changes nothing."""
        state = self._waiting_for(ended.call)
        if state is None:
            return
        del state.live[ended.call.item]
        self._live -= 1
        if ended.status is Status.COMPLETED:
            state.run_ids[ended.call.item] = ended.run_id
            self._one_over(state, ended.call.item)
        elif not (self.stopped or self._tries_again(state, ended)):
            error = ended.error or Failure(kind=ended.reason.value, message=f"it ended as {ended.status.value}")
            self._fail_one(state, ended.call.item, ended.reason, error)

    def answered(self, answered: Answered) -> None:
        """A person has decided, or the time for that is over."""
        state = self._waiting_for(answered.call)
        if state is None or answered.call not in self._asked:
            return
        self._asked.discard(answered.call)
        state.live.clear()
        denied = answered.decision not in ("answered", "approved")
        if denied and (state.node.human is None or state.node.human.kind != "approve" or answered.decision != "denied"):
            why = f"nobody answered ({answered.decision}{f': {answered.message}' if answered.message else ''})"
            self._fail_one(state, None, Reason.REJECTED, Failure(kind=answered.decision, message=why))
            return
        if state.node.human and state.node.human.kind == "approve":
            state.answer = {"approved": not denied, "message": answered.message}
        else:
            state.answer = answered.value
        self._end(state, Phase.COMPLETED)

    def influenced(self, node: str) -> frozenset[str]:
        """A node and all that depends on it, also by way of loops."""
        found, ahead = {node}, [node]
        while ahead:
            name = ahead.pop()
            for other in (*self.shape.places[name].dependents, *self._regions.get(name, ())):
                if other not in found:
                    found.add(other)
                    ahead.append(other)
        return frozenset(found)

    def waits_for(self, call: NodeCall) -> bool:
        return self._waiting_for(call) is not None

    def _waiting_for(self, call: NodeCall) -> NodeState | None:
        state = self.nodes.get(call.node)
        return state if state and state.iteration == call.iteration and state.live.get(call.item) == call else None

    # One run is over

    def _tries_again(self, state: NodeState, ended: Ended) -> bool:
        """After a failure: another try after a while, or the fallback."""
        retry, call = state.node.retry, ended.call
        most = retry.tries if retry else 1
        if retry and call.try_ < most and ended.reason in retry.only:
            chance = random.Random(str(call)).random()  # the same when the graph is resumed
            due = ended.at + int(1000 * retry.delay_before(call.try_ + 1, chance))
            state.live[call.item] = call.again()
            self._put_off.add(call.again())
            heappush(self._delayed, (due, str(call.again()), call.again()))
            return True
        if state.node.fallback and call.try_ <= most and ended.reason is not Reason.CANCELLED:
            self._start(state, NodeCall(call.node, call.item, call.iteration, most + 1))
            return True
        return False

    def _try_again(self, now: int) -> None:
        while self._delayed and self._delayed[0][0] <= now and self._live < self._limit and not self.stopped:
            _, _, call = heappop(self._delayed)
            if call in self._put_off:
                self._put_off.discard(call)
                self._start(self.nodes[call.node], call)

    def _fail_one(self, state: NodeState, item: int | None, reason: Reason, error: Failure) -> None:
        state.failed[item] = error
        state.error, state.reason = state.error or error, state.reason or reason
        if state.items is not None and self.policy_of(state) != "stop":
            self._one_over(state, item)
        else:
            self._end(state, Phase.FAILED)

    def _one_over(self, state: NodeState, item: int | None) -> None:
        """One of its runs is over for good."""
        if item is not None:
            self._hand_on(state, item)
        if state.left == 0:
            failed = bool(state.failed) and (state.items is None or self.policy_of(state) == "skip_dependents")
            self._end(state, Phase.FAILED if failed else Phase.COMPLETED)
        elif state.has_next:
            self._ready.put(state)

    def _end(self, state: NodeState, phase: Phase) -> None:
        state.phase = phase
        self._stop_runs_of(state)
        if phase is Phase.FAILED and self.policy_of(state) == "stop" and not self.stopped:
            self.stopped = state
            for other in self.nodes.values():
                self._stop_runs_of(other)
        self._over.append(state)
        if self.values.lacks(state):
            self.unloaded.append(state)

    def _stop_runs_of(self, state: NodeState) -> None:
        """What still runs for a node is not waited for any more."""
        for call in state.live.values():
            if call in self._asked:
                self._asked.discard(call)
                self._actions.append(Stop(call))
            elif call in self._put_off:
                self._put_off.discard(call)
            else:
                self._live -= 1
                self._actions.append(Stop(call))
        state.live.clear()

    def policy_of(self, state: NodeState) -> OnError:
        """What becomes of a failure. Where somebody waits for it, it stops nothing."""
        if state.node.on_error is None and any(
            trigger == Trigger(state.name, "failed")
            for dependent in state.place.dependents
            for trigger in self.nodes[dependent].place.triggers
        ):
            return "continue"
        return self.graph.policy_of(state.node)

    # A node is over

    def _settle(self, state: NodeState) -> None:
        """Tell those that wait for it; or begin a loop again."""
        if self.stopped or state.settled or not state.phase.over:  # it was begun again meanwhile
            return
        if state.phase is Phase.COMPLETED and not self._understood(state):
            return
        if self.unloaded:  # what it adds asks for outputs that are to be read first
            self._over.appendleft(state)
            return
        if state.node.again and state.phase is Phase.COMPLETED and self._is_to_be_repeated(state):
            self._repeat(state)
            return
        state.settled = True
        for name in state.place.dependents:
            if self.nodes[name].phase is Phase.WAITING:
                self._take(self.nodes[name], state)
                if self._is_resolved(self.nodes[name]):
                    self._decide(self.nodes[name])

    def _understood(self, state: NodeState) -> bool:
        """What a router chose, and what a node adds. If that makes no sense, the node has failed."""
        if state.understood:
            return True
        try:
            if state.node.choose:
                state.chosen = self.values.chosen(state)
            if state.node.spawn:
                self._add(state)
        except BadInput as error:
            state.error, state.reason = _failure(error), Reason.INVALID
            self._end(state, Phase.FAILED)
            return False
        state.understood = True
        return True

    def _count(self, state: NodeState) -> None:
        """Begin to wait: what those that it waits for have come to already counts."""
        state.open_needs, state.won, state.barred = len(state.place.needs), 0, ""
        for name in state.place.needs:
            if self.nodes[name].settled:
                self._take(state, self.nodes[name])

    def _take(self, state: NodeState, source: NodeState) -> None:
        """One that it waits for is over."""
        state.open_needs -= 1
        if state.place.triggers:
            state.won += any(self.values.happened(trigger, source) for trigger in state.place.triggers)
        elif source.phase is Phase.COMPLETED:
            state.won += source.name in state.node.needs
        elif source.phase is Phase.FAILED and self.policy_of(source) == "skip_dependents":
            state.barred = state.barred or source.name
        elif source.phase is Phase.SKIPPED:
            state.barred = state.barred or source.barred

    def _is_resolved(self, state: NodeState) -> bool:
        """Whether it can be said if it runs: all came that it waits for, or as many as it needs."""
        enough = 1 if state.place.triggers else state.node.join
        if enough and state.won >= enough and all(self.nodes[router].settled for router in state.place.routers):
            return True
        return state.open_needs == 0

    def _decide(self, state: NodeState) -> None:
        """Its needs are resolved: whether it runs."""
        begun = (state.name, state.iteration) in self.recorded.begun
        if state.key in self.recorded.skipped and not begun:
            self._skip(state, "")
            return
        try:
            why = "" if begun else self._against(state)
            if not why:
                self._leave_late_branches(state)
                self._ready_now(state)
                return
        except BadInput as error:
            self._fail_one(state, None, Reason.INVALID, _failure(error))
            return
        self._skip(state, why)

    def _against(self, state: NodeState) -> str:
        """Why it does not run; nothing when it does."""
        place, join = state.place, state.node.join
        needs = [self.nodes[name] for name in place.needs]
        if place.triggers and not state.won:
            return "nothing of what it waits for has happened"
        if join and state.won < join:
            return f"only {state.won} of its branches came, and it waits for {join}"
        if not join and state.barred and not place.triggers:
            return f"{state.barred} failed"
        if needs and all(need.phase in (Phase.SKIPPED, Phase.CANCELLED) for need in needs):
            return "all that it needs was skipped"
        if (spawned := self._spawned.get(state.name)) and state.name not in self.nodes[spawned.source].added:
            return f"{spawned.source} did not add it again"
        for router in place.routers:
            if state.name not in (self.nodes[router].chosen or ()):
                return f"{router} did not choose it"
        return "" if self.values.condition_holds(state) else "its condition does not hold"

    def _skip(self, state: NodeState, why: str) -> None:
        state.phase, state.why = Phase.SKIPPED, why
        if why:
            self._actions.append(Skip(state.key, why))
        self._over.append(state)

    def _ready_now(self, state: NodeState) -> None:
        state.items = self.values.items_of(state)
        if state.items is not None and not state.items:
            self.values.outputs[state.name] = []  # those that wait for it look at once
            self._end(state, Phase.COMPLETED)
            return
        state.phase = Phase.READY
        self._ready.put(state)
        if state.items is not None:
            for name in self._followers.get(state.name, ()):
                follower = self.nodes[name]
                if follower.phase is Phase.WAITING:
                    follower.items, follower.coming = [None] * state.size, deque()
                    follower.phase = Phase.READY

    # Items that come one by one

    def _hand_on(self, state: NodeState, item: int) -> None:
        """What a node gave for an item is an item of those that follow it; where it failed, that is nothing."""
        for name in self._followers.get(state.name, ()):
            follower = self.nodes[name]
            if follower.coming is not None:
                self.arrived.append(Arrived(follower, follower.iteration, item, state.run_ids.get(item)))

    def _take_arrived(self) -> None:
        for one in self.arrived:
            follower = one.follower
            if follower.iteration == one.iteration and not follower.phase.over:
                assert follower.items is not None
                assert follower.coming is not None
                follower.items[one.item] = self.values.came.get(one.run_id) if one.run_id else None
                follower.coming.append(one.item)
                self._ready.put(follower)
        self.arrived.clear()
        self.values.came.clear()

    def _is_needed(self, state: NodeState) -> bool:
        """Whether somebody waits for it, or for its items."""
        waiting = (self.nodes[name] for name in state.place.dependents)
        return any(one.phase is Phase.WAITING or (one.coming is not None and not one.phase.over) for one in waiting)

    # Joins

    def _leave_late_branches(self, state: NodeState) -> None:
        """A join that waits for some of its branches needs the others no more, and if nobody else does, they stop."""
        if state.node.late == "leave" or state.open_needs == 0:
            return
        state.phase = Phase.READY
        ahead = [name for name in state.place.needs if not self.nodes[name].phase.over]
        while ahead:
            late = self.nodes[ahead.pop()]
            if late.phase.over or self._is_needed(late):
                continue
            late.phase = Phase.CANCELLED if late.phase is Phase.RUNNING else Phase.SKIPPED
            late.why, late.settled = f"{state.name} does not wait for it", True
            self._stop_runs_of(late)
            self._actions.append(Skip(late.key, late.why))
            ahead += (name for name in late.place.needs if not self.nodes[name].phase.over)

    # Loops

    def _is_to_be_repeated(self, state: NodeState) -> bool:
        again = state.node.again
        assert again
        first = self.nodes[again.from_]
        if (first.name, first.iteration + 1) in self.recorded.begun:
            return True
        if self.values.rounds.get(state.name, 0) >= again.at_most:
            return False
        try:
            return self.values.repeats(state)
        except BadInput as error:
            state.error, state.reason = _failure(error), Reason.INVALID
            self._end(state, Phase.FAILED)
            return False

    def _repeat(self, deciding: NodeState) -> None:
        region = [self.nodes[name] for name in self._regions[deciding.name]]
        self.values.round_of(deciding, {state.name for state in region})
        previous = {state.name: self.values.previous(state, deciding) for state in region}
        for state in region:
            self._stop_runs_of(state)
            self.values.forget(state)
            state.begin_again(previous[state.name])
            self._ready.await_again(state)
        for state in region:
            self._count(state)
        for state in region:
            if state.phase is Phase.WAITING and self._is_resolved(state):
                self._decide(state)

    # Nodes that nodes add

    def _add(self, state: NodeState) -> None:
        """Nodes that it added in an earlier iteration may come again; they are what it says of them now."""
        mine = {name for name, spawned in self._spawned.items() if spawned.source == state.name}
        depth = self._spawned[state.name].depth + 1 if state.name in self._spawned else 1
        more = spawned_nodes(
            self.graph, state.name, self.values.output_of(state), depth, mine, so_far=len(self._spawned)
        )
        state.added = frozenset(more)
        if not more:
            return
        waiting = [name for name in state.place.dependents if self.nodes[name].phase is Phase.WAITING]
        self.graph = with_more(self.graph, more, state.name, [name for name in waiting if name not in mine])
        self._spawned |= dict.fromkeys(more, Spawned(state.name, depth))
        self._reshape()
        for name in {**dict.fromkeys(waiting), **more}:
            self._count(self.nodes[name])
        self.unloaded += (other for other in self.nodes.values() if self.values.lacks(other))

    # Starting

    @property
    def _limit(self) -> int:
        return 1 if self.graph.strategy == "sequence" else self.graph.limits.parallel

    def _start_ready(self) -> None:
        """Start what can begin, in order, as far as there is room."""
        while (state := self._ready.first()) and not self.stopped:
            if state.node.human:
                self._ready.drop()
                self._ask(state)
            elif self._live >= self._limit:
                return
            elif len(state.live) >= (state.node.parallel or self._limit):
                self._ready.drop()  # it comes again when one of its items is over
            else:
                self._start(state, NodeCall(state.name, state.take_next(), state.iteration))

    def _start(self, state: NodeState, call: NodeCall) -> None:
        state.phase = Phase.RUNNING
        most = state.node.retry.tries if state.node.retry else 1
        target = state.node.fallback if call.try_ > most else state.node.run
        assert target
        try:
            given = self.values.input_of(state, call.item)
        except BadInput as error:
            state.live.pop(call.item, None)
            self._fail_one(state, call.item, Reason.INVALID, _failure(error))
            return
        state.live[call.item] = call
        self._live += 1
        of = None if state.items is None else len(state.items)
        self._actions.append(Start(call, target, given, state.node.timeout, of, state.node.cache))

    def _ask(self, state: NodeState) -> None:
        assert state.node.human
        state.phase, state.next_item = Phase.RUNNING, 1
        call = NodeCall(state.name, None, state.iteration)
        try:
            title = self.values.title_of(state)
        except BadInput as error:
            self._fail_one(state, None, Reason.INVALID, _failure(error))
            return
        state.live[None] = call
        self._asked.add(call)
        self._actions.append(AskPerson(call, title, state.node.human))


def _failure(error: BadInput) -> Failure:
    return Failure(kind=type(error).__name__, message=str(error))
