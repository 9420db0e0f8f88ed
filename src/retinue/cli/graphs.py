"""`retinue graphs`"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from retinue.cli.database import opened
from retinue.cli.options import Db, Json, commands, examples
from retinue.cli.project import Folder, read_folder, report
from retinue.cli.show import clean, facts, one_line, print_json, say, table
from retinue.core.graph.definition import GraphDefinition, Node
from retinue.core.graph.picture import mermaid, svg
from retinue.core.graph.progress import Progress
from retinue.errors import BadInput
from retinue.settings import TheProject

app = commands("Look at the graphs of a project, check and draw them.")

GraphName = Annotated[str, typer.Argument(metavar="GRAPH", help="A graph's name.")]
Seen = Mapping[str, Progress]


@app.command("list", epilog=examples("retinue graphs list", "retinue graphs list --json"))
def list_(folder: Folder = Path(), as_json: Json = False) -> None:
    """List the graphs, also those that cannot run for a mistake in their file."""
    project = read_folder(folder)
    graphs = _all(project)
    if as_json:
        broken = [{"name": name, "ok": False, "problem": why} for name, why in sorted(project.graphs.broken.items())]
        print_json([_graph_json(project, graph) for graph in graphs.values()] + broken)
        return
    if not graphs and not project.graphs.broken:
        say("No graphs yet: write graphs/NAME.yaml, or give agents `children`.")
        return
    rows: list[list[str | Text]] = [
        [name, str(len(graph.nodes)), graph.strategy, one_line(graph.description)] for name, graph in graphs.items()
    ]
    rows += [[Text(f"✗ {clean(name)}", "red"), "", "", one_line(why)] for name, why in project.graphs.broken.items()]
    table(["GRAPH", "NODES", "STRATEGY", "WHAT IT IS FOR"], rows)


@app.command(epilog=examples("retinue graphs show report", "retinue graphs show report --json"))
def show(name: GraphName, folder: Folder = Path(), as_json: Json = False) -> None:
    """Show a graph: its nodes, what each runs, and when."""
    project = read_folder(folder)
    graph = _graph(project, name)
    if as_json:
        print_json(_graph_json(project, graph))
        return
    declared = project.graphs.declared.get(name)
    say((name, "bold"), f"  {clean(graph.description)}")
    facts(
        [
            ("file", f"{declared.file}  ({graph.digest})" if declared else "made of agents with `children`"),
            ("strategy", graph.strategy),
            ("at once", str(graph.limits.parallel)),
            ("on errors", graph.on_error),
            ("takes", one_line(graph.input) if graph.input is not None else "anything"),
            ("gives", one_line(graph.output) if graph.output is not None else "what its last nodes give, by name"),
        ]
    )
    say()
    table(
        ["NODE", "RUNS", "AFTER", "AND"],
        [[n, _runs(node), _after(node), _and(node)] for n, node in graph.nodes.items()],
    )


@app.command(epilog=examples("retinue graphs check", "retinue graphs check --json"))
def check(folder: Folder = Path(), as_json: Json = False) -> int:
    """Read the whole project and say what is wrong with its graphs, by file and line. The exit code is 1 on errors."""
    project = read_folder(folder)
    problems = [problem for problem in project.problems if problem.file.startswith("graphs/")]
    return report(problems, list(_all(project)), "graph", as_json=as_json)


@app.command(
    epilog=examples(
        "retinue graphs draw report",
        "retinue graphs draw report --svg --output report.svg",
        "retinue graphs draw --run 3f8k2      as it was when the run began, coloured by how far it is",
    )
)
def draw(
    name: Annotated[str | None, typer.Argument(metavar="[GRAPH]", help="A graph's name.", show_default=False)] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Colour it by the state of this run.")] = None,
    as_svg: Annotated[bool, typer.Option("--svg", help="SVG, instead of Mermaid.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of printing it.")
    ] = None,
    folder: Folder = Path(),
    db: Db = None,
) -> None:
    """Draw a graph as Mermaid or SVG."""
    if (name is None) == (run is None):
        raise BadInput(problem="Name a graph, or a run of one with --run.")
    graph, seen = asyncio.run(_of_run(run, db)) if run else (_graph(read_folder(folder), name or ""), None)
    drawn = svg(graph, seen) if as_svg or (output and output.suffix == ".svg") else mermaid(graph, seen)
    if output is None:
        sys.stdout.write(drawn + "\n")
    else:
        output.write_text(drawn + "\n", encoding="utf-8")
        say(f"drawn to {output}")


async def _of_run(run: str, db: str | None) -> tuple[GraphDefinition, Seen]:
    async with opened(db) as app:
        return await app.service.graph((await app.service.named(run)).id)


def _all(project: TheProject) -> dict[str, GraphDefinition]:
    """Also the trees of agents."""
    agents = [project.agents.agent(name) for name in project.agents.names()]
    graphs = project.graphs.and_more((), agents)
    return {name: graphs.graph(name) for name in graphs.names()}


def _graph(project: TheProject, name: str) -> GraphDefinition:
    return _all(project).get(name) or project.graphs.graph(name)


def _runs(node: Node) -> str:
    return node.run or f"asks a person: {node.human.kind if node.human else ''}"


def _after(node: Node) -> str:
    needs = ", ".join(node.on or node.needs)
    return f"{needs} ({node.join} of them)" if node.join and len(node.needs) > 1 else needs


def _and(node: Node) -> str:
    """What else is to be known of a node."""
    said = [
        f"when {node.when}" if node.when else "",
        f"for each of {one_line(node.each)}" if node.each is not None else "",
        f"chooses {', '.join(node.choose)}" if node.choose else "",
        f"again from {node.again.from_}, {node.again.at_most} times at most" if node.again else "",
        f"{node.retry.tries} tries" if node.retry else "",
        f"else {node.fallback}" if node.fallback else "",
        f"on error {node.on_error}" if node.on_error else "",
        "adds nodes" if node.spawn else "",
    ]
    return "; ".join(filter(None, said))


def _graph_json(project: TheProject, graph: GraphDefinition) -> dict[str, object]:
    declared = project.graphs.declared.get(graph.name)
    return {
        "name": graph.name,
        "ok": True,
        "file": declared.file if declared else None,
        "digest": graph.digest,
        "description": graph.description,
        "nodes": list(graph.nodes),
        "definition": graph.to_json(),
    }
