"""Graphs in files: what is wrong with one is said with its file, line and path, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue import Retinue
from retinue.core.graph.definition import GraphDefinition
from retinue.errors import BadTarget, UnknownTarget
from retinue.project.graphs import read_graph

from .conftest import Load, agent

REPORT = """\
name: report
nodes:
  plan:
    run: agent:planner
  search:
    run: agent:searcher
    needs: [plan]
    each: "{{ plan.output.queries }}"
  write:
    run: agent:writer
    needs: [search]
"""


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read_graph("graphs/report.yaml", text).problems]


def test_a_file_is_a_graph() -> None:
    file = read_graph("graphs/report.yaml", REPORT)
    assert (file.name, file.problems) == ("report", ())
    assert file.definition
    assert list(file.definition.nodes) == ["plan", "search", "write"]
    assert GraphDefinition.from_json(file.definition.to_json()) == file.definition


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("needs: [plan]", "needs: [plan, write]", ":11: nodes.write.needs: it is in a circle: write → search → write"),
        ("needs: [plan]", "needs: [plann]", ":7: nodes.search.needs: there is no node plann. Did you mean plan?"),
        ("run: agent:planner", "run: planner", ":4: nodes.plan.run: Nothing answers to 'planner'"),
        ("plan.output.queries }}", "plan.output.queries", ":8: nodes.search.each: a bad template"),
        ("{{ plan.output", "{{ plam.output", ":8: nodes.search.each: there is no node plam. Did you mean plan?"),
        ("{{ plan.output", "{{ write.output", ":8: nodes.search.each: search does not come after write"),
        ("  write:\n", "  search:\n", ":9: nodes.search: it stands here twice, first in line 5"),
        ("name: report", "name: re port", ":1: name: a name has letters"),
        ("  plan:\n", "  input:\n", ":3: nodes.input: a node's name"),
        ("    needs: [search]", "    parallel: 0", ":11: nodes.write.parallel: expected"),
        (
            "    needs: [search]",
            "    needs: [search]\n    again: {when: '{{ true }}', from: plan}",
            ":12: nodes.write.again.at_most: it is missing",
        ),
        (
            "    needs: [search]",
            "    needs: [search]\n    again: {when: '{{ true }}', from: wrote, at_most: 2}",
            ":12: nodes.write.again.from: there is no node wrote. Did you mean write?",
        ),
        (
            "    needs: [search]",
            "    needs: [search]\n    join: 2 of",
            ":12: nodes.write.join: it waits for 2",
        ),
    ],
)
def test_G2_what_is_wrong_is_said_with_its_line_and_path(old: str, new: str, says: str) -> None:
    assert f"graphs/report.yaml{says}" in "\n".join(problems(REPORT.replace(old, new)))


@pytest.mark.parametrize("text", ["", "- a", "nodes: [", "just words", "name: x\n"])
def test_G2_a_file_that_is_no_graph_is_refused_with_its_line(text: str) -> None:
    (first, *_) = problems(text)
    assert first.startswith("graphs/report.yaml:")


def test_G2_an_unknown_key_is_a_warning_with_what_was_meant() -> None:
    text = REPORT.replace("    each:", "    eech:")
    assert "graphs/report.yaml:8: nodes.search.eech: nobody knows this key. Did you mean each?" in problems(text)


def test_G2_an_unknown_target_is_said_with_its_line(load: Load) -> None:
    project = load({"graphs/report.yaml": REPORT, "agents/planner.md": agent("planner")})
    assert [str(problem) for problem in project.problems] == [
        "graphs/report.yaml:6: nodes.search.run: there is no agent:searcher. There is: planner.",
        "graphs/report.yaml:10: nodes.write.run: there is no agent:writer. There is: planner.",
    ]


GOOD = "name: good\nnodes:\n  a: {run: 'model:test'}\n"


async def test_G2_one_bad_file_hides_no_other_and_says_why_it_cannot_run(load: Load, tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "graphs/good.yaml": GOOD,
        "graphs/worse.yml": b"\xff\xfe",
        "graphs/circle.yaml": "name: circle\nnodes:\n  a: {run: 'model:test', needs: [b]}\n"
        "  b: {run: 'model:test', needs: [a]}\n",
        "retinue.toml": "model = 'test'",
    }
    project = load(files)
    assert project.graphs.names() == ("good",)
    assert sorted(project.graphs.broken) == ["circle", "worse"]
    async with Retinue.open("sqlite://", project=project) as app:
        assert (await app.run("graph:good", "hello")).status == "completed"
        with pytest.raises(BadTarget, match=r"graphs/circle.yaml:4: nodes.b.needs: it is in a circle: b → a → b"):
            await app.submit("graph:circle")
        with pytest.raises(UnknownTarget, match=r"no such graph. Did you mean good\?"):
            await app.submit("graph:goood")
        assert [row.target for row in await app.service.runs() if row.parent_id is None] == ["graph:good"]


def test_G2_two_files_of_one_name_are_both_refused(load: Load) -> None:
    project = load({"graphs/good.yaml": GOOD, "graphs/other.yaml": GOOD})
    assert project.graphs.names() == ()
    assert [str(problem) for problem in project.problems] == [
        "graphs/good.yaml:1: name: more than one graph is named good",
        "graphs/other.yaml:1: name: more than one graph is named good",
    ]


def test_G17_children_that_are_no_tree_are_refused_and_hide_no_other(load: Load) -> None:
    project = load(
        {
            "agents/a.md": agent("a", "children: [b]"),
            "agents/b.md": agent("b", "children: [a]"),
            "agents/c.md": agent("c", "children: [d]"),
            "agents/d.md": agent("d"),
        }
    )
    assert [str(problem) for problem in project.problems] == [
        "agents/a.md: children: a stands twice in its tree",
        "agents/b.md: children: b stands twice in its tree",
    ]
    agents = [project.agents.agent(name) for name in project.agents.names()]
    assert project.graphs.and_more((), agents).names() == ("c",)
