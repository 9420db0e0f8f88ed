"""What a graph does next, without an engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.graph.actions import Recorded
from retinue.core.graph.definition import GraphDefinition
from retinue.core.outcome import Reason
from tests.core.graph.playing import Fails, Play, Work, graph

DIAMOND = {"a": {}, "b": {"needs": ["a"]}, "c": {"needs": ["a"]}, "d": {"needs": ["b", "c"]}}
TREE = {"root": {}, "left": {"needs": ["root"]}, "right": {"needs": ["root"]}, "leaf": {"needs": ["left"]}}
LOOP = {
    "write": {},
    "review": {
        "needs": ["write"],
        "again": {"when": "{{ review.output.verdict == 'revise' }}", "from": "write", "at_most": 3},
    },
    "publish": {"needs": ["review"], "when": "{{ review.output.verdict == 'ok' }}"},
}


def failing(*names: str, reason: Reason = Reason.TOOL_ERROR) -> Work:
    def work(call: str, given: object) -> object:
        if call.partition("#")[0] in names:
            raise Fails(reason)
        return call

    return work


def reviewing(good_at: int) -> Work:
    def work(call: str, given: object) -> object:
        iteration = int(call.partition("#")[2].partition(".")[0])
        if call.startswith("review"):
            return {"verdict": "ok" if iteration >= good_at else "revise"}
        return f"draft {iteration}"

    return work


@pytest.mark.parametrize("strategy", ["flow", "level", "sequence"])
def test_G1_parents_run_before_children_under_each_strategy(strategy: str) -> None:
    play = Play(graph(TREE, strategy=strategy)).to_end()
    order = [call.partition("#")[0] for call in play.started]
    assert sorted(order) == ["leaf", "left", "right", "root"]
    assert order.index("root") < order.index("left") < order.index("leaf")
    assert play.schedule.done


def test_G1_started_at_an_inner_node_only_its_part_runs() -> None:
    play = Play(
        graph(DIAMOND),
        only=frozenset({"b", "d"}),
        recorded=Recorded(begun=frozenset({("b", 1)})),
        outputs={"a": "from a", "c": "from c"},
    ).to_end()
    assert play.started == ["b#1.1", "d#1.1"]
    assert play.given["b#1.1"] == "from a"
    assert play.given["d#1.1"] == {"b": "b#1.1", "c": "from c", "input": None}


def test_G3_a_join_waits_for_all_and_gets_them_by_name() -> None:
    play = Play(graph(DIAMOND), input={"topic": "tea"}).to_end()
    assert play.given["d#1.1"] == {"b": "b#1.1", "c": "c#1.1", "input": {"topic": "tea"}}
    assert play.given["a#1.1"] == {"topic": "tea"}
    assert play.given["b#1.1"] == "a#1.1"


@pytest.mark.parametrize(("join", "before"), [("any", 1), ("2 of", 2)])
def test_G3_a_join_of_some_fires_when_enough_came(join: str, before: int) -> None:
    play = Play(graph({"a": {}, "b": {}, "c": {}, "j": {"needs": ["a", "b", "c"], "join": join}}))
    play.act()
    for _ in range(before):
        assert "j#1.1" not in play.started
        play.end_one()
        play.act()
    assert "j#1.1" in play.started


@pytest.mark.parametrize(("late", "stopped"), [("cancel", ["b#1.1"]), ("leave", [])])
def test_G3_late_branches_are_cancelled_or_left(late: str, stopped: list[str]) -> None:
    play = Play(graph({"a": {}, "b": {}, "j": {"needs": ["a", "b"], "join": "any", "late": late}})).to_end()
    assert play.stopped == stopped
    assert play.phases["b"] == ("cancelled" if stopped else "completed")


def test_G3_a_late_branch_that_somebody_else_needs_goes_on() -> None:
    nodes = {"a": {}, "b": {}, "j": {"needs": ["a", "b"], "join": "any"}, "k": {"needs": ["b"]}}
    play = Play(graph(nodes)).to_end()
    assert play.stopped == []
    assert play.phases == dict.fromkeys("abjk", "completed")


def test_G3_a_join_that_gets_too_few_is_skipped() -> None:
    nodes = {"a": {}, "b": {"on_error": "continue"}, "j": {"needs": ["a", "b"], "join": "2 of"}}
    play = Play(graph(nodes), failing("b")).to_end()
    assert play.skipped == {"j": "only 1 of its branches came, and it waits for 2"}


CHAINS = {"a1": {}, "b1": {}, "a2": {"needs": ["a1"]}, "b2": {"needs": ["b1"]}}


def test_G4_under_flow_a_chain_waits_for_no_other() -> None:
    play = Play(graph(CHAINS))
    play.act()
    play.end_one()  # a1
    play.act()
    assert play.started == ["a1#1.1", "b1#1.1", "a2#1.1"]


def test_G4_under_level_there_is_a_barrier() -> None:
    play = Play(graph(CHAINS, strategy="level"))
    play.act()
    play.end_one()
    play.act()
    assert play.started == ["a1#1.1", "b1#1.1"]
    play.end_one()
    play.act()
    assert play.started[2:] == ["a2#1.1", "b2#1.1"]


def test_G5_never_more_than_four_started_in_declaration_order() -> None:
    names = [f"n{n}" for n in range(100)]
    play = Play(graph({name: {} for name in names}, limits={"parallel": 4})).to_end()
    assert play.most == 4
    assert play.started == [f"{name}#1.1" for name in names]


FORK = {
    "a": {},
    "b": {},
    "c": {},
    "after_b": {"needs": ["b"]},
    "last": {"needs": ["after_b", "a"]},
    "d": {"needs": ["c"]},
}


def test_G6_stop_cancels_the_siblings_and_begins_nothing() -> None:
    play = Play(graph(FORK), failing("b")).to_end()
    assert play.started == ["a#1.1", "b#1.1", "c#1.1"]
    assert play.stopped == ["c#1.1"]
    assert play.schedule.stopped
    assert play.schedule.stopped.name == "b"
    assert play.schedule.done


def test_G6_continue_finishes_the_rest_and_gives_no_error_as_output() -> None:
    play = Play(graph(FORK, on_error="continue"), failing("b"), input="in").to_end()
    assert play.phases == {name: "failed" if name == "b" else "completed" for name in FORK}
    assert play.given["after_b#1.1"] == {"input": "in"}
    assert not any("failed" in str(given) for given in play.given.values())


def test_G6_skip_dependents_skips_exactly_these() -> None:
    play = Play(graph(FORK, on_error="skip_dependents"), failing("b")).to_end()
    assert play.skipped == {"after_b": "b failed", "last": "b failed"}
    assert play.phases["d"] == "completed"


def test_G7_a_retry_waits_longer_each_time_and_then_falls_back() -> None:
    node = {"retry": {"tries": 3, "delay": 2, "factor": 3}, "fallback": "model:other"}
    times: list[int] = []

    def work(call: str, given: object) -> object:
        times.append(play.now)
        if not call.endswith(".4"):
            raise Fails
        return "from the fallback"

    play = Play(graph({"a": node}), work)
    play.to_end()
    assert play.started == ["a#1.1", "a#1.2", "a#1.3", "a#1.4"]
    assert times == [0, 2000, 8000, 8000]
    assert (play.targets["a#1.3"], play.targets["a#1.4"]) == ("model:test", "model:other")


def test_G7_what_is_invalid_is_not_tried_again() -> None:
    play = Play(graph({"a": {"retry": {"tries": 3}}}), failing("a", reason=Reason.INVALID)).to_end()
    assert play.started == ["a#1.1"]


def test_G8_a_condition_that_does_not_hold_skips_the_node_and_a_join_counts_it() -> None:
    nodes = {"a": {}, "b": {"needs": ["a"], "when": "{{ a.output == 'no' }}"}, "c": {"needs": ["a", "b"]}}
    play = Play(graph(nodes)).to_end()
    assert play.skipped == {"b": "its condition does not hold"}
    assert play.given["c#1.1"] == {"a": "a#1.1", "input": None}


def test_G8_what_comes_only_after_skipped_nodes_is_skipped() -> None:
    nodes = {"a": {"when": "{{ input }}"}, "b": {"needs": ["a"]}}
    play = Play(graph(nodes)).to_end()
    assert list(play.skipped) == ["a", "b"]


@pytest.mark.parametrize("said", ["y", ["y"], {"choose": "y"}])
def test_G8_a_router_names_who_runs(said: object) -> None:
    nodes = {"r": {"choose": ["x", "y"]}, "x": {}, "y": {}, "z": {"needs": ["x", "y"]}}
    play = Play(graph(nodes), lambda call, given: said if call[0] == "r" else call).to_end()
    assert play.skipped == {"x": "r did not choose it"}
    assert play.started == ["r#1.1", "y#1.1", "z#1.1"]


def test_G8_a_router_that_names_nobody_known_has_failed() -> None:
    play = Play(graph({"r": {"choose": ["x"]}, "x": {}}), lambda call, given: "elsewhere").to_end()
    assert play.schedule.stopped
    assert play.schedule.stopped.error
    assert "which is none of x" in play.schedule.stopped.error.message


@pytest.mark.parametrize(
    ("on", "fails", "runs"),
    [
        ("a.finished", False, True),
        ("a.finished", True, False),
        ("a.failed", True, True),
        ("a.failed", False, False),
        ("a.output.urgent", False, True),
        ("a.output.other", False, False),
    ],
)
def test_G8_an_event_triggers_a_node(on: str, fails: bool, runs: bool) -> None:
    def work(call: str, given: object) -> object:
        if fails and call.startswith("a"):
            raise Fails
        return {"urgent": True}

    play = Play(graph({"a": {"on_error": "continue"}, "b": {"on": on}}), work).to_end()
    assert ("b#1.1" in play.started) is runs


def test_G8_who_waits_for_a_failure_keeps_it_from_stopping_the_graph() -> None:
    play = Play(graph({"a": {}, "b": {"on": "a.failed"}}), failing("a")).to_end()
    assert play.started == ["a#1.1", "b#1.1"]
    assert not play.schedule.stopped


@pytest.mark.parametrize(("good_at", "rounds", "published"), [(1, 1, True), (3, 3, True), (9, 4, False)])
def test_G8_a_loop_runs_again_as_often_as_it_may(good_at: int, rounds: int, published: bool) -> None:
    play = Play(graph(LOOP, output="{{ write.output }}"), reviewing(good_at)).to_end()
    assert play.schedule.values.result() == f"draft {rounds}"
    assert (play.phases["publish"] == "completed") is published
    assert sum(call.startswith("review") for call in play.started) == rounds


def test_G8_nodes_of_a_loop_see_what_they_gave_before() -> None:
    write = {
        "input": "{{ previous.output ~ ' / ' ~ previous.review.output.verdict if previous is defined else 'new' }}"
    }
    play = Play(graph({**LOOP, "write": write}), reviewing(2)).to_end()
    assert play.given["write#1.1"] == "new"
    assert play.given["write#2.1"] == "draft 1 / revise"


def test_G8_what_depends_on_a_loop_is_run_again_with_it() -> None:
    play = Play(graph({**LOOP, "note": {"needs": ["write"]}}), reviewing(2)).to_end()
    assert [call for call in play.started if call.startswith("note")] == ["note#1.1", "note#2.1"]


SPAWNED = {"s1": {"run": "model:x"}, "s2": {"run": "model:x", "needs": ["s1"]}}


def test_G8_a_node_adds_nodes_and_who_waits_for_it_waits_for_them() -> None:
    nodes = {"a": {"spawn": True}, "b": {"needs": ["a"], "input": "{{ a.output.nodes | length }}"}}
    play = Play(graph(nodes), lambda call, given: {"nodes": SPAWNED} if call[0] == "a" else call).to_end()
    assert play.started == ["a#1.1", "s1#1.1", "s2#1.1", "b#1.1"]


@pytest.mark.parametrize(
    ("added", "why"),
    [
        (SPAWNED, "1 nodes may be added to this graph, and no more"),
        ({"a": {"run": "model:x"}}, "the graph has a node a"),
        ({"s": {"walk": "model:x"}}, "nodes.s.walk: nobody knows this key"),
        ({"s": {"run": "model:x", "needs": ["gone"]}}, "there is no node gone"),
        ({"no good": {"run": "model:x"}}, "a node's name has letters"),
        ([1], "are a table of nodes by name"),
    ],
)
def test_G8_nodes_that_cannot_be_added_fail_the_node(added: object, why: str) -> None:
    definition = graph({"a": {"spawn": True}}, limits={"spawn": 1})
    play = Play(definition, lambda call, given: {"nodes": added}).to_end()
    assert play.schedule.stopped
    assert play.schedule.stopped.error
    assert why in play.schedule.stopped.error.message


def test_G8_spawned_nodes_spawn_only_so_deep() -> None:
    def work(call: str, given: object) -> object:
        return {"nodes": {f"{call.partition('#')[0]}x": {"run": "model:x", "spawn": True}}}

    play = Play(graph({"a": {"spawn": True}}, limits={"spawn_depth": 2}), work).to_end()
    assert play.started == ["a#1.1", "ax#1.1", "axx#1.1"]
    assert play.schedule.stopped


EACH = {"list": {}, "every": {"needs": ["list"], "each": "{{ list.output }}", "parallel": 8}}


def listing(items: list[object], *bad: int) -> Work:
    def work(call: str, given: object) -> object:
        if call.startswith("list"):
            return items
        if given in bad:
            raise Fails
        return given

    return work


def test_G9_results_stand_in_item_order_whoever_ends_first() -> None:
    play = Play(graph(EACH), listing(list(range(1000))), last_first=True).to_end()
    assert play.schedule.values.result() == {"every": list(range(1000))}
    assert play.most == 8


@pytest.mark.parametrize(
    ("policy", "phase", "output"),
    [("stop", "failed", None), ("continue", "completed", [0, None, 2]), ("skip_dependents", "failed", None)],
)
def test_G9_one_item_fails(policy: str, phase: str, output: object) -> None:
    play = Play(graph(EACH, on_error=policy), listing([0, 1, 2], 1)).to_end()
    assert play.phases["every"] == phase
    assert play.schedule.values.view("every")["output"] == output


@pytest.mark.parametrize(
    ("items", "why"), [("text", "gave text, not a list"), ({}, "gave an object, not a list"), (None, "gave nothing")]
)
def test_G9_each_over_something_that_is_no_list_fails(items: object, why: str) -> None:
    play = Play(graph(EACH), lambda call, given: items).to_end()
    assert play.schedule.stopped
    assert play.schedule.stopped.error
    assert why in play.schedule.stopped.error.message


def test_G9_each_over_nothing_is_done_at_once_and_over_too_much_is_refused() -> None:
    assert Play(graph(EACH), listing([])).to_end().schedule.values.result() == {"every": []}
    play = Play(graph(EACH, limits={"max_items": 10}), listing(list(range(11)))).to_end()
    assert play.schedule.stopped
    assert play.started == ["list#1.1"]


@pytest.mark.parametrize("deep", [True, False])
def test_G10_ten_thousand_nodes(deep: bool) -> None:
    nodes = {f"n{n}": {"needs": [f"n{n - 1}"]} if deep and n else {} for n in range(10_000)}
    play = Play(graph(nodes)).to_end()
    assert len(play.started) == 10_000
    assert play.schedule.done


def test_a_person_is_asked_and_takes_no_place() -> None:
    definition = graph({"ask": {"human": {"title": "Go?"}}, "a": {}}, limits={"parallel": 1})
    play = Play(definition)
    play.act()
    assert [asked.title for asked in play.asked] == ["Go?"]
    assert play.started == ["a#1.1"]
    play.answer(decision="approved")
    play.to_end()
    assert play.schedule.values.result()["ask"] == {"approved": True, "message": ""}  # type: ignore[index]


def told_again(definition: GraphDefinition, work: Work, upto: int) -> None:
    """A graph that dies after some ends comes to where it was, and ends as it would have."""
    whole = Play(definition, work).to_end()
    first = Play(definition, work)
    first.act()
    for _ in range(upto):
        if first.running:
            first.end_one()
            first.act()
    begun = frozenset(
        (call.partition("#")[0].partition("[")[0], int(call.partition("#")[2][0])) for call in first.started
    )
    again = Play(definition, work, recorded=Recorded(begun, frozenset(first.skipped))).to_end()
    assert sorted(again.started) == sorted(whole.started)
    assert again.phases == whole.phases


@pytest.mark.parametrize("nodes", [DIAMOND, TREE, LOOP, EACH, FORK])
@pytest.mark.parametrize("upto", range(6))
def test_G11_a_graph_that_is_told_again_comes_to_where_it_was(nodes: dict[str, object], upto: int) -> None:
    work = listing([1, 2, 3]) if nodes is EACH else reviewing(2)
    told_again(graph(nodes, on_error="continue"), work, upto)


@st.composite
def graphs(draw: st.DrawFn) -> GraphDefinition:
    nodes: dict[str, object] = {}
    for n in range(draw(st.integers(1, 8))):
        needs = draw(st.lists(st.sampled_from(sorted(nodes)), unique=True, max_size=3)) if nodes else []
        node: dict[str, object] = {"needs": needs}
        if len(needs) > 1:
            node["join"] = draw(st.sampled_from(["all", "any", f"{len(needs)} of"]))
        node["late"] = draw(st.sampled_from(["cancel", "leave"]))
        nodes[f"n{n}"] = node
    strategy = draw(st.sampled_from(["flow", "level", "sequence"]))
    policy = draw(st.sampled_from(["stop", "continue", "skip_dependents"]))
    return graph(nodes, strategy=strategy, on_error=policy, limits={"parallel": draw(st.integers(1, 4))})


@given(graphs(), st.sets(st.integers(0, 7)), st.booleans())
def test_every_graph_comes_to_an_end_and_nothing_runs_before_what_it_needs(
    definition: GraphDefinition, bad: set[int], last_first: bool
) -> None:
    play = Play(definition, failing(*(f"n{n}" for n in bad)), last_first=last_first).to_end()
    assert play.schedule.done
    assert len(set(play.started)) == len(play.started)
    assert play.most <= definition.limits.parallel
    if not play.schedule.stopped:
        assert all(state.phase.over for state in play.schedule.nodes.values())
    place = {call.partition("#")[0]: n for n, call in enumerate(play.started)}
    for name, node in definition.nodes.items():
        if name in place and node.join == 0:
            assert all(place[need] < place[name] for need in node.needs if need in place)
