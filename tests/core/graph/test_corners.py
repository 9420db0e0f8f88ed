"""Where joins, loops, failures and added nodes meet."""

from __future__ import annotations

import pytest

from retinue.core.outcome import Reason
from tests.core.graph.playing import Fails, Play, Work, graph
from tests.core.graph.test_schedule import LOOP, failing, reviewing

REVIEW = LOOP["review"]


def iteration_of(call: str) -> int:
    return int(call.partition("#")[2].partition(".")[0])


def test_G8_what_a_loop_left_running_is_stopped_and_begun_again() -> None:
    play = Play(graph({**LOOP, "aside": {"needs": ["write"]}}), reviewing(2))
    play.act()
    play.end_one()  # write
    play.act()
    play.end_one()  # review, which wants another draft
    play.act()
    assert play.stopped == ["aside#1.1"]
    play.to_end()
    assert play.phases["aside"] == "completed"
    assert play.started[2:] == ["aside#1.1", "write#2.1", "review#2.1", "aside#2.1", "publish#2.1"]


def test_G8_an_inner_loop_counts_anew_in_each_round_of_the_outer_one() -> None:
    def work(call: str, given: object) -> object:
        if call.startswith("check"):
            return {"again": True}
        return {"again": call.startswith("judge#2")}

    nodes = {
        "write": {},
        "check": {"needs": ["write"], "again": {"when": "{{ check.output.again }}", "from": "write", "at_most": 1}},
        "judge": {"needs": ["check"], "again": {"when": "{{ judge.output.again }}", "from": "write", "at_most": 3}},
    }
    play = Play(graph(nodes), work).to_end()
    assert [call for call in play.started if call.startswith("write")] == [f"write#{n}.1" for n in (1, 2, 3, 4)]
    assert [call for call in play.started if call.startswith("judge")] == ["judge#2.1", "judge#4.1"]


def test_G8_in_a_later_round_an_event_from_before_the_loop_still_counts() -> None:
    nodes = {
        "plan": {},
        **LOOP,
        "write": {"needs": ["plan"]},
        "heard": {"on": ["plan.failed", "review.output.verdict"]},
        "begun": {"on": ["plan.finished", "review.finished"]},
    }
    play = Play(graph(nodes), reviewing(2)).to_end()
    assert [call for call in play.started if call.startswith("heard")] == ["heard#2.1"]
    assert play.started.index("begun#2.1") < play.started.index("review#2.1")


def test_G8_in_a_later_round_a_failure_from_before_the_loop_still_counts() -> None:
    nodes = {"bad": {}, **LOOP, "note": {"needs": ["write", "bad"]}}

    def work(call: str, given: object) -> object:
        if call.startswith("bad"):
            raise Fails
        return reviewing(2)(call, given)

    play = Play(graph(nodes, on_error="skip_dependents"), work).to_end()
    assert play.skipped == {"note": "bad failed", "note#2": "bad failed"}


def test_G8_a_loop_whose_condition_fails_has_failed_and_its_dependents_are_told_once() -> None:
    again = {"when": "{{ review.output.x.y }}", "from": "review", "at_most": 3}
    nodes = {"review": {"again": again, "on_error": "continue"}, "slow": {}, "j": {"needs": ["review", "slow"]}}
    play = Play(graph(nodes))
    play.act()
    play.end_one()
    play.act()
    assert (play.phases["review"], play.phases["j"]) == ("failed", "waiting")
    play.to_end()
    assert play.started == ["review#1.1", "slow#1.1", "j#1.1"]


def test_G8_a_join_of_some_waits_for_the_router_that_may_leave_it_out() -> None:
    nodes = {"a": {}, "b": {}, "r": {"choose": ["x", "y"]}, "x": {"needs": ["a", "b"], "join": "any"}, "y": {}}
    play = Play(graph(nodes), lambda call, given: ["x"] if call[0] == "r" else call).to_end()
    assert play.phases["x"] == "completed"
    assert play.skipped == {"y": "r did not choose it"}


def test_G6_nothing_begins_after_a_failure_that_stops_the_graph() -> None:
    nodes = {"a": {}, "bad": {"input": "{{ input.x.y }}"}, "b": {}}
    play = Play(graph(nodes), input={"x": 1}).to_end()
    assert play.started == ["a#1.1"]
    assert play.stopped == ["a#1.1"]
    assert play.schedule.done


def test_G7_a_try_that_is_due_waits_for_room_and_not_for_the_clock() -> None:
    nodes = {"a": {"retry": {"tries": 2, "delay": 10}}, "b": {}}
    play = Play(graph(nodes, limits={"parallel": 1}), failing("a"))
    play.act()
    play.end_one()
    play.act()
    play.now = 10_000
    play.act()
    assert play.started == ["a#1.1", "b#1.1"]
    assert play.schedule.next_due is None
    play.end_one()
    play.act()
    assert play.started[-1] == "a#1.2"


@pytest.mark.parametrize(("strategy", "asked_first"), [("flow", True), ("level", False), ("sequence", False)])
def test_G4_a_person_is_asked_in_turn(strategy: str, asked_first: bool) -> None:
    play = Play(graph({"a": {}, "b": {}, "ask": {"human": {}, "needs": ["a"]}}, strategy=strategy))
    play.act()
    play.end_one()
    play.act()
    assert bool(play.asked) is asked_first
    play.to_end()
    assert play.asked


def test_G1_in_a_sequence_nothing_begins_while_one_before_it_waits_to_be_tried_again() -> None:
    nodes = {"a": {"retry": {"tries": 2}}, "b": {}}

    def work(call: str, given: object) -> object:
        if call == "a#1.1":
            raise Fails
        return call

    assert Play(graph(nodes, strategy="sequence"), work).to_end().started == ["a#1.1", "a#1.2", "b#1.1"]


def adding(added: dict[str, object]) -> Work:
    return lambda call, given: {"nodes": added} if call.startswith("add") else call


def test_G8_a_node_that_was_added_may_ask_for_what_nobody_had_asked_for() -> None:
    nodes = {"plan": {}, "add": {"needs": ["plan"], "spawn": True, "input": "x"}}
    added: dict[str, object] = {"s": {"run": "model:x", "input": "{{ plan.output }}", "needs": ["plan"]}}
    play = Play(graph(nodes), adding(added)).to_end()
    assert play.given["s#1.1"] == "plan#1.1"


def test_G8_nodes_that_a_loop_adds_again_are_run_again_and_others_are_not() -> None:
    def work(call: str, given: object) -> object:
        if call.startswith("add"):
            names = ["s", "t"] if iteration_of(call) == 1 else ["t", "u"]
            return {"nodes": {name: {"run": "model:x", "input": call} for name in names}}
        return iteration_of(call) < 2 if call.startswith("check") else call

    nodes = {
        "add": {"spawn": True},
        "check": {"needs": ["add"], "again": {"when": "{{ check.output }}", "from": "add", "at_most": 3}},
    }
    play = Play(graph(nodes), work).to_end()
    started = [call for call in play.started if call[0] in "stu"]
    assert sorted(started) == ["s#1.1", "t#1.1", "t#2.1", "u#1.1"]
    assert play.skipped == {"s#2": "add did not add it again"}
    assert play.given["t#2.1"] == "add#2.1"


def test_G8_a_model_cannot_add_code_that_the_graph_does_not_run() -> None:
    play = Play(graph({"add": {"spawn": True}}), adding({"s": {"run": "function:os:remove"}})).to_end()
    assert play.schedule.stopped
    assert play.schedule.stopped.reason is Reason.INVALID
    assert "no node of the graph runs function:os:remove" in str(play.schedule.stopped.error)


def test_a_run_that_ends_after_nobody_waits_for_it_changes_nothing() -> None:
    play = Play(graph({"a": {}, "b": {}}), failing("a"))
    play.act()
    late = play.running[1]
    play.end_one()
    play.act()
    play.running.append(late)
    play.end_one()
    assert play.phases["b"] == "running"
    assert play.schedule.done
