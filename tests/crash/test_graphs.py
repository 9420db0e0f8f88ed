"""Graphs, crashed at every event: what had finished is not run again, and the output is the same."""

from __future__ import annotations

import pytest

from retinue.core import events as e
from retinue.testing import Scenario, Story, crash_everywhere
from retinue.testing.crash import Databases
from tests.graphs.test_running import DIAMOND, LOOP
from tests.graphs.work import does, graph
from tests.outside import outside

ROUTED = {
    "route": does("echo", input="left", choose=["left", "right"]),
    "left": does("note", input="l"),
    "right": does("note", input="r"),
    "more": does("spawn", needs=["left"], input=2, spawn=True),
    "late": does("note", needs=["route"], on_error="continue", input="late"),
    "first": does("echo", needs=["left", "late"], join="any", late="leave", input="first"),
    "every": does("note", needs=["left"], each=["x", "y", "z"], parallel=2),
    "then": does("note", needs=["every"], each="{{ every.output }}", input="{{ item }} again"),
    "heard": does("note", on="left.finished", input="heard"),
    "no": does("note", when="{{ false }}"),
}
LEFT = {
    **LOOP,
    "aside": does("sleep", needs=["write"]),
    "end": does("note", needs=["publish", "aside"], join="any", input="end"),
}
"""Each round of the loop leaves something running that nobody waits for any more."""


@pytest.mark.parametrize("nodes", [DIAMOND, LOOP, ROUTED, LEFT], ids=["diamond", "loop", "routed", "left"])
async def test_G11_a_crash_at_any_event_repeats_nothing(databases: Databases, nodes: dict[str, object]) -> None:
    def check(undisturbed: Story, story: Story) -> None:
        assert story.outcome.output == undisturbed.outcome.output
        done = sorted(map(str, outside.done))
        if story is undisturbed:
            effects.extend(done)
        assert done == effects
        started = [event.data.call_id for event in story.events if isinstance(event.data, e.ChildStarted)]
        assert len(set(started)) == len(started)
        assert len(story.journals) == len(undisturbed.journals)

    effects: list[str] = []
    report = await crash_everywhere(
        Scenario(target="graph:g", graphs=[graph(nodes)], begin=outside.reset), databases, check
    )
    assert report.points >= report.commits
    print(f"graph: {report}")
