"""The examples do what they say."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue import Retinue
from retinue.core import events as e
from retinue.core.messages import text_of
from retinue.ports.models import ModelRequest
from retinue.settings import read_project
from retinue.testing import Reply, ScriptedModel, SetClock, call
from tests.outside import data_of, ended

from .conftest import Terminal

REPORT = Path(__file__).parents[2] / "examples" / "report"


@pytest.fixture
def report(retinue: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy, as the folder that one is in."""
    folder = shutil.copytree(REPORT, tmp_path / "report", ignore=shutil.ignore_patterns(".retinue", "reports", "__py*"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("search", None)


def answer(request: ModelRequest) -> Reply:
    """A planner, a writer who needs two drafts, and a critic who sees that."""
    asked = text_of(request.messages[-1].parts)
    if "plan short reports" in (request.instructions or ""):
        return Reply(calls=[call("complete_task", result={"queries": ["the lens of the lamp", "a horn in fog"]})])
    if "Say ok" in (request.instructions or ""):
        verdict = "ok" if "second" in asked else "revise"
        return Reply(calls=[call("complete_task", result={"verdict": verdict, "hint": "Speak of the lens."})])
    assert "bends its light into a narrow beam" in asked
    assert "A horn gives the same signal" in asked
    return Reply(pieces=["The second draft." if "Speak of the lens." in asked else "The first draft."])


async def test_the_report_is_planned_looked_up_written_and_revised(report: Path, clock: SetClock) -> None:
    project = read_project(report, variables={"RETINUE_MODEL": "m"})
    assert [str(problem) for problem in project.problems] == []
    async with Retinue.open("sqlite://", clock=clock, project=project, models={"m": ScriptedModel(answer)}) as app:
        run = await app.submit("graph:report", {"topic": "Lighthouses"})
        outcome = await ended(app, run)
        started = [data.call_id for data in await data_of(run, e.ChildStarted)]
    assert outcome.output == {"file": "reports/lighthouses.md", "report": "The second draft.", "verdict": "ok"}
    assert started[:4] == ["plan#1.1", "search[0]#1.1", "search[1]#1.1", "search[2]#1.1"]
    assert started[-2:] == ["review#2.1", "save#2.1"]
    written = (report / "reports" / "lighthouses.md").read_text()
    assert written.startswith("# Lighthouses\n\nThe second draft.\n\nFrom:\n- ")
    assert {"- lamps.md", "- fog.md"} <= {*written.splitlines()}


def test_the_report_runs_without_any_model(report: Path, retinue: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_MODEL", "test")
    said = retinue("run", "graph:report", "--input-json", json.dumps({"topic": "fog"}), "--json").json
    assert (said["status"], said["output"]["file"]) == ("completed", "reports/fog.md")


def test_the_picture_in_the_guide_is_that_of_the_report(report: Path, retinue: Terminal) -> None:
    guide = (REPORT.parents[1] / "docs" / "graphs.md").read_text()
    assert f"```mermaid\n{retinue('graphs', 'draw', 'report').out}```" in guide
