"""Runs of agents, crashed before every commit and after every event."""

from __future__ import annotations

from retinue.core.run import fold
from retinue.testing import Report, Scenario, Story, call, crash_everywhere, unknown_calls
from retinue.testing.crash import Databases
from tests.agents.acting import finish
from tests.crash.agents import decides, played, reading, world

NOT_REPEATED = ("write", "checked", "confirmed")


def check(undisturbed: Story, story: Story) -> None:
    """It ends in the same way, and no write ran twice; one that did not run is known to be unknown."""
    assert story.outcome == undisturbed.outcome or _but_for_usage(story) == _but_for_usage(undisturbed)
    assert _course(story) == _course(undisturbed)
    writes = {
        call.call_id: call.key for state in story.states() for call in state.calls.values() if call.tool in NOT_REPEATED
    }
    done = [key for _, key in world.done]
    assert len(done) == len(set(done)), f"done twice: {done}"
    missing = {call_id for call_id, key in writes.items() if key and key not in done}
    assert missing <= unknown_calls(story), f"missing, and nobody knows: {missing}"


def _but_for_usage(story: Story) -> list[object]:
    outcome = story.outcome
    return [outcome.status, outcome.reason, outcome.output, outcome.recovered, outcome.partial, outcome.error]


def _course(story: Story) -> list[tuple[str, int]]:
    """Who spoke, and of how many parts, in the last run."""
    return [(message.role, len(message.parts)) for message in fold(story.run_id, story.events).messages]


async def crashed(scenario: Scenario, databases: Databases) -> Report:
    report = await crash_everywhere(scenario, databases, check)
    assert report.points >= report.commits + report.events - 8
    return report


async def test_L42_crash_after_every_event_of_L8(databases: Databases) -> None:
    await crashed(played(call("write", what="it"), finish()), databases)


async def test_L42_crash_after_every_event_of_L12(databases: Databases) -> None:
    await crashed(played([call("write", what="it"), finish(), call("look", what="it")]), databases)


async def test_L42_crash_after_every_event_of_L19(databases: Databases) -> None:
    rules = [{"tool": "write", "action": "ask"}]
    await crashed(played(call("write", what="all of it"), finish(), policy=rules, people=decides), databases)


async def test_L42_crash_after_every_event_of_L33(databases: Databases) -> None:
    await crashed(reading(8, 60_000), databases)
