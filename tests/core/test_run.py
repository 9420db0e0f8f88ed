from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from retinue.core import events as e
from retinue.core.messages import Data, Message, Text, ToolCall, ToolResult
from retinue.core.outcome import Effect, Failure, Outcome, Reason, Status, Usage, Waits
from retinue.core.run import RunState, closing, fold
from retinue.errors import IllegalEvent
from tests.core.journals import RUN_ID, Draft, journals
from tests.core.wrongs import WRONGS, Case

PHASES = {
    "queued": {Status.QUEUED},
    "running": {Status.RUNNING},
    "parked": {Status.WAITING},
    "over": {Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT},
}
QUEUED = e.RunQueued(target="function:shop:refund")
STARTED = e.RunStarted(worker="w1")
RESUMED = e.RunResumed(worker="w2", cause="crash")
PARKED = e.RunWaiting(reasons=(Waits.TIMER,), until=60_000)
FAILED = e.RunFinished(status=Status.FAILED, reason=Reason.INTERNAL)
NOTED = e.Warned(code="x", message="X.")
ASKED = e.ModelResponded(
    turn=1,
    try_=1,
    model="test",
    parts=(ToolCall(call_id="a", tool="t", arguments={}), ToolCall(call_id="b", tool="t", arguments={})),
)


def journal(*data: e.EventData, at: Callable[[int], int] = lambda seq: seq) -> list[e.Event]:
    """These events, one after the other; each claim begins an attempt."""
    events, attempt = [], 0
    for seq, said in enumerate(data, 1):
        attempt += isinstance(said, e.RunStarted | e.RunResumed)
        events.append(e.Event(RUN_ID, seq, seq, attempt, at(seq), said))
    return events


def folded(*data: e.EventData) -> RunState:
    return fold(RUN_ID, journal(*data))


def after(state: RunState, data: e.EventData, attempt: int | None = None, at: int = 0) -> e.Event:
    seq = state.seq + 1
    return e.Event(RUN_ID, seq, seq, state.attempt if attempt is None else attempt, at, data)


# every legal sequence folds


@given(journals())
def test_a_legal_journal_folds_into_what_its_writer_knows(drafts: list[Draft]) -> None:
    state = RunState(RUN_ID)
    for draft in drafts:
        state.apply(draft.events[-1])
        assert state.status in PHASES[draft.phase]
        assert (state.seq, state.attempt, state.signals_seen) == (len(draft.events), draft.attempt, draft.signal)
        assert (state.turn, state.try_, state.turn_open) == (draft.turn, draft.try_, draft.turn_open)
        assert {c.call_id: (c.effect, c.try_, c.attempt) for c in state.open_calls.values()} == {
            call_id: (call.effect, call.tries, call.attempt) for call_id, call in draft.open_calls.items()
        }
        assert {call_id for call_id, call in state.calls.items() if call.finished} == set(draft.ended_calls)
        assert len(state.transcript) == draft.messages
        assert state.terminal == (draft.phase == "over")


@given(journals())
def test_tickets_and_children_are_open_until_they_or_the_run_end(drafts: list[Draft]) -> None:
    state = RunState(RUN_ID)
    for draft in drafts:
        state.apply(draft.events[-1])
        over = draft.phase == "over"
        assert list(state.open_tickets) == ([] if over else draft.open_tickets)
        assert {c.call_id: c.run_id for c in state.open_children.values()} == ({} if over else draft.open_children)
        assert set(state.tickets) == {*draft.open_tickets, *draft.closed_tickets}
        assert set(state.children) == {*draft.open_children, *draft.ended_children}


@given(journals())
def test_folding_event_by_event_or_after_storing_gives_the_same_state(drafts: list[Draft]) -> None:
    events, state = drafts[-1].events, RunState(RUN_ID)
    for event in events:
        assert state.apply(event) is state
    stored = [replace(event, data=e.decode(event.type, e.encode(event.data))) for event in events]
    assert fold(RUN_ID, events) == state
    assert fold(RUN_ID, stored) == state
    assert fold(RUN_ID, iter(events)) == state


@given(journals())
def test_usage_is_the_sum_of_what_the_turns_used(drafts: list[Draft]) -> None:
    used = Usage()
    for event in drafts[-1].events:
        if isinstance(event.data, e.TurnInterrupted | e.ModelResponded | e.ModelRouted | e.HistoryCompacted):
            used += event.data.usage
    assert fold(RUN_ID, drafts[-1].events).usage == used


def transcript(events: tuple[e.Event, ...]) -> list[tuple[str, list[str]]]:
    """Who spoke, and the calls that were asked for or answered. What people said comes with the next turn."""
    said: list[tuple[str, list[str]]] = []
    asked: list[str] = []
    hints = 0
    for event in events:
        match event.data:
            case e.RunQueued(input=given_input) if given_input is not None:
                said.append(("user", []))
            case e.ModelResponded(parts=parts):
                said.append(("model", [part.call_id for part in parts if isinstance(part, ToolCall)]))
                asked += said[-1][1]
            case e.ToolFinished(call_id=call_id) | e.ToolRefused(call_id=call_id) if call_id in asked:
                if said[-1][0] != "tool":
                    said.append(("tool", []))
                said[-1][1].append(call_id)
                said[-1][1].sort(key=asked.index)
            case e.SteerReceived():
                hints += 1
            case e.TurnStarted(notes=notes) if hints or notes:
                said.append(("user", []))
                hints = 0
    return said


@given(journals())
def test_the_messages_are_what_was_said_and_the_results_of_what_the_model_asked_for(drafts: list[Draft]) -> None:
    messages = fold(RUN_ID, drafts[-1].events).messages
    calls = [[part.call_id for part in m.parts if isinstance(part, ToolCall | ToolResult)] for m in messages]
    assert list(zip([m.role for m in messages], calls, strict=True)) == transcript(drafts[-1].events)


# no illegal one does


@pytest.mark.parametrize("wrong", WRONGS, ids=lambda wrong: wrong.__name__)
def test_what_cannot_follow_is_refused_and_changes_nothing(wrong: Callable[[list[Draft]], Iterator[Case]]) -> None:
    cases = 0

    def check(drafts: list[Draft]) -> None:
        nonlocal cases
        for before, event in wrong(drafts):
            cases += 1
            state = fold(RUN_ID, before)
            with pytest.raises(IllegalEvent):
                state.apply(event)
            assert state == fold(RUN_ID, before)

    for n in range(40):  # a rare one is looked for longer
        if not cases:
            seed(n)(settings(max_examples=20, derandomize=False)(given(journals())(check)))()
    assert cases


MOVES = {
    Status.QUEUED: {Status.QUEUED, Status.RUNNING, *PHASES["over"]},
    Status.RUNNING: {Status.RUNNING, Status.WAITING, *PHASES["over"]},
    Status.WAITING: {Status.WAITING, Status.RUNNING, *PHASES["over"]},
    **{end: {end} for end in PHASES["over"]},
}
"""Where a status may go. That a signal queues what waits is no event: the claim that follows is."""


@given(journals(), st.sampled_from([QUEUED, STARTED, RESUMED, PARKED, FAILED, NOTED]), st.integers(0, 1))
def test_C1_the_status_moves_only_as_listed(drafts: list[Draft], data: e.EventData, claims: int) -> None:
    state = fold(RUN_ID, drafts[-1].events)
    before, seq = state.status, state.seq
    assert before
    with suppress(IllegalEvent):
        state.apply(after(state, data, state.attempt + claims))
    assert state.status in MOVES[before]
    assert state.seq == seq or not before.terminal


def test_a_refusal_says_which_event_cannot_follow_and_why() -> None:
    state = folded(QUEUED, STARTED)
    with pytest.raises(IllegalEvent) as refused:
        state.apply(after(state, e.ToolFinished(call_id="pay", ok=True)))
    assert (refused.value.seq, refused.value.type) == (3, "tool.finished")
    assert refused.value.problem == "call pay is not under way."


# every prefix can be continued


@given(journals(most=25))
def test_whatever_was_recorded_the_next_claim_can_end_the_run(drafts: list[Draft]) -> None:
    for draft in drafts:
        if draft.phase == "over":
            continue
        state = fold(RUN_ID, draft.events)
        state.apply(after(state, RESUMED if state.started else STARTED, state.attempt + 1))
        for data in closing(state, "test"):
            state.apply(after(state, data))
        state.apply(after(state, FAILED))
        assert state.terminal
        assert state.open_calls == {}
        for call_id, call in draft.open_calls.items():
            assert state.calls[call_id].unknown == (call.effect is Effect.WRITE and not call.asks)


@given(journals(most=1), st.integers(1, 3))
def test_a_run_that_was_never_started_can_be_ended_by_a_claim(drafts: list[Draft], further: int) -> None:
    state = fold(RUN_ID, drafts[-1].events)
    state.apply(after(state, FAILED, state.attempt + further))
    assert (state.status, state.started, state.attempt) == (Status.FAILED, False, further)


@given(journals())
def test_a_parked_run_without_open_calls_can_be_ended_by_a_claim(drafts: list[Draft]) -> None:
    for draft in drafts:
        if draft.phase == "parked" and not draft.open_calls:
            state = fold(RUN_ID, draft.events)
            state.apply(after(state, FAILED, state.attempt + 1))
            assert (state.terminal, state.waits_for, state.until) == (True, (), None)


@given(journals())
def test_closing_says_nothing_when_nothing_is_open(drafts: list[Draft]) -> None:
    for draft in drafts:
        state = fold(RUN_ID, draft.events)
        assert len(closing(state, "test")) == len(draft.open_calls) + (draft.turn_open and not draft.broken_off)


def test_closing_says_of_each_call_whether_anybody_can_tell_its_effect() -> None:
    write = e.ToolStarted(call_id="pay", tool="pay")
    read = e.ToolStarted(call_id="look", tool="look", effect=Effect.READ)
    turn = e.TurnStarted(turn=1, model="test")
    broken_off, *ended = closing(folded(QUEUED, STARTED, write, read, turn), "cancelled")
    assert isinstance(broken_off, e.TurnInterrupted)
    assert ended == [
        e.ToolFinished(
            call_id="pay", ok=False, error=Failure(kind="unknown", message="interrupted: cancelled"), unknown=True
        ),
        e.ToolFinished(call_id="look", ok=False, error=Failure(kind="interrupted", message="interrupted: cancelled")),
    ]


def test_what_an_open_turn_has_said_is_kept_and_its_cost_estimated() -> None:
    state = folded(QUEUED, STARTED, e.TurnStarted(turn=1, model="test"))
    assert closing(state, "cancelled", text="x" * 30, thinking="y" * 10) == [
        e.TurnInterrupted(
            turn=1,
            try_=1,
            cause="cancelled",
            text="x" * 30,
            thinking="y" * 10,
            usage=Usage(calls=1, output_tokens=10, estimated=True),
        )
    ]


# active time


def at_times(events: tuple[e.Event, ...], times: list[int]) -> list[e.Event]:
    return [replace(event, at=at) for event, at in zip(events, times, strict=False)]


@given(journals(), st.lists(st.integers(0, 2**41), min_size=40, max_size=40))
def test_active_time_never_shrinks_however_the_clock_jumps(drafts: list[Draft], times: list[int]) -> None:
    state, before = RunState(RUN_ID), 0
    for event in at_times(drafts[-1].events, times):
        state.apply(event)
        assert 0 <= before <= state.active_ms
        before = state.active_ms


@given(journals(), st.integers(0, 10**9))
def test_no_time_counts_before_a_claim_however_long_nobody_held_the_run(drafts: list[Draft], gap: int) -> None:
    events, late = drafts[-1].events, list[e.Event]()
    shift = 0
    for event in events:
        shift += gap * isinstance(event.data, e.RunStarted | e.RunResumed)
        late.append(replace(event, at=event.at + shift))
    assert fold(RUN_ID, late).active_ms == fold(RUN_ID, events).active_ms


@given(st.lists(st.integers(0, 10_000), max_size=20))
def test_while_one_worker_holds_the_run_all_time_is_active(steps: list[int]) -> None:
    data = [QUEUED, STARTED, *(NOTED for _ in steps)]
    times = [sum(steps[: max(0, seq - 2)]) + 500 for seq in range(1, len(data) + 1)]
    state = fold(RUN_ID, journal(*data, at=lambda seq: times[seq - 1]))
    assert state.active_ms == sum(steps)


def test_waiting_is_not_active() -> None:
    times = [0, 100, 300, 400, 10_000, 10_050]
    events = journal(QUEUED, STARTED, NOTED, PARKED, RESUMED, NOTED, at=lambda seq: times[seq - 1])
    assert fold(RUN_ID, events).active_ms == 200 + 100 + 50


@pytest.mark.parametrize("said", [replace(PARKED, active_ms=250), replace(FAILED, active_ms=250)])
def test_what_a_park_or_an_end_says_of_active_time_is_exact(said: e.EventData) -> None:
    assert fold(RUN_ID, journal(QUEUED, STARTED, NOTED, said, at=lambda seq: seq * 1000)).active_ms == 250


# what is known of a run


def test_a_parked_run_knows_what_it_waits_for_until_it_goes_on() -> None:
    state = folded(QUEUED, STARTED, PARKED)
    assert (state.status, state.waits_for, state.until) == (Status.WAITING, (Waits.TIMER,), 60_000)
    state.apply(after(state, RESUMED, state.attempt + 1))
    assert (state.status, state.waits_for, state.until) == (Status.RUNNING, (), None)


def test_the_outcome_is_what_the_last_event_says() -> None:
    error = Failure(kind="ValueError", message="no")
    state = folded(QUEUED, STARTED, replace(FAILED, partial="half", error=error, usage=Usage(calls=2)))
    assert state.outcome == Outcome(
        status=Status.FAILED, reason=Reason.INTERNAL, partial="half", error=error, usage=Usage(calls=2)
    )


def test_the_outcome_of_a_call_is_known() -> None:
    error = Failure(kind="unknown", message="?")
    finished = e.ToolFinished(call_id="pay", ok=False, error=error, unknown=True)
    call = folded(QUEUED, STARTED, e.ToolStarted(call_id="pay", tool="pay", key="k"), finished).calls["pay"]
    assert (call.finished, call.ok, call.error, call.unknown, call.key) == (True, False, error, True, "k")


def test_a_refused_call_failed_and_was_never_under_way() -> None:
    state = folded(QUEUED, STARTED, e.ToolRefused(call_id="pay", tool="pay", why="not allowed"))
    assert state.open_calls == {}
    assert state.calls["pay"].error == Failure(kind="refused", message="not allowed")


def test_the_ticket_of_a_call_holds_the_answer() -> None:
    opened = e.TicketOpened(ticket_id="tkt_1", kind=Waits.INPUT, call_id="name", expires_at=9)
    closed = e.TicketClosed(ticket_id="tkt_1", decision="answer", value={"name": "Ada"}, message="me", signal=1)
    ticket = folded(QUEUED, STARTED, opened, closed).ticket_of_call["name"]
    assert (ticket.decision, ticket.value, ticket.message) == ("answer", {"name": "Ada"}, "me")


def test_a_child_is_known_by_how_it_ended() -> None:
    begun = e.ChildStarted(call_id="c", run_id="run_c", target="agent:a")
    ended = e.ChildFinished(
        call_id="c", run_id="run_c", status=Status.COMPLETED, reason=Reason.MAX_TURNS, recovered=True
    )
    child = folded(QUEUED, STARTED, begun, ended).children["c"]
    assert (child.status, child.reason, child.recovered) == (Status.COMPLETED, Reason.MAX_TURNS, True)


def test_hints_are_kept_in_order_until_the_next_turn_says_them() -> None:
    hints = [e.SteerReceived(text=text, signal=n) for n, text in enumerate(["left", "right"], 1)]
    assert folded(QUEUED, STARTED, *hints).hints == ["left", "right"]
    state = folded(QUEUED, STARTED, *hints, e.TurnStarted(turn=1, model="test", notes=("3 turns are left",)))
    said = tuple(Text(text=text) for text in ("left", "right", "3 turns are left"))
    assert (state.hints, state.messages) == ([], [Message(role="user", parts=said)])


@pytest.mark.parametrize(
    ("given_input", "parts"),
    [(None, None), ("hi", (Text(text="hi"),)), ({"id": 1}, (Data(data={"id": 1}),)), ([], (Data(data=[]),))],
)
def test_the_input_is_the_first_message(given_input: object, parts: tuple[Text | Data, ...] | None) -> None:
    messages = folded(replace(QUEUED, input=given_input)).messages
    assert messages == ([] if parts is None else [Message(role="user", parts=parts)])


def test_results_of_one_turns_calls_are_one_message_in_the_order_of_the_calls() -> None:
    turn = [e.TurnStarted(turn=1, model="test"), ASKED]
    calls = [e.ToolStarted(call_id=call_id, tool="t") for call_id in "ab"]
    ends = [e.ToolFinished(call_id=call_id, ok=True, result=call_id) for call_id in "ba"]
    results = tuple(ToolResult(call_id=call_id, ok=True, result=call_id) for call_id in "ab")
    messages = folded(QUEUED, STARTED, *turn, *calls, *ends).messages
    assert messages == [Message(role="model", parts=ASKED.parts), Message(role="tool", parts=results)]


def test_the_result_of_a_step_that_no_model_asked_for_is_no_message() -> None:
    turn = [e.TurnStarted(turn=1, model="test"), ASKED]
    asked = [e.ToolStarted(call_id="a", tool="t"), e.ToolFinished(call_id="a", ok=True)]
    step = [e.ToolStarted(call_id="s", tool="t"), e.ToolFinished(call_id="s", ok=True)]
    assert len(folded(QUEUED, STARTED, *turn, *step).messages) == 1
    assert folded(QUEUED, STARTED, *turn, *asked, *step).messages == folded(QUEUED, STARTED, *turn, *asked).messages


def test_a_step_can_end_before_anything_was_said() -> None:
    step = [e.ToolStarted(call_id="s", tool="t"), e.ToolFinished(call_id="s", ok=True)]
    state = folded(QUEUED, STARTED, e.TurnStarted(turn=1, model="test"), *step)
    assert (state.calls["s"].ok, state.messages) == (True, [])
