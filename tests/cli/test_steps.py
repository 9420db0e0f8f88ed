"""What a run does, as lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from retinue.cli.meter import Meter
from retinue.cli.steps import Steps
from retinue.core import events as e
from retinue.core.delta import Delta
from retinue.core.messages import Text, ToolCall
from retinue.core.outcome import Effect, Failure, Reason, Status, Usage, Waits

RUN = "run_1"
QUEUED = e.RunQueued(target="agent:guide", input="Go", max_minutes=2)
STARTED = e.RunStarted(worker="wrk_1")
TURN = e.TurnStarted(turn=1, model="m")
CALL = ToolCall(call_id="c1", tool="pay", arguments={"eur": 5, "to": "東京"})
CALLED = e.ModelResponded(
    turn=1, try_=1, parts=(CALL,), model="m", usage=Usage(calls=1, input_tokens=7, output_tokens=2)
)
BEGUN = e.ToolStarted(call_id="c1", tool="pay", arguments=CALL.arguments, effect=Effect.WRITE, turn=1)
BOOM = Failure(kind="ModelBusy", message="too many requests")


def events(*data: e.EventData, every: int = 1000) -> Iterator[e.Event]:
    """A second after another."""
    seqs = count(1)
    return (e.Event(RUN, seq := next(seqs), seq, 0 if seq == 1 else 1, seq * every, one) for one in data)


def told(*data: e.EventData) -> list[str]:
    """The lines of the last event, after a turn was begun."""
    steps, lines = Steps(), list[Any]()
    for event in events(QUEUED, STARTED, TURN, *data):
        lines = steps.take(event)
    return [f"{line.mark} {line.text}  {line.more}".rstrip() for line in lines]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (
            e.ModelRetried(turn=1, try_=1, error=BOOM, delay_ms=2000, model="n"),
            "! n is asked again  too many requests · in 2.0 s",
        ),
        (e.TurnInterrupted(turn=1, try_=1, cause="crash"), "! the answer broke off  crash"),
        (e.ModelRouted(model="n", why="it is cheap"), "› n was chosen  it is cheap"),
        (
            e.ToolRefused(call_id="c1", tool="pay", why="A rule does not allow this call."),
            "✗ pay  refused: A rule does not allow this call.",
        ),
        (e.SteerReceived(text="the cheap one", by="ann"), "› hint: the cheap one  by ann"),
        (e.LimitReached(reason=Reason.TIMEOUT, limit="max_minutes"), "! limit reached: max_minutes"),
        (e.RecoveryStarted(reason=Reason.TIMEOUT), "! one last turn, to answer with what there is"),
        (
            e.HistoryCompacted(summary="s", tokens_before=9000, tokens_after=40),
            "› the history was shortened  9,000 to 40 tokens · by a summary",
        ),
        (
            e.HistoryCompacted(moved=("a", "b"), tokens_before=90, tokens_after=40),
            "› the history was shortened  90 to 40 tokens · of 2 results only the ends are left",
        ),
        (
            e.HistoryCompacted(ok=False, problem="the summary was empty"),
            "! the history could not be shortened  the summary was empty",
        ),
        (e.NodeSkipped(node="b", why="a failed"), "– b  a failed"),
        (e.Warned(code="tools", message="no server"), "! no server"),
        (e.RunResumed(worker="w", cause="crash"), "↻ goes on after a crash  attempt 1"),
        (
            e.RunFinished(status=Status.FAILED, reason=Reason.LOOP, unread=("stop",)),
            "! a hint came too late to be read  stop",
        ),
    ],
)
def test_each_thing_that_happens_is_a_line(data: e.EventData, line: str) -> None:
    assert told(data) == [line]


def test_a_call_goes_by_its_tool_and_arguments() -> None:
    assert told(CALLED, BEGUN) == ["▸ pay  eur: 5, to: 東京 · write"]
    ended = e.ToolFinished(call_id="c1", ok=True, result={"receipt": 3})
    assert told(CALLED, BEGUN, ended) == ['✓ pay  1.0 s · eur: 5, to: 東京 → {"receipt": 3}']
    failed = e.ToolFinished(call_id="c1", ok=False, error=Failure(kind="failed", message="no money"))
    assert told(CALLED, BEGUN, failed) == ["✗ pay  1.0 s · eur: 5, to: 東京 → failed: no money"]
    lost = e.ToolFinished(call_id="c1", ok=False, unknown=True, error=Failure(kind="unknown", message="x"))
    assert told(CALLED, BEGUN, lost) == [
        "? pay  eur: 5, to: 東京 · interrupted; nobody can tell whether it took effect"
    ]


def test_a_step_of_code_goes_by_its_place() -> None:
    assert told(e.ToolStarted(call_id="charge#2", tool="charge", arguments=[5])) == ["▸ charge#2  write"]


def test_what_is_asked_shows_what_would_be_done_and_a_decision_what_was_changed() -> None:
    asked = e.TicketOpened(
        ticket_id="tkt_1", kind=Waits.APPROVAL, call_id="c1", title="Pay.", tool="pay", arguments=CALL.arguments
    )
    assert told(CALLED, asked) == ["? may it call pay? · eur: 5, to: 東京  tkt_1"]
    value = {"arguments": {"eur": 2}, "remember": True}
    closed = e.TicketClosed(ticket_id="tkt_1", decision="approved", value=value, message="less", by="ann")
    assert told(CALLED, asked, closed) == ["› approved  by ann · with eur: 2 · for the rest of the run · less"]


def test_a_text_is_told_when_it_turns_out_not_to_be_the_end() -> None:
    said = e.ModelResponded(turn=1, try_=1, parts=(Text(text="I think."),), model="m")
    assert told(said) == ["✓ turn 1  m · 1.0 s"]
    nudged = told(said, e.TurnStarted(turn=2, model="m", notes=("Call a tool.",)))
    assert nudged == ["“ I think.", "› it is reminded  Call a tool.", "▸ turn 2  m · 1 min 57 s left"]
    assert told(said, e.RunFinished(status=Status.COMPLETED, reason=Reason.GOAL, output="I think.")) == []


def test_a_long_answer_is_kept_as_far_as_it_is_shown() -> None:
    steps = Steps()
    for event in events(QUEUED, STARTED, TURN):
        steps.take(event)
    for n in range(1000):
        steps.take(Delta(run_id=RUN, kind="thinking", turn=1, try_=1, offset=10 * n, text="so it is. "))
    assert len(steps.thought[RUN]) == 4000
    steps.take(next(events(CALLED)))
    assert steps.thought == {}


def test_time_that_is_left_stands_while_people_decide() -> None:
    meter = Meter()
    asked = e.TicketOpened(ticket_id="t", kind=Waits.APPROVAL, call_id="c1")
    for event in events(QUEUED, STARTED, TURN, CALLED, asked):
        meter.take(event)
    assert (meter.left_ms(5000), meter.left_ms(900_000)) == (117_000, 117_000)
    assert meter.usage.input_tokens == 7


def test_nobody_knows_the_time_of_a_run_that_is_watched_from_its_middle() -> None:
    meter = Meter()
    for event in list(events(QUEUED, STARTED, TURN))[1:]:
        meter.take(event)
    assert meter.left_ms(5000) is None
