"""Items that come while others run."""

from __future__ import annotations

import pytest

from tests.core.graph.playing import Fails, Play, graph

PIPE: dict[str, dict[str, object]] = {
    "first": {"each": [1, 2, 3]},
    "then": {"needs": ["first"], "each": "{{ first.output }}"},
}


def twice(call: str, given: object) -> object:
    assert isinstance(given, int)
    if given == 2:
        raise Fails
    return given * 10


def test_an_item_begins_as_soon_as_it_is_there() -> None:
    play = Play(graph(PIPE))
    play.act()
    play.end_one()
    play.act()
    assert play.started == ["first[0]#1.1", "first[1]#1.1", "first[2]#1.1", "then[0]#1.1"]
    assert play.given["then[0]#1.1"] == "first[0]#1.1"
    play.to_end()
    assert play.schedule.values.result() == {"then": [f"then[{n}]#1.1" for n in range(3)]}


def test_results_stand_in_item_order_whoever_comes_first() -> None:
    play = Play(graph(PIPE), lambda call, given: (call, given), last_first=True).to_end()
    assert play.started[3] == "then[2]#1.1"
    assert [given for _, given in play.schedule.values.result()["then"]] == [  # type: ignore[index]
        (f"first[{n}]#1.1", n + 1) for n in range(3)
    ]


def test_of_what_failed_nothing_comes() -> None:
    nodes = {**PIPE, "first": {"each": [1, 2, 3], "on_error": "continue"}}
    play = Play(graph(nodes), lambda call, given: twice(call, given) if call.startswith("first") else given).to_end()
    assert play.schedule.values.result() == {"then": [10, None, 30]}


@pytest.mark.parametrize(
    "then",
    [
        {"when": "{{ first.output | length > 2 }}"},
        {"input": "{{ item }} of {{ first.output | length }}"},
        {"each": "{{ first.output | list }}"},
    ],
)
def test_who_asks_for_the_whole_waits_for_it(then: dict[str, object]) -> None:
    play = Play(graph({**PIPE, "then": {**PIPE["then"], **then}}))
    play.act()
    play.end_one()
    play.act()
    assert play.started == ["first[0]#1.1", "first[1]#1.1", "first[2]#1.1"]
    play.to_end()
    assert play.phases["then"] == "completed"


@pytest.mark.parametrize("strategy", ["level", "sequence"])
def test_under_other_strategies_the_first_is_over_before(strategy: str) -> None:
    play = Play(graph(PIPE, strategy=strategy)).to_end()
    assert [call[:5] for call in play.started] == ["first"] * 3 + ["then["] * 3


def test_over_nothing_and_skipped_nothing_hangs() -> None:
    assert Play(graph({**PIPE, "first": {"each": []}})).to_end().schedule.values.result() == {"then": []}
    play = Play(graph({**PIPE, "first": {"each": [1], "when": "{{ false }}"}})).to_end()
    assert play.phases == {"first": "skipped", "then": "skipped"}


def test_in_a_loop_each_round_has_items_of_its_own() -> None:
    again = {"when": "{{ check.output == 'check#1.1' }}", "from": "first", "at_most": 2}
    nodes = {
        "first": {"each": [1, 2]},
        "then": {"needs": ["first"], "each": "{{ first.output }}"},
        "check": {"needs": ["then"], "again": again},
        "aside": {"needs": ["first"], "join": "any"},
    }
    play = Play(graph(nodes), last_first=True).to_end()
    assert play.given["then[1]#2.1"] == "first[1]#2.1"
    assert play.schedule.done
    assert play.phases == dict.fromkeys(nodes, "completed")


def test_a_branch_whose_items_are_waited_for_is_not_late() -> None:
    nodes = {**PIPE, "fast": {}, "join": {"needs": ["first", "fast"], "join": "any"}}
    play = Play(graph(nodes), last_first=True)
    play.act()
    play.running.sort(key=lambda start: start.call.node == "fast")
    play.end_one()
    play.act()
    assert play.stopped == []
    assert play.to_end().phases["then"] == "completed"
