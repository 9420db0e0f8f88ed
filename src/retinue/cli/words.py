"""Why a run is where it is, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from retinue.cli import brief
from retinue.cli.nodes import progress_words
from retinue.cli.show import ago, asks, at, failure, how_to_close, lasted, one_line, plural, tokens
from retinue.core.graph.progress import progress_of
from retinue.core.graph.state import Phase
from retinue.core.outcome import Reason, Status
from retinue.core.run import Call
from retinue.core.target import Target
from retinue.service import Because, Explanation, Life, TicketRow, WorkerView

Command = Callable[[str], str]
MOST_NODES = 10


def why(facts: Explanation) -> list[str]:
    """What keeps a run where it is, most important first."""
    return [line for line in _WORDS[facts.because](facts) if line]


def next_steps(facts: Explanation, command: Command) -> list[tuple[str, str]]:
    """What can be done about it: in words, and the command."""
    run_id = facts.row.id
    steps: list[tuple[str, str]] = []
    match facts.because:
        case Because.NO_WORKER | Because.CANNOT_LOAD | Because.LEFT_BEHIND:
            steps += [("start one", command("worker"))] if not _takers(facts) else []
        case Because.PERSON:
            for ticket in facts.tickets:
                steps.append((_to_close(ticket), command(how_to_close(ticket))))
                steps.append(("refuse", command(f"approvals deny {ticket.id}")))
        case Because.CHILDREN:
            steps += [("why it waits", command(f"runs explain {child.id}")) for child in facts.children[:3]]
        case Because.PAUSED:
            steps.append(("resume", command(f"runs resume {run_id}")))
        case Because.ENDED:
            return _after_the_end(facts, command)
        case _:
            pass
    return [*steps, ("watch", command(f"runs watch {run_id}")), ("stop it", command(f"runs cancel {run_id}"))]


def _to_close(ticket: TicketRow) -> str:
    return "approve" if ticket.kind == "approval" else "answer"


def _after_the_end(facts: Explanation, command: Command) -> list[tuple[str, str]]:
    run_id = facts.row.id
    steps = [("look", command(f"runs show {run_id}"))]
    if facts.row.status is not Status.COMPLETED:
        steps.append(("go on at the failure", command(f"runs retry {run_id}")))
        steps.append(("begin anew", command(f"runs retry {run_id} --fresh")))
    return [*steps, ("go on from an event", command(f"runs fork {run_id} --at SEQ"))]


def worker_name(view: WorkerView) -> str:
    return f"{view.row.id} (process {view.row.pid} on {view.row.host})"


def _takers(facts: Explanation) -> list[WorkerView]:
    return [view for view in facts.workers if view.life is Life.ALIVE and view.takes_any]


def requirement(facts: Explanation) -> str:
    """What a worker must have, as its requirement set says."""
    wants = {key: value for key, value in facts.requires.items() if key != "platform"}
    return ", ".join(f"{key} {one_line(value)}" for key, value in wants.items()) or "nothing special"


def _waits_since(facts: Explanation) -> str:
    since = facts.journal.rested_at or facts.row.created_at
    return ago(since, facts.now)


def _not_due(facts: Explanation) -> Iterator[str]:
    yield f"It is queued and not due until {at(facts.row.due_at, facts.now)} ({ago(facts.row.due_at, facts.now)})."


def _no_worker(facts: Explanation) -> Iterator[str]:
    yield f"It was queued {_waits_since(facts)}, and no worker is alive."
    if draining := [view for view in facts.workers if view.life is Life.DRAINING]:
        yield f"{plural(len(draining), 'worker')} still alive but draining: nothing more is begun there."
    yield _only_this_tree(facts)


def _only_this_tree(facts: Explanation) -> str:
    busy = [view for view in facts.workers if view.life is Life.ALIVE and not view.takes_any]
    return f"{plural(len(busy), '`retinue run`')} at work, each on its own tree only." if busy else ""


def _cannot_load(facts: Explanation) -> Iterator[str]:
    alive = _takers(facts)
    yield f"It was queued {_waits_since(facts)}, and no live worker can load it: it requires {requirement(facts)}."
    yield f"Alive: {', '.join(worker_name(view) for view in alive[:3])}."
    yield "Start one in the folder where that code is. A worker that started before the code was there does not see it."


def _owner_limit(facts: Explanation) -> Iterator[str]:
    owner = repr(facts.row.owner) if facts.row.owner else "without an owner"
    yield (
        f"It is queued: {plural(facts.owner_running, 'run')} of owner {owner} at work already, and no more than "
        f"{facts.owner_allowed} may be at once."
    )


def _behind(facts: Explanation) -> Iterator[str]:
    yield f"It is queued with priority {facts.row.priority}, and all workers that can load it have their hands full."
    yield _ahead(facts)


def _ahead(facts: Explanation) -> str:
    if not facts.ahead:
        return "It is the next."
    said = ", ".join(f"{count:,} of priority {priority}" for priority, count in sorted(facts.ahead.items())[::-1])
    return f"Ahead of it: {said}."


def _about_to_start(facts: Explanation) -> Iterator[str]:
    yield "It is queued, and a worker that can load it has room: it is about to start."
    if facts.ahead:
        yield _ahead(facts)


def _running(facts: Explanation) -> Iterator[str]:
    since = facts.journal.held_since or facts.row.started_at or facts.row.created_at
    assert facts.worker
    until = facts.worker.row.lease_until
    yield f"It runs on {worker_name(facts.worker)} since {at(since, facts.now)} ({ago(since, facts.now)})."
    yield f"The worker's lease is good until {at(until, facts.now)}; it is renewed as long as it lives."
    yield from _so_far(facts)
    yield from _under_way(facts)
    if facts.worker.life is Life.DRAINING:
        yield "The worker is draining: the run goes on elsewhere after this step."
    if facts.row.cancelled:
        yield "It was told to stop."


def _under_way(facts: Explanation) -> Iterator[str]:
    state = facts.journal.state
    for call, began in facts.journal.under_way:
        step = f"{_name(facts, call)} ({call.effect}{f', try {call.try_}' if call.try_ > 1 else ''})"
        if facts.because is Because.RUNNING:
            yield f"It is in {step} for {lasted(max(0, facts.now - began))}."
        else:
            yield f"It was in {step}."
    if state.turn_open and facts.journal.turn_at:
        yield from _asking(facts, facts.journal.turn_at)
    if facts.children:
        yield f"{plural(len(facts.children), 'child run')} below it not ended yet."
    yield from _nodes(facts)


def _nodes(facts: Explanation) -> Iterator[str]:
    """Of a graph: what is under way, and what has failed."""
    if Target.parse(facts.row.target).kind == "graph":
        at_work = (Phase.RUNNING, Phase.FAILED)
        moving = [one for one in progress_of(facts.journal.state, ()).values() if one.phase in at_work]
        yield from (f"  {progress_words(progress)}" for progress in moving[:MOST_NODES])


def _name(facts: Explanation, call: Call) -> str:
    """A model's call goes by its tool and arguments, a step of code by its place in it."""
    if call.call_id not in facts.journal.state.asked:
        return f"step {call.call_id}"
    return f"the call {brief.name(call.tool)}({brief.arguments(call.arguments)})"


def _asking(facts: Explanation, since: int) -> Iterator[str]:
    """The turn that is open: for how long, and what is waited for after a try that failed."""
    journal, turn = facts.journal, f"turn {facts.journal.state.turn}"
    if journal.retry is None:
        yield f"The model {journal.asked} is answering ({turn}) for {lasted(max(0, facts.now - since))}."
        return
    kept_away = "its breaker is open" if journal.retry.error.kind == "CircuitOpen" else "the last try failed"
    when = "is asked again" if journal.retry_at <= facts.now else f"is asked again {ago(journal.retry_at, facts.now)}"
    yield f"The model {journal.asked} {when} ({turn}, try {journal.state.try_}); {kept_away}:"
    yield f"  {one_line(failure(journal.retry.error))}"


def _so_far(facts: Explanation) -> Iterator[str]:
    """How far an agent is."""
    state = facts.journal.state
    if not state.turn:
        return
    said = [f"in turn {state.turn}", tokens(state.usage)]
    if state.recovery:
        said.insert(1, f"its last, since a limit was reached ({state.limit})")
    if state.queued and state.queued.max_minutes is not None:
        left = round(state.queued.max_minutes * 60_000) - facts.active_ms
        said.append(f"{lasted(max(0, left))} of its time left")
    yield f"It is {', '.join(filter(None, said))}."


def _left_behind(facts: Explanation) -> Iterator[str]:
    who = worker_name(facts.worker) if facts.worker else f"a worker ({facts.row.worker_id}) that is gone"
    yield f"It was left behind by {who}."
    yield from _under_way(facts)
    if _takers(facts):
        yield "A live worker takes it up in a moment: on the same host at once, else when its lease is over."
    else:
        yield "No worker is alive to take it up."


def _person(facts: Explanation) -> Iterator[str]:
    for ticket in facts.tickets:
        until = f", until {at(ticket.expires_at, facts.now)}" if ticket.expires_at else ""
        asked = ago(ticket.opened_at, facts.now)
        yield f"It asked a person {asked}{until}: {asks(ticket)} ({ticket.id})"
    if not facts.tickets:
        yield f"It waits for {facts.row.waits_for or 'something outside'}."
    yield from _so_far(facts)


def _children(facts: Explanation) -> Iterator[str]:
    yield f"It waits for {plural(len(facts.children), 'run')} below it."
    for child in facts.children[:5]:
        waits = f" for {child.waits_for}" if child.waits_for else ""
        yield f"  {child.target}  {child.id}  {child.status}{waits}"
    yield from _nodes(facts)


def _timer(facts: Explanation) -> Iterator[str]:
    wake = facts.row.wake_at
    yield f"It sleeps until {at(wake, facts.now)} ({ago(wake, facts.now)})." if wake else "It waits for a time."
    if not _takers(facts):
        yield "No worker is alive: one has to be there by then."
    yield from _nodes(facts)


def _paused(facts: Explanation) -> Iterator[str]:
    yield f"It was paused {_waits_since(facts)}."


def _remote(facts: Explanation) -> Iterator[str]:
    yield f"It waits for work elsewhere; that began {_waits_since(facts)}."


def _ended(facts: Explanation) -> Iterator[str]:
    ended, row = facts.outcome, facts.row
    assert ended
    when = f" {ago(row.finished_at, facts.now)}" if row.finished_at else ""
    error = f": {one_line(failure(ended.error))}" if ended.error else ""
    yield f"It ended{when} as {row.status.replace('_', ' ')} ({_REASONS.get(ended.reason, ended.reason)}){error}"
    if ended.recovered:
        yield "It hit a limit and still answered in its last turn."
    if ended.answer_of:
        yield f"It was asked what {ended.answer_of} had been asked, and gave that answer again."
    for call in facts.journal.state.calls.values():
        if call.unknown:
            name = f"A call of {brief.name(call.tool)}" if facts.journal.state.turn else f"Step {call.call_id}"
            yield f"{name} was interrupted, and nobody can tell whether it took effect (key {call.key})."
    if said := tokens(ended.usage):
        yield f"It used {said}."


_REASONS = {
    Reason.GOAL: "it reached its goal",
    Reason.TIMEOUT: "its time was over",
    Reason.CANCELLED: "somebody cancelled it",
    Reason.INVALID: "its code or what was asked broke a rule",
    Reason.TOOL_ERROR: "its code or a step raised an error",
    Reason.PROVIDER_ERROR: "the model did not answer",
    Reason.LOST: "its workers died too often",
    Reason.MAX_TURNS: "it had no turns or calls left",
    Reason.NO_COMPLETION: "it never said that it was done",
    Reason.BUDGET: "its budget was spent",
    Reason.LOOP: "it did the same again and again",
    Reason.REJECTED: "it was rejected",
    Reason.REMOTE_ERROR: "what it ran on failed",
    Reason.INTERNAL: "an error inside Retinue",
}

_WORDS: dict[Because, Callable[[Explanation], Iterator[str]]] = {
    Because.NOT_DUE: _not_due,
    Because.NO_WORKER: _no_worker,
    Because.CANNOT_LOAD: _cannot_load,
    Because.OWNER_LIMIT: _owner_limit,
    Because.BEHIND: _behind,
    Because.ABOUT_TO_START: _about_to_start,
    Because.RUNNING: _running,
    Because.LEFT_BEHIND: _left_behind,
    Because.PERSON: _person,
    Because.CHILDREN: _children,
    Because.TIMER: _timer,
    Because.PAUSED: _paused,
    Because.REMOTE: _remote,
    Because.ENDED: _ended,
}
