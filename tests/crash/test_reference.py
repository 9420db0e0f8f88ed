"""The reference run, crashed at every commit: the crash table of the design, point by point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.core.outcome import Status
from retinue.testing import Report, Story, crash_everywhere, unknown_calls, write_tries
from retinue.testing.crash import Databases
from tests.conftest import TRIED
from tests.crash.reference import scenario, world

EXPECTED = [
    *("saw tea", "did put", "did write", "did checked", "Ada", "did quick-front", "You said: hello"),
    *("did child-beside", "cancelled", "saw mended"),
]
PARTS = 4


@pytest.fixture(autouse=True)
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_TEST_WORLD", str(tmp_path / "world"))


def check(undisturbed: Story, story: Story) -> None:
    assert story.outcome.status is Status.COMPLETED, story.outcome
    assert isinstance(story.outcome.output, list)
    for expected, got in zip(EXPECTED, story.outcome.output, strict=True):
        assert got in (expected, expected.replace("did", "unknown")), f"{got!r} instead of {expected!r}"
    unknown = unknown_calls(story)
    for name in ("write", "quick-front", "child-beside"):
        assert world.done(name) <= 1, f"{name} was done twice"
        assert world.done(name) == 1 or name in unknown, f"{name} is missing and nobody knows"
    assert world.done("checked") == world.done("put") == 1
    assert all(tries == 1 for name, tries in write_tries(story).items() if name != "checked")
    assert len(story.journals) == len(undisturbed.journals)
    assert [event.type for journal in story.journals.values() for event in journal].count("model.responded") == 1


@pytest.fixture
def tell(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Callable[[Report], None]:
    """Lets the summary say how many points were tried, and sees that it was all there are."""

    def told(report: Report) -> None:
        what, database = request.function.__name__, request.node.callspec.params["databases"]
        record_property(TRIED, [f"{what}[{database}]", report.commits, report.events, report.points])
        assert report.points >= (report.commits + report.events) // PARTS - 4  # commits differ a little each time

    return told


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_worker_that_stops_at_any_commit_loses_nothing_and_repeats_nothing(
    databases: Databases, part: int, tell: Callable[[Report], None]
) -> None:
    tell(await crash_everywhere(scenario, databases, check, part=(part, PARTS)))


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_process_that_ends_at_any_commit_loses_nothing_and_repeats_nothing(
    databases: Databases, part: int, tell: Callable[[Report], None]
) -> None:
    processes = "tests.crash.reference:scenario"
    tell(await crash_everywhere(scenario, databases, check, processes=processes, part=(part, PARTS)))
