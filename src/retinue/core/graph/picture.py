"""A graph as a picture: Mermaid for documents, SVG for browsers, each coloured by how far a run is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from retinue.core.graph.definition import GraphDefinition, Node
from retinue.core.graph.progress import Progress
from retinue.core.graph.shape import Shape, shape_of
from retinue.core.graph.state import Phase

COLOURS: dict[Phase, tuple[str, str]] = {
    Phase.WAITING: ("#f5f5f4", "#a8a29e"),
    Phase.READY: ("#f5f5f4", "#a8a29e"),
    Phase.RUNNING: ("#dbeafe", "#2563eb"),
    Phase.COMPLETED: ("#dcfce7", "#16a34a"),
    Phase.FAILED: ("#fee2e2", "#dc2626"),
    Phase.SKIPPED: ("#fafaf9", "#d6d3d1"),
    Phase.CANCELLED: ("#fef3c7", "#d97706"),
}
"""What a node is filled with, and drawn with."""
WIDTH, HEIGHT, ACROSS, DOWN, EDGE = 168, 54, 40, 56, 24
LANE = 112
"""How much room a loop has at the right, with its words."""
LONGEST = 22
Seen = Mapping[str, Progress]


@dataclass(frozen=True, slots=True)
class Edge:
    """From a node to one that waits for it. `back` is a loop."""

    source: str
    target: str
    label: str = ""
    dashed: bool = False
    back: bool = False


def mermaid(graph: GraphDefinition, seen: Seen | None = None) -> str:
    """The graph in Mermaid's words."""
    lines = ["flowchart TD"]
    for name, node in graph.nodes.items():
        opening, closing = ("{{", "}}") if node.human else ("([", "])") if node.choose else ("[", "]")
        text = "<br/>".join(_quoted(line) for line in _labels(name, node, seen))
        lines.append(f'    {name}{opening}"{text}"{closing}')
    for edge in edges_of(graph):
        arrow = "-.->" if edge.dashed or edge.back else "-->"
        label = f'|"{_quoted(edge.label)}"|' if edge.label else ""
        lines.append(f"    {edge.source} {arrow}{label} {edge.target}")
    if seen is not None:
        for phase, (fill, line) in COLOURS.items():
            if names := [name for name in graph.nodes if _phase(name, seen) is phase]:
                lines.append(f"    classDef {phase.value} fill:{fill},stroke:{line}")
                lines.append(f"    class {','.join(names)} {phase.value}")
    return "\n".join(lines)


def edges_of(graph: GraphDefinition) -> Iterator[Edge]:
    shape = shape_of(graph.nodes)[0]
    for name, node in graph.nodes.items():
        place = shape.places[name]
        triggers = {trigger.node: trigger for trigger in place.triggers}
        for need in place.needs:
            label = ""
            if need in triggers:
                label = ".".join(filter(None, (triggers[need].event, triggers[need].field)))
            chosen = need in place.routers
            yield Edge(need, name, label or ("chosen" if chosen else ""), dashed=bool(node.when or label or chosen))
        if node.again:
            yield Edge(name, node.again.from_, f"again, {node.again.at_most} at most", back=True)


def _labels(name: str, node: Node, seen: Seen | None) -> list[str]:
    what = node.run or f"a person: {node.human.kind if node.human else ''}"
    lines = [name, what if len(what) <= LONGEST else f"{what[: LONGEST - 1]}…"]
    marks = [word for word, there in (("each", node.each is not None), ("spawns", node.spawn)) if there]
    if seen is not None and (progress := seen.get(name)):
        if progress.of is not None:
            marks = [f"{len(progress.done)} of {progress.of}"]
            marks += [f"{len(progress.failed)} failed"] if progress.failed else []
        if progress.iteration > 1:
            marks.append(f"round {progress.iteration}")
    if marks:
        lines.append(", ".join(marks))
    return lines


def _phase(name: str, seen: Seen) -> Phase:
    return seen[name].phase if name in seen else Phase.WAITING


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


# SVG


def svg(graph: GraphDefinition, seen: Seen | None = None) -> str:
    """The graph drawn in levels, from the top down."""
    shape = shape_of(graph.nodes)[0]
    places = _positions(shape)
    width = max((x for x, _ in places.values()), default=0) + WIDTH + EDGE
    height = max((y for _, y in places.values()), default=0) + HEIGHT + EDGE
    edges = list(edges_of(graph))
    loops = [edge for edge in edges if edge.back]
    lanes = {edge: width + n * LANE for n, edge in enumerate(loops)}
    width += len(loops) * LANE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>{escape(graph.name)}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#78716c"/></marker></defs>',
    ]
    parts += (_line(edge, places) for edge in edges if not edge.back)
    parts += (_loop(edge, places, lane) for edge, lane in lanes.items())
    parts += (_box(name, node, places[name], seen) for name, node in graph.nodes.items())
    return "\n".join([*parts, "</svg>"])


def _positions(shape: Shape) -> dict[str, tuple[int, int]]:
    """Each level is a row, in the middle of the widest."""
    rows: dict[int, list[str]] = {}
    for name, place in shape.places.items():
        rows.setdefault(place.depth, []).append(name)
    widest = max((len(row) for row in rows.values()), default=0)
    places = {}
    for depth, row in rows.items():
        start = EDGE + (widest - len(row)) * (WIDTH + ACROSS) // 2
        for n, name in enumerate(row):
            places[name] = start + n * (WIDTH + ACROSS), EDGE + depth * (HEIGHT + DOWN)
    return places


def _box(name: str, node: Node, at: tuple[int, int], seen: Seen | None) -> str:
    x, y = at
    phase = _phase(name, seen) if seen is not None else Phase.WAITING
    fill, line = COLOURS[phase]
    dash = ' stroke-dasharray="5 4"' if phase is Phase.SKIPPED else ""
    radius = HEIGHT // 2 if node.human or node.choose else 8
    first, *rest = _labels(name, node, seen)
    middle = x + WIDTH // 2
    texts = [f'<text x="{middle}" y="{y + 21}" text-anchor="middle" font-weight="600">{escape(first)}</text>']
    small = " · ".join(rest)
    small = small if len(small) <= LONGEST + 6 else f"{small[: LONGEST + 5]}…"
    texts.append(
        f'<text x="{middle}" y="{y + 40}" text-anchor="middle" font-size="11" fill="#57534e">{escape(small)}</text>'
    )
    return (
        f'<g><title>{escape(f"{name}: {phase.value}")}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" '
        f'rx="{radius}" fill="{fill}" stroke="{line}" stroke-width="1.5"{dash}/>{"".join(texts)}</g>'
    )


def _line(edge: Edge, places: Mapping[str, tuple[int, int]]) -> str:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    start, end = (x1 + WIDTH // 2, y1 + HEIGHT), (x2 + WIDTH // 2, y2)
    half = (start[1] + end[1]) // 2
    path = f"M{start[0]} {start[1]} C{start[0]} {half} {end[0]} {half} {end[0]} {end[1]}"
    aside = 0 if start[0] == end[0] else -6 if start[0] < end[0] else 12  # on the free side of the slope
    return _drawn(path, edge, ((start[0] + end[0]) // 2 + 8, half + aside))


def _loop(edge: Edge, places: Mapping[str, tuple[int, int]], lane: int) -> str:
    """From below a node around the right side of all, to above the one that is begun again; its words beside it."""
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    out, back = x1 + WIDTH * 3 // 4, x2 + WIDTH * 3 // 4
    below, above = y1 + HEIGHT + DOWN // 4, y2 - min(DOWN // 4, EDGE - 8)
    path = f"M{out} {y1 + HEIGHT} V{below} H{lane} V{above} H{back} V{y2}"
    return _drawn(path, edge, (lane + 6, (below + above) // 2))


def _drawn(path: str, edge: Edge, words_at: tuple[int, int]) -> str:
    dash = ' stroke-dasharray="5 4"' if edge.dashed or edge.back else ""
    line = f'<path d="{path}" fill="none" stroke="#78716c" stroke-width="1.2" stroke-linejoin="round"'
    words = f'<text x="{words_at[0]}" y="{words_at[1]}" font-size="10" fill="#78716c">{escape(edge.label)}</text>'
    return f'{line} marker-end="url(#tip)"{dash}/>{words if edge.label else ""}'
