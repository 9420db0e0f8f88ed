"""Wherever the journal of an agent's run ends, the run can be taken to its end: by another worker, or in a new run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from hypothesis import given
from hypothesis import strategies as st

from retinue.core import events as e
from retinue.core.agent import AgentDefinition
from retinue.core.loop import Ask, Finish, Moment, Perform, Recover, decide
from retinue.core.messages import Message, Text, ToolCall, ToolResult
from retinue.core.outcome import Effect
from retinue.core.run import RunState, closing, fold, interruption
from retinue.core.tool import FINISH
from tests.core.journals import RUN_ID, Draft, journals

AGENT = AgentDefinition(name="guide", instructions="You guide.")
AGENTS = st.sampled_from(
    [
        AGENT,
        AgentDefinition(name="guide", instructions="x", on_unknown="fail"),
        AgentDefinition(name="g", finish="text"),
    ]
)
MOMENTS = st.builds(Moment, time_is_up=st.booleans(), repeated=st.sampled_from([0, 3, 5]))
MOST_STEPS = 12


class Writer:
    """A worker that does what is decided, and records it."""

    def __init__(self, state: RunState) -> None:
        self.state = state

    def note(self, *events: e.EventData, attempt: int | None = None) -> None:
        for data in events:
            seq = self.state.seq + 1
            held = self.state.attempt if attempt is None else attempt
            self.state.apply(e.Event(self.state.run_id, seq, seq, held, 0, data))

    def claim(self) -> None:
        claimed = e.RunResumed(worker="w", cause="crash") if self.state.started else e.RunStarted(worker="w")
        self.note(claimed, attempt=self.state.attempt + 1)
        if self.state.turn_open and not self.state.broken_off:
            self.note(interruption(self.state, "crash", "", ""))

    def go_on(self, agent: AgentDefinition, moments: Iterator[Moment]) -> None:
        """Until the run is over."""
        for _ in range(MOST_STEPS):
            match decide(self.state, agent, next(moments)):
                case Ask(notes=notes, warnings=warnings):
                    self._ask(notes, warnings)
                case Perform(calls=calls):
                    assert list(calls) == self.state.unanswered
                    for call in calls:
                        self._perform(call)
                case Recover(reason=reason, limit=limit):
                    self.note(e.LimitReached(reason=reason, limit=limit), e.RecoveryStarted(reason=reason))
                case Finish(outcome=outcome):
                    self.note(*closing(self.state, "over"))
                    self.note(e.RunFinished(status=outcome.status, reason=outcome.reason, output=outcome.output))
                    return
                case other:
                    assert_never(other)
        raise AssertionError(f"it does not end: {self.state}")

    def _ask(self, notes: tuple[str, ...], warnings: Sequence[e.EventData]) -> None:
        if not self.state.turn_open:
            self.note(e.TurnStarted(turn=self.state.turn + 1, model="test", notes=notes), *warnings)
        call = ToolCall(call_id=f"{self.state.run_id}-{self.state.turn}", tool=FINISH, arguments={})
        parts = (Text(text="Done."), call)
        self.note(e.ModelResponded(turn=self.state.turn, try_=self.state.try_, parts=parts, model="test"))

    def _perform(self, call: ToolCall) -> None:
        before = self.state.calls.get(call.call_id)
        if before is None or before.attempt < self.state.attempt or before.asks:
            try_ = before.try_ + 1 if before else 1
            self.note(e.ToolStarted(call_id=call.call_id, tool=call.tool, effect=Effect.READ, try_=try_))
        self.note(e.ToolFinished(call_id=call.call_id, ok=True, result="done"))


def balanced(messages: Sequence[Message]) -> bool:
    """Whether what follows calls are their results, each once and in their order, and results follow nothing else."""
    asked: list[str] = []
    for message in messages:
        given = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if given != asked:
            return False
        asked = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return True


def forever(moment: Moment) -> Iterator[Moment]:
    while True:
        yield moment


def successor(past: RunState, *, continues: bool = False) -> Writer:
    """A new run that goes on from there."""
    writer = Writer(fold("run_2", (), past))
    given = "Go on." if continues else None
    writer.note(e.RunQueued(target="agent:guide", input=given, source_run_id=RUN_ID, continues=continues))
    writer.claim()
    return writer


@given(journals(), AGENTS, MOMENTS)
def test_every_prefix_can_be_taken_to_its_end(drafts: list[Draft], agent: AgentDefinition, moment: Moment) -> None:
    for draft in drafts:
        state = fold(RUN_ID, draft.events)
        if draft.phase == "over":
            continue
        writer = Writer(state)
        writer.claim()
        writer.go_on(agent, forever(moment))
        assert state.terminal
        assert not state.open_calls


@given(journals(), AGENTS, MOMENTS)
def test_every_prefix_can_be_gone_on_from_in_a_new_run(
    drafts: list[Draft], agent: AgentDefinition, moment: Moment
) -> None:
    for draft in drafts:
        past = fold(RUN_ID, draft.events)
        own = {call_id for call_id, call in past.calls.items() if call.finished and not past.cut_off(call_id)}
        writer = successor(past)
        assert {call.call_id for call in writer.state.unanswered} == set(past.asked) - own
        writer.go_on(agent, forever(moment))
        assert writer.state.terminal
        assert past == fold(RUN_ID, draft.events), "the past is not touched"


@given(journals(), MOMENTS)
def test_every_prefix_can_be_continued_with_something_new(drafts: list[Draft], moment: Moment) -> None:
    for draft in drafts:
        writer = successor(fold(RUN_ID, draft.events), continues=True)
        assert writer.state.unanswered == []
        assert writer.state.messages[-1] == Message(role="user", parts=(Text(text="Go on."),))
        assert balanced(writer.state.messages)
        writer.go_on(AGENT, forever(moment))
        assert writer.state.terminal


@given(journals())
def test_what_is_gone_on_from_twice_has_both_pasts(drafts: list[Draft]) -> None:
    writer = successor(fold(RUN_ID, drafts[-1].events))
    writer.go_on(AGENT, forever(Moment()))
    again = Writer(fold("run_3", (), writer.state))
    assert again.state.transcript[: len(writer.state.transcript)] == writer.state.transcript
    assert again.state.unanswered == []


@given(journals())
def test_what_is_said_in_a_turn_is_balanced_when_it_begins(drafts: list[Draft]) -> None:
    for draft in drafts:
        state = fold(RUN_ID, draft.events)
        if state.turn_open:
            assert balanced(state.transcript)
