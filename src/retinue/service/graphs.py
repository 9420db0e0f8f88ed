"""The graph of a run: as it was when the run began, with what was added since, and how far its nodes are."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from retinue.core.graph.call import NodeCall
from retinue.core.graph.definition import GraphDefinition
from retinue.core.graph.progress import Progress, progress_of
from retinue.core.graph.shape import shape_of
from retinue.core.graph.spawning import spawned_nodes, with_more
from retinue.core.outcome import Status
from retinue.core.run import Child, RunState
from retinue.core.target import Target
from retinue.engine.codec import Codec
from retinue.engine.explain import read_journal
from retinue.engine.past import read_outcome, read_past
from retinue.errors import BadDefinition, BadInput
from retinue.ports.store import RunRow, Store


async def graph_of(store: Store, codec: Codec, row: RunRow) -> tuple[GraphDefinition, dict[str, Progress]]:
    """Raises `BadInput` for a run of something else."""
    stored = await store.definition(row.definition) if row.definition else None
    if stored is None or Target.parse(row.target).kind != "graph":
        raise BadInput(problem=f"{row.id} runs {row.target}, which is no graph.")
    graph = GraphDefinition.from_json(msgspec.json.decode(stored, type=dict[str, object]))
    state = (await read_journal(store, codec, row.id)).state
    past = await _used_again(store, codec, row, graph, state)
    graph = await _with_added(store, codec, graph, [*past, *state.children.values()])
    return graph, progress_of(state, graph.nodes, past)


def check_after(graph: GraphDefinition, entry: str, node: str) -> None:
    """Raises `BadInput` for a node that a run which was started at another has not run."""
    if {entry, node} <= {*graph.nodes} and node not in shape_of(graph.nodes)[0].after(entry):
        raise BadInput(
            problem=f"{node} cannot be run again: it was started at {entry}, and {node} does not come after that."
        )


async def _used_again(store: Store, codec: Codec, row: RunRow, graph: GraphDefinition, state: RunState) -> list[Child]:
    """The runs of the past that give a graph that is run again its outputs."""
    if row.source_run_id is None or state.queued is None:
        return []
    again = state.queued.again_at
    anew = frozenset(shape_of(graph.nodes)[0].after(again) if again else ())
    found: dict[str, Child] = {}
    for before in reversed((await read_past(store, codec, row)).states):
        found |= before.children
    return [
        child
        for call_id, child in found.items()
        if child.status is Status.COMPLETED and (call := NodeCall.parse(call_id)) and call.node not in anew
    ]


async def _with_added(store: Store, codec: Codec, graph: GraphDefinition, children: Iterable[Child]) -> GraphDefinition:
    """With the nodes that its own have added."""
    added: dict[str, set[str]] = {}
    for child in children:
        call = NodeCall.parse(child.call_id)
        node = graph.nodes.get(call.node) if call else None
        if call is None or node is None or not node.spawn or child.status is not Status.COMPLETED:
            continue
        mine = added.setdefault(call.node, set())
        try:
            output = (await read_outcome(store, codec, child.run_id)).output
            more = spawned_nodes(graph, call.node, output, 0, mine)
        except BadDefinition:
            continue  # the node has failed by it
        waiting = [name for name in shape_of(graph.nodes)[0].places[call.node].dependents if name not in mine]
        graph = with_more(graph, more, call.node, waiting)
        mine |= {*more}
    return graph
