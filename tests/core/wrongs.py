"""What must not happen in a journal. Each function names a wrong and finds its cases in a legal journal:
what was recorded until then, and the event that cannot follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from retinue.core import events as e
from retinue.core.messages import Text
from retinue.core.outcome import Effect, Failure, Reason, Status, Waits
from tests.core.journals import ENDS, PEOPLE, Draft

Case = tuple[tuple[e.Event, ...], e.Event]
WRONGS: list[Callable[[list[Draft]], Iterator[Case]]] = []

QUEUED = e.RunQueued(target="agent:a")
STARTED = e.RunStarted(worker="w")
RESUMED = e.RunResumed(worker="w", cause="timer")
WAITING = e.RunWaiting(reasons=(Waits.TIMER,))
CANCELLED = e.RunFinished(status=Status.CANCELLED, reason=Reason.CANCELLED)
NOTED = e.Warned(code="x", message="X.")
FAILURE = Failure(kind="x", message="X.")
EVERY = (QUEUED, STARTED, RESUMED, WAITING, CANCELLED, NOTED)


def in_journal(find: Callable[[list[Draft]], Iterator[Case]]) -> Callable[[list[Draft]], Iterator[Case]]:
    """A wrong that is done to the journal as a whole."""
    WRONGS.append(find)
    return find


def at_point(find: Callable[[Draft], Iterable[e.Event]]) -> Callable[[Draft], Iterable[e.Event]]:
    """A wrong that may come after what is recorded at some point."""

    def found(drafts: list[Draft]) -> Iterator[Case]:
        for draft in drafts:
            for event in find(draft):
                yield draft.events, event

    found.__name__ = find.__name__
    WRONGS.append(found)
    return find


def while_running(find: Callable[[Draft], Iterable[e.EventData]]) -> Callable[[Draft], Iterable[e.EventData]]:
    """A wrong that the holder of a run might record."""

    def found(draft: Draft) -> Iterator[e.Event]:
        if draft.phase == "running":
            yield from map(draft.then, find(draft))

    found.__name__ = find.__name__
    at_point(found)
    return find


def renumbered(events: Iterable[e.Event]) -> tuple[e.Event, ...]:
    return tuple(replace(event, seq=seq, root_seq=seq) for seq, event in enumerate(events, 1))


def without(drafts: list[Draft], dropped: int, needed_by: int) -> Case:
    events = drafts[-1].events
    left = renumbered((*events[:dropped], *events[dropped + 1 : needed_by + 1]))
    return left[:-1], left[-1]


# the order of the journal


@in_journal
def an_event_is_missing(drafts: list[Draft]) -> Iterator[Case]:
    events = drafts[-1].events
    for n in range(len(events) - 1):
        yield events[:n], events[n + 1]


@in_journal
def an_event_comes_twice(drafts: list[Draft]) -> Iterator[Case]:
    for draft in drafts:
        yield draft.events, draft.events[-1]


@in_journal
def two_events_change_places(drafts: list[Draft]) -> Iterator[Case]:
    events = drafts[-1].events
    for n in range(len(events) - 1):
        yield events[:n], replace(events[n + 1], root_seq=events[n].root_seq)


@in_journal
def nothing_was_queued(drafts: list[Draft]) -> Iterator[Case]:
    if len(drafts) > 1:
        yield without(drafts, 0, 1)
    for data in EVERY[1:]:
        for attempt in (0, 1):
            yield (), Draft().then(data, attempt=attempt)


@in_journal
def the_claim_was_not_recorded(drafts: list[Draft]) -> Iterator[Case]:
    events = drafts[-1].events
    for n in range(1, len(events) - 1):
        claim, following = events[n].data, events[n + 1].data
        # An end is a claim of its own when nobody holds the run, and a crash leaves claims without a trace.
        if isinstance(claim, e.RunStarted) and not isinstance(following, e.RunFinished):
            yield without(drafts, n, n + 1)
        if isinstance(claim, e.RunResumed) and not isinstance(following, e.RunResumed | e.RunFinished):
            yield without(drafts, n, n + 1)


@in_journal
def what_began_was_not_recorded(drafts: list[Draft]) -> Iterator[Case]:
    """A call, ticket or child goes on that never began."""
    first: dict[tuple[str, str], int] = {}
    for n, event in enumerate(drafts[-1].events):
        match event.data:
            case e.ToolStarted(call_id=call_id, try_=1):
                first["call", call_id] = n
            case e.ToolStarted(call_id=call_id) | e.ToolFinished(call_id=call_id) if ("call", call_id) in first:
                yield without(drafts, first.pop(("call", call_id)), n)
            case e.TicketOpened(ticket_id=ticket_id, call_id=asker) if "?" not in asker:  # a call that asks goes on
                first["ticket", ticket_id] = n
            case e.TicketClosed(ticket_id=ticket_id) if ("ticket", ticket_id) in first:
                yield without(drafts, first["ticket", ticket_id], n)
            case e.ChildStarted(call_id=call_id):
                first["child", call_id] = n
            case e.ChildFinished(call_id=call_id):
                yield without(drafts, first["child", call_id], n)


@in_journal
def a_turns_beginning_or_try_was_not_recorded(drafts: list[Draft]) -> Iterator[Case]:
    last = None
    for n, event in enumerate(drafts[-1].events):
        if isinstance(event.data, e.TurnStarted):
            last = n
        elif isinstance(event.data, e.TurnInterrupted | e.ModelRetried | e.ModelResponded):
            assert last is not None
            between = drafts[-1].events[last:n]
            if not any(isinstance(other.data, e.RunWaiting) for other in between):  # only what broke off may rest
                yield without(drafts, last, n)
            last = n


# claims and attempts


@at_point
def queued_again(draft: Draft) -> Iterator[e.Event]:
    yield draft.then(QUEUED)
    yield draft.then(QUEUED, attempt=0)
    yield draft.then(QUEUED, attempt=draft.attempt + 1)


@at_point
def started_again(draft: Draft) -> Iterator[e.Event]:
    if draft.phase in ("running", "parked"):
        yield draft.then(STARTED)
        yield draft.then(STARTED, attempt=draft.attempt + 1)


@at_point
def resumed_before_it_was_started(draft: Draft) -> Iterator[e.Event]:
    if draft.phase == "queued":
        yield draft.then(RESUMED, attempt=draft.attempt + 1)


@at_point
def claimed_without_a_new_attempt(draft: Draft) -> Iterator[e.Event]:
    claim = STARTED if draft.phase == "queued" else RESUMED
    yield draft.then(claim)
    yield draft.then(claim, attempt=draft.attempt - 1)


@at_point
def written_by_somebody_who_does_not_hold_the_run(draft: Draft) -> Iterator[e.Event]:
    if draft.phase == "running":
        for data in (NOTED, WAITING, e.ToolStarted(call_id="new", tool="t"), CANCELLED):
            yield draft.then(data, attempt=draft.attempt - 1)
            yield draft.then(data, attempt=draft.attempt + 1)


@at_point
def written_while_nobody_holds_the_run(draft: Draft) -> Iterator[e.Event]:
    if draft.phase in ("queued", "parked"):
        for data in (
            NOTED,
            WAITING,
            e.ToolStarted(call_id="new", tool="t"),
            e.TurnStarted(turn=draft.turn + 1, model="m"),
        ):
            yield draft.then(data)
            yield draft.then(data, attempt=draft.attempt + 1)


@at_point
def ended_without_a_claim(draft: Draft) -> Iterator[e.Event]:
    if draft.phase in ("queued", "parked"):
        yield draft.then(CANCELLED)
        yield draft.then(CANCELLED, attempt=draft.attempt - 1)


@at_point
def something_after_the_end(draft: Draft) -> Iterator[e.Event]:
    if draft.phase == "over":
        for data in EVERY:
            yield draft.then(data)
            yield draft.then(data, attempt=draft.attempt + 1)


# parks and ends


@while_running
def parked_for_nothing(draft: Draft) -> Iterator[e.EventData]:
    yield e.RunWaiting(reasons=())


@while_running
def parked_while_a_write_is_under_way(draft: Draft) -> Iterator[e.EventData]:
    if draft.writes_open:
        yield WAITING


@while_running
def parked_while_a_turn_is_open(draft: Draft) -> Iterator[e.EventData]:
    if draft.turn_open and not draft.broken_off:
        yield WAITING


@while_running
def ended_while_a_call_is_under_way(draft: Draft) -> Iterator[e.EventData]:
    if draft.open_calls:
        yield from (CANCELLED, e.RunFinished(status=Status.COMPLETED, reason=Reason.GOAL, output=1))


@while_running
def ended_as_something_that_is_no_end(draft: Draft) -> Iterator[e.EventData]:
    for status in set(Status) - set(ENDS):
        yield e.RunFinished(status=status, reason=Reason.GOAL)


@while_running
def an_output_of_a_run_that_did_not_complete(draft: Draft) -> Iterator[e.EventData]:
    for status in set(ENDS) - {Status.COMPLETED}:
        yield e.RunFinished(status=status, reason=Reason.INTERNAL, output="half")


# calls


@while_running
def a_result_of_no_call(draft: Draft) -> Iterator[e.EventData]:
    yield e.ToolFinished(call_id="never made", ok=True)
    yield from (e.ToolFinished(call_id=call_id, ok=True) for call_id in draft.asked)


@while_running
def a_second_result(draft: Draft) -> Iterator[e.EventData]:
    for call_id in draft.ended_calls:
        yield e.ToolFinished(call_id=call_id, ok=True, result=1)
        yield e.ToolFinished(call_id=call_id, ok=False, error=FAILURE, unknown=True)


@while_running
def a_success_with_an_error(draft: Draft) -> Iterator[e.EventData]:
    for call_id in draft.open_calls:
        yield e.ToolFinished(call_id=call_id, ok=True, error=FAILURE)
        yield e.ToolFinished(call_id=call_id, ok=True, unknown=True)


@while_running
def a_call_made_twice_by_one_attempt(draft: Draft) -> Iterator[e.EventData]:
    for call_id, call in draft.open_calls.items():
        if call.attempt == draft.attempt and not call.asks:
            yield e.ToolStarted(call_id=call_id, tool=call.tool, effect=call.effect, try_=call.tries + 1)


@while_running
def a_call_made_again_after_its_result(draft: Draft) -> Iterator[e.EventData]:
    for call_id in draft.ended_calls:
        for try_ in (1, 2):
            yield e.ToolStarted(call_id=call_id, tool="look", try_=try_, effect=Effect.READ)


@while_running
def a_call_with_the_wrong_try(draft: Draft) -> Iterator[e.EventData]:
    yield e.ToolStarted(call_id="new", tool="look", try_=2)
    yield e.ToolStarted(call_id="new", tool="look", try_=0)
    for call_id, call in draft.open_calls.items():
        for try_ in (call.tries, call.tries + 2):
            yield e.ToolStarted(call_id=call_id, tool=call.tool, effect=call.effect, try_=try_)


@while_running
def a_refusal_of_a_call_that_was_made_or_refused(draft: Draft) -> Iterator[e.EventData]:
    for call_id in (*draft.open_calls, *draft.ended_calls):
        yield e.ToolRefused(call_id=call_id, tool="look", why="too late")


# turns


@while_running
def a_turn_inside_a_turn(draft: Draft) -> Iterator[e.EventData]:
    if draft.turn_open:
        yield e.TurnStarted(turn=draft.turn + 1, model="m")
        yield e.TurnStarted(turn=draft.turn, model="m")


@while_running
def a_turn_out_of_order(draft: Draft) -> Iterator[e.EventData]:
    for turn in (0, draft.turn, draft.turn + 2):
        yield e.TurnStarted(turn=turn, model="m")


@while_running
def a_turn_while_the_model_is_owed_results(draft: Draft) -> Iterator[e.EventData]:
    if draft.owed and not draft.turn_open:
        yield e.TurnStarted(turn=draft.turn + 1, model="m")


@while_running
def a_second_grace_turn(draft: Draft) -> Iterator[e.EventData]:
    if draft.recovering:
        yield e.RecoveryStarted(reason=Reason.TIMEOUT)


@while_running
def a_grace_turn_while_a_turn_is_open(draft: Draft) -> Iterator[e.EventData]:
    if draft.turn_open and not draft.broken_off:
        yield e.RecoveryStarted(reason=Reason.TIMEOUT)


@while_running
def more_replaced_than_was_said(draft: Draft) -> Iterator[e.EventData]:
    yield e.HistoryCompacted(upto=draft.messages + 1, summary="so far")


def said_of_a_turn(turn: int, try_: int) -> Iterator[e.EventData]:
    yield e.TurnInterrupted(turn=turn, try_=try_, cause="crash")
    yield e.ModelRetried(turn=turn, try_=try_, error=FAILURE)
    yield e.ModelResponded(turn=turn, try_=try_, parts=(Text(text="hi"),), model="m")


@while_running
def an_answer_while_no_turn_is_open(draft: Draft) -> Iterator[e.EventData]:
    if not draft.turn_open:
        yield from said_of_a_turn(draft.turn, draft.try_)
        yield from said_of_a_turn(draft.turn + 1, 1)


@while_running
def an_answer_of_another_turn_or_try(draft: Draft) -> Iterator[e.EventData]:
    if draft.turn_open:
        for turn, try_ in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            yield from said_of_a_turn(draft.turn + turn, draft.try_ + try_)


# people and children


@while_running
def a_ticket_opened_twice(draft: Draft) -> Iterator[e.EventData]:
    for ticket_id in (*draft.open_tickets, *draft.closed_tickets):
        yield e.TicketOpened(ticket_id=ticket_id, kind=PEOPLE[0], call_id="other")


@while_running
def a_ticket_closed_that_is_not_open(draft: Draft) -> Iterator[e.EventData]:
    for ticket_id in ("tkt_never", *draft.closed_tickets):
        yield e.TicketClosed(ticket_id=ticket_id, decision="approve")
        yield e.TicketClosed(ticket_id=ticket_id, decision="approve", signal=draft.signal + 1)


@while_running
def a_second_child_of_one_call(draft: Draft) -> Iterator[e.EventData]:
    for call_id in (*draft.open_children, *draft.ended_children):
        yield e.ChildStarted(call_id=call_id, run_id="run_other", target="agent:a")


@while_running
def a_child_ended_that_does_not_run(draft: Draft) -> Iterator[e.EventData]:
    for call_id, run_id in (("never", "run_never"), *draft.ended_children.items()):
        yield e.ChildFinished(call_id=call_id, run_id=run_id, status=Status.FAILED, reason=Reason.LOST)
        yield e.ChildFinished(
            call_id=call_id, run_id=run_id, status=Status.FAILED, reason=Reason.LOST, signal=draft.signal + 1
        )


@while_running
def a_child_ended_under_another_name_or_with_no_end(draft: Draft) -> Iterator[e.EventData]:
    for call_id, run_id in draft.open_children.items():
        yield e.ChildFinished(call_id=call_id, run_id="run_other", status=Status.FAILED, reason=Reason.LOST)
        yield e.ChildFinished(call_id=call_id, run_id=run_id, status=Status.RUNNING, reason=Reason.GOAL)


@while_running
def a_signal_taken_twice(draft: Draft) -> Iterator[e.EventData]:
    for signal in {draft.signal, draft.signal - 1}:
        yield replace(NOTED, signal=signal)
        yield e.SteerReceived(text="left", signal=signal)
        if not draft.turn_open and not draft.writes_open:
            yield replace(WAITING, signal=signal)
        if not draft.open_calls:
            yield replace(CANCELLED, signal=signal)
        for ticket_id in draft.open_tickets:
            yield e.TicketClosed(ticket_id=ticket_id, decision="approve", signal=signal)
        for call_id, run_id in draft.open_children.items():
            yield e.ChildFinished(
                call_id=call_id, run_id=run_id, status=Status.FAILED, reason=Reason.LOST, signal=signal
            )
