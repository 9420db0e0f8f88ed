"""Runs of agents, crashed before every commit and after every event."""

from __future__ import annotations

import pytest

from retinue.core import events as e
from retinue.core.outcome import Outcome, Reason, Status
from retinue.core.run import fold
from retinue.testing import Scenario, Story, call, crash_everywhere, unknown_calls
from retinue.testing.crash import Databases
from tests.agents.acting import finish
from tests.crash.agents import forked, mended, played, reading, routed, with_client_tool, world

ONE_AT_A_TIME = ("write", "checked", "confirmed")
ASK = [{"tool": "write", "action": "ask"}]


def writes_once(story: Story) -> None:
    """No write ran twice, and of one that did not run it is known that nobody knows."""
    calls = [call for state in story.states() for call in state.calls.values() if call.tool in ONE_AT_A_TIME]
    done = [key for _, key in world.done]
    assert len(done) == len(set(done)), f"done twice: {done}"
    missing = {call.call_id for call in calls if call.key and call.key not in done}
    assert missing <= unknown_calls(story), f"missing, and nobody knows: {missing}"


def check(undisturbed: Story, story: Story) -> None:
    """It ends in the same way, after as many turns."""
    writes_once(story)
    assert _end(story.outcome) == _end(undisturbed.outcome)
    assert _course(story) == _course(undisturbed)


def _end(outcome: Outcome) -> list[object]:
    return [outcome.status, outcome.reason, outcome.output, outcome.recovered, outcome.partial, outcome.error]


def _course(story: Story) -> list[list[tuple[str, int]]]:
    """Who spoke, and how many parts that had, in the runs of the tree in which the story ends."""
    states = [fold(run_id, journal) for run_id, journal in story.journals.items() if run_id == story.run_id]
    return [[(message.role, len(message.parts)) for message in state.messages] for state in states]


async def crashed(scenario: Scenario, databases: Databases) -> None:
    report = await crash_everywhere(scenario, databases, check)
    assert report.points >= report.commits + report.events - 8


async def test_L42_crash_after_every_event_of_L8(databases: Databases) -> None:
    await crashed(played(call("write", what="it"), finish()), databases)


async def test_L42_crash_after_every_event_of_L12(databases: Databases) -> None:
    await crashed(played([call("write", what="it"), finish(), call("look", what="it")]), databases)


async def test_L42_crash_after_every_event_of_L19(databases: Databases) -> None:
    await crashed(played(call("write", what="all of it"), finish(), policy=ASK), databases)


async def test_L42_crash_after_every_event_of_a_short_L33(databases: Databases) -> None:
    await crashed(reading(8, 60_000), databases)


async def test_L42_crash_after_every_fortieth_event_of_L33(databases: Databases) -> None:
    def shortened(undisturbed: Story, story: Story) -> None:
        check(undisturbed, story)
        shorter = [event.data for event in story.events if isinstance(event.data, e.HistoryCompacted)]
        assert any(data.summary for data in shorter)
        assert any(data.moved for data in shorter)

    report = await crash_everywhere(reading(80, 110_000), databases, shortened, part=(0, 40))
    assert report.points >= (report.commits + report.events) // 40 - 2


SCENARIOS = {
    "reads beside writes": played(
        [call("look", what="a"), call("look", what="b"), call("write", what="c"), call("look", what="d"), finish()]
    ),
    "checks": played([call("checked", what="a"), call("put", what="b")], finish()),
    "a tool that asks": played([call("confirmed", what="it"), call("look", what="it")], finish()),
    "two tickets": played([call("write", what="a"), call("write", what="b")], finish(), policy=ASK),
    "a client's tool": with_client_tool([call("locate"), call("write", what="it")], finish()),
    "routing": routed(call("write", what="it"), finish()),
    "a grace turn that works": played(call("write", what="it"), finish(), limits={"max_turns": 1}),
    "a grace turn that fails": played(call("write", what="it"), "I cannot.", limits={"max_turns": 1}),
    "silence": played("Well.", "Well.", finish(), steps=1),
    "a text": played(call("write", what="it"), "It is done.", finish="text"),
    "a retry": mended([call("write", what="a"), call("look", what="b")]),
    "a fork": forked([call("look", what="a"), call("write", what="b")], finish()),
    "a person who decides about unknown calls": played(call("write", what="it"), finish(), on_unknown="ask"),
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_L42_crash_after_every_event_of(databases: Databases, name: str) -> None:
    await crashed(SCENARIOS[name], databases)


async def test_L42_crash_after_every_event_when_what_is_unknown_ends_the_run(databases: Databases) -> None:
    def check_failing(undisturbed: Story, story: Story) -> None:
        writes_once(story)
        if unknown_calls(story):
            assert (story.outcome.status, story.outcome.reason) == (Status.FAILED, Reason.TOOL_ERROR)
            assert "nobody can tell whether it took effect" in str(story.outcome.error)
        else:
            check(undisturbed, story)

    scenario = played([call("write", what="it"), call("look", what="it"), finish()], on_unknown="fail")
    await crash_everywhere(scenario, databases, check_failing)
