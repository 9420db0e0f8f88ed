"""Graphs as somebody sees them who types `retinue`."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue.cli.steps import Steps
from retinue.core import events as e
from retinue.core.events import Event, EventData
from retinue.core.outcome import Effect, Reason, Status

from .conftest import Terminal

WORK = """
from retinue import durable


async def plan(ctx, input):
    return {"topics": ["nothing", "tea", "coffee"]}


async def search(ctx, input):
    if input == "nothing":
        raise ValueError("nothing was found")
    return f"about {input}"


async def write(ctx, input):
    return " and ".join(filter(None, input))
"""
GRAPH = """
name: report
description: Writes about a few topics.
nodes:
  plan: {run: "function:work:plan"}
  search:
    {run: "function:work:search", needs: [plan], each: "{{ plan.output.topics }}", parallel: 1, on_error: continue}
  write: {run: "function:work:write", needs: [search]}
  never: {run: "function:work:write", needs: [write], when: "{{ input == 'never' }}"}
output: "{{ write.output }}"
"""


@pytest.fixture
def project(tmp_path: Path, retinue: Terminal, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "graphs").mkdir()
    (tmp_path / "retinue.toml").write_text("model = 'test'")
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "graphs" / "report.yaml").write_text(GRAPH)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_graph_runs_and_its_nodes_are_told_by_name_with_how_far_they_are(retinue: Terminal, project: Path) -> None:
    said = retinue("run", "graph:report", "go")
    assert said.code == 0
    told = [line.split("  ", 1)[1].strip() for line in said.out.splitlines() if "  " in line]
    assert "✗ search  item 0 failed" in told
    assert any(line.startswith("! search  function:work:search · 2 of 3 · 1 failed") for line in told)
    assert any(line.startswith("✓ write  function:work:write") for line in told)
    assert "– never  its condition does not hold" in told
    assert said.out.rstrip().endswith("about tea and about coffee")
    assert not [line for line in told if line.startswith("✓ search")]


def test_a_graph_is_started_inside_and_a_node_is_run_again(retinue: Terminal, project: Path) -> None:
    given = '{"search": ["about milk"]}'
    begun = retinue("run", "graph:report", "--from", "write", "--input-json", given, "--json").json
    assert begun["output"] == "about milk"
    again = retinue("runs", "retry", begun["run_id"], "--node", "write", "--json").json
    assert (again["status"], again["output"]) == ("completed", "about milk")
    refused = retinue("runs", "retry", begun["run_id"], "--node", "plan")
    assert (refused.code, "it was started at write" in refused.err) == (2, True)


def test_why_a_graph_ended_names_its_nodes(retinue: Terminal, project: Path) -> None:
    (project / "graphs" / "report.yaml").write_text(GRAPH.replace("on_error: continue", "on_error: stop"))
    failed = retinue("run", "graph:report", "go", "--json").json
    assert failed["error"]["message"] == "the node search failed: nothing was found"
    assert "the node search failed: nothing was found" in retinue("runs", "explain", failed["run_id"]).out


def test_graphs_are_listed_shown_and_checked(retinue: Terminal, project: Path) -> None:
    (project / "graphs" / "bad.yaml").write_text("name: bad\nnodes:\n  a: {run: 'model:test', needs: [b]}\n")
    assert retinue("graphs", "list").out.splitlines()[1].split()[:3] == ["report", "4", "flow"]
    assert "✗ bad" in retinue("graphs", "list").out
    shown = retinue("graphs", "show", "report").out
    assert "for each of {{ plan.output.topics }}; on error continue" in shown
    checked = retinue("graphs", "check")
    assert (
        checked.code,
        "graphs/bad.yaml:3: error: nodes.a.needs: there is no node b" in checked.out + checked.err,
    ) == (
        1,
        True,
    )
    assert retinue("graphs", "show", "bad").code == 2


def test_a_graph_is_drawn_and_with_a_run_as_it_went(retinue: Terminal, project: Path) -> None:
    assert "plan --> search" in retinue("graphs", "draw", "report").out
    run_id = retinue("run", "graph:report", "go", "--json").json["run_id"]
    drawn = retinue("graphs", "draw", "--run", run_id).out
    assert "2 of 3, 1 failed" in drawn
    assert "class never skipped" in drawn
    said = retinue("graphs", "draw", "--run", run_id, "--output", str(project / "run.svg"))
    assert said.code == 0
    assert (project / "run.svg").read_text().startswith("<svg")
    assert retinue("graphs", "draw").code == 2


def told(steps: Steps, at: int, data: EventData) -> str:
    """What stands below once an event was seen."""
    steps.take(Event("run_g", 1, 1, 1, at, data))
    return " / ".join(f"{step.text} {step.more}" for step in steps.open.values())


def test_items_are_one_line_with_an_estimate_and_what_they_do_is_not_told() -> None:
    steps = Steps()
    for n in range(4):
        said = told(steps, 0, e.ChildStarted(call_id=f"every[{n}]#1.1", run_id=f"run_{n}", target="agent:a", of=10))
    assert said == "every 0 of 10 · 4 running"
    assert steps.take(Event("run_1", 1, 5, 1, 100, e.ToolStarted(call_id="x", tool="x", effect=Effect.READ))) == []
    for n in range(4):
        status, reason = (Status.FAILED, Reason.TOOL_ERROR) if n == 3 else (Status.COMPLETED, Reason.GOAL)
        ended = e.ChildFinished(call_id=f"every[{n}]#1.1", run_id=f"run_{n}", status=status, reason=reason)
        said = told(steps, 20_000, ended)
    assert said == "every 3 of 10 · 1 failed · about 30 s left"


def test_rounds_tries_and_who_stands_in_are_told() -> None:
    steps = Steps()
    names = [("write#2.1", "agent:a"), ("b#1.1", "agent:b"), ("b#1.2", "agent:b"), ("b#1.3", "agent:c")]
    for n, (call_id, target) in enumerate(names):
        said = told(steps, 0, e.ChildStarted(call_id=call_id, run_id=f"run_{n}", target=target))
    assert said == "write (round 2) agent:a / b agent:c instead"
