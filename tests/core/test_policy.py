from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.outcome import Effect
from retinue.core.policy import STRICTNESS, Action, Policy, Remembered, Rule, Rules, decide
from retinue.core.tool import ToolEntry

OWN_WRITE = ToolEntry("charge")
OWN_READ = ToolEntry("look", effect=Effect.READ)
FOREIGN_WRITE = ToolEntry("mcp:git/push", "mcp:git")
FOREIGN_READ = ToolEntry("mcp:git/log", "mcp:git", Effect.READ)
BUILT_IN = ToolEntry("write", "builtin")
TOOLS = [OWN_WRITE, OWN_READ, FOREIGN_WRITE, FOREIGN_READ, BUILT_IN]


def rule(tool: str = "*", action: str = "deny", **keys: Any) -> Rule:
    return msgspec.convert({"tool": tool, "action": action, **keys}, Rule)


def action(rules: list[Rule], tool: ToolEntry = OWN_WRITE, arguments: object = None) -> str:
    return decide(Policy.of(tuple(rules)), tool, {} if arguments is None else arguments).action.value


patterns = st.sampled_from(["*", "charge", "look", "mcp:*", "mcp:git/*", "mcp:git/push", "c*", "?ook", "write"])
values = st.sampled_from(["a", "b", "/tmp/x", 1, True, None]) | st.lists(st.sampled_from(["a", "b"]), max_size=2)
arguments = st.dictionaries(st.sampled_from(["path", "n", "of"]), values, max_size=3)
wanted = st.sampled_from(["*", "a", "/tmp/*", 1, True, None]) | st.lists(st.sampled_from(["a", "b*"]), max_size=2).map(
    tuple
)
rules = st.builds(
    Rule,
    tool=patterns,
    action=st.sampled_from(Action),
    effect=st.none() | st.sampled_from(Effect),
    arguments=st.dictionaries(st.sampled_from(["path", "n", "of"]), wanted, max_size=2),
    at_expiry=st.sampled_from(["allow", "deny"]),
)
lists: st.SearchStrategy[Rules] = st.lists(rules, max_size=4).map(tuple)
policies = st.lists(lists, min_size=1, max_size=3).map(lambda layers: Policy(layers=tuple(layers)))
tools = st.sampled_from(TOOLS)
said = st.lists(
    st.builds(
        Remembered,
        tool=st.sampled_from([tool.name for tool in TOOLS]),
        action=st.sampled_from([Action.ALLOW, Action.DENY]),
        asked_by=st.none() | rules,
    ),
    max_size=3,
).map(tuple)


def test_without_a_rule_only_writes_that_are_not_the_projects_own_are_asked_for() -> None:
    asked = [tool.name for tool in TOOLS if action([], tool) == "ask"]
    assert asked == ["mcp:git/push", "write"]
    assert {action([], tool) for tool in TOOLS} == {"ask", "allow"}


def test_the_first_rule_that_matches_decides() -> None:
    both = [rule("charge", "ask"), rule("*", "deny")]
    assert (action(both), action(both, OWN_READ), action(both[::-1])) == ("ask", "deny", "deny")


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*", ["charge", "look", "mcp:git/push", "mcp:git/log", "write"]),
        ("mcp:*", ["mcp:git/push", "mcp:git/log"]),
        ("mcp:git/l*", ["mcp:git/log"]),
        ("Charge", []),
        ("*r*", ["charge", "write"]),
    ],
)
def test_a_rule_is_about_tools_by_pattern(pattern: str, matches: list[str]) -> None:
    assert [tool.name for tool in TOOLS if rule(pattern).matches(tool, {})] == matches


def test_a_rule_can_be_about_what_tools_do() -> None:
    assert [tool.name for tool in TOOLS if rule(effect="read").matches(tool, {})] == ["look", "mcp:git/log"]


@pytest.mark.parametrize(
    ("wanted", "given", "matches"),
    [
        ({"path": "/tmp/*"}, {"path": "/tmp/x"}, True),
        ({"path": "/tmp/*"}, {"path": "/etc/x"}, False),
        ({"path": "/tmp/*"}, {}, False),
        ({"path": "/tmp/*"}, "no object", False),
        ({"n": 1}, {"n": 1.0}, True),
        ({"n": 1}, {"n": True}, False),
        ({"n": True}, {"n": 1}, False),
        ({"n": "1*"}, {"n": 15}, True),
        ({"n": None}, {"n": None}, True),
        ({"n": None}, {}, False),
        ({"n": ["1", "a*"]}, {"n": "abc"}, True),
        ({"n": ["1", "a*"]}, {"n": "cab"}, False),
        ({"a.b": "x"}, {"a": {"b": "x"}}, True),
        ({"a.b": "x"}, {"a": [{"b": "y"}, {"b": "x"}]}, True),
        ({"a.b": "x"}, {"a": "x"}, False),
        ({"cmd": "git *"}, {"cmd": "git push\n-f"}, True),
        ({"path": "/tmp/*", "n": 1}, {"path": "/tmp/x", "n": 2}, False),
    ],
)
def test_a_rule_is_about_arguments(wanted: dict[str, Any], given: object, matches: bool) -> None:
    assert rule(arguments=wanted).matches(OWN_WRITE, given) is matches


@pytest.mark.parametrize(
    "sly",
    [
        {"paths": ["/tmp/x", "/etc/passwd"]},
        {"paths": [["/tmp/x", ["/etc/passwd"]]]},
        {"paths": []},
    ],
)
def test_of_a_list_all_must_match_to_be_allowed_and_one_is_enough_to_be_denied(sly: dict[str, Any]) -> None:
    allowed = [rule(action="allow", arguments={"paths": "/tmp/*"}), rule()]
    assert action(allowed, arguments=sly) == "deny"
    assert action(allowed, arguments={"paths": ["/tmp/x", "/tmp/y"]}) == "allow"
    denied = [rule(arguments={"paths": "/etc/*"})]
    assert action(denied, arguments=sly) == ("allow" if sly == {"paths": []} else "deny")


@pytest.mark.parametrize("sly", [{"a.b": "fine", "a": {"b": "evil"}}, {"a": [{"b": "fine"}, {}]}])
def test_an_argument_cannot_hide_behind_another(sly: dict[str, Any]) -> None:
    assert action([rule(action="allow", arguments={"a.b": "fine"}), rule()], arguments=sly) == "deny"


def test_asking_says_how_long_and_what_holds_when_nobody_decides() -> None:
    by_default = decide(Policy(), FOREIGN_WRITE, {})
    assert (by_default.expires, by_default.at_expiry) == (7 * 86_400, Action.DENY)
    said = decide(Policy.of((rule(action="ask", expires=60.0, at_expiry="allow"),)), OWN_WRITE, {})
    assert (said.expires, said.at_expiry) == (60, Action.ALLOW)


def test_an_agents_own_rules_come_before_the_projects() -> None:
    policy = Policy.of((rule("charge", "allow"),), (rule("charge", "deny"), rule("look", "deny")))
    assert decide(policy, OWN_WRITE, {}).action is Action.ALLOW
    assert decide(policy, OWN_READ, {}).action is Action.DENY


@given(lists, tools, arguments)
def test_it_is_the_first_rule_that_matches_whatever_follows(
    some: Rules, tool: ToolEntry, given: dict[str, Any]
) -> None:
    first = next((one for one in some if one.matches(tool, given)), None)
    decision = decide(Policy.of(some), tool, given)
    assert decision.rule is first
    if first:
        assert decision.action is first.action


@given(policies, policies, tools, arguments)
def test_a_child_may_never_do_more_than_itself_or_its_parent(
    own: Policy, parent: Policy, tool: ToolEntry, given: dict[str, Any]
) -> None:
    both = decide(own.within(parent), tool, given)
    single = [decide(own, tool, given), decide(parent, tool, given)]
    assert both.strictness == max(decision.strictness for decision in single)


@given(policies, policies, policies, tools, arguments)
def test_intersection_has_no_order_and_does_nothing_twice(
    a: Policy, b: Policy, c: Policy, tool: ToolEntry, given: dict[str, Any]
) -> None:
    def strictness(policy: Policy) -> tuple[int, bool]:
        return decide(policy, tool, given).strictness

    assert strictness(a.within(b)) == strictness(b.within(a))
    assert strictness(a.within(b).within(c)) == strictness(a.within(b.within(c)))
    assert a.within(a) == a


@given(lists, tools, arguments)
def test_a_rule_that_denies_everything_first_denies_everything(
    some: Rules, tool: ToolEntry, given: dict[str, Any]
) -> None:
    assert decide(Policy.of((rule(), *some)), tool, given).action is Action.DENY


ETC = rule("write", "ask", arguments={"path": "/etc/*"})
ANY = rule("write", "ask")


def remembering(policy: Policy, arguments: dict[str, Any], action: Action = Action.ALLOW) -> Policy:
    asked = decide(policy, BUILT_IN, arguments)
    return policy.remembering(*(Remembered(tool="write", action=action, asked_by=rule) for rule in asked.asking))


def test_what_a_person_said_for_the_run_answers_the_same_question_and_no_other() -> None:
    policy = remembering(Policy.of((ETC, ANY)), {"path": "/tmp/x"})
    assert decide(policy, BUILT_IN, {"path": "/tmp/y"}).action is Action.ALLOW
    assert decide(policy, BUILT_IN, {"path": "/etc/x"}).action is Action.ASK
    assert decide(policy, FOREIGN_WRITE, {}).action is Action.ASK


def test_of_a_list_only_what_was_asked_about_is_remembered_as_allowed() -> None:
    policy = remembering(Policy.of((ETC,)), {"path": ["/etc/a"]})
    assert decide(policy, BUILT_IN, {"path": ["/etc/a", "/etc/b"]}).action is Action.ALLOW
    assert decide(policy, BUILT_IN, {"path": ["/etc/a", "/root/b"]}).action is Action.ASK


def test_one_answer_is_remembered_for_all_rules_that_ask_and_the_last_word_counts() -> None:
    policy = remembering(Policy.of((ETC,)).within(Policy()), {"path": "/etc/a"})
    assert decide(policy, BUILT_IN, {"path": "/etc/a"}).action is Action.ALLOW
    refused = policy.remembering(*(Remembered(tool="write", action=Action.DENY, asked_by=rule) for rule in (ETC, None)))
    assert decide(refused, BUILT_IN, {"path": "/etc/a"}).action is Action.DENY


def test_a_child_is_answered_by_what_was_said_above_it() -> None:
    child = Policy().within(remembering(Policy(), {}))
    assert decide(child, BUILT_IN, {}).action is Action.ALLOW


@given(policies, said, tools, arguments)
def test_what_is_remembered_answers_questions_and_changes_nothing_else(
    policy: Policy, said: tuple[Remembered, ...], tool: ToolEntry, given: dict[str, Any]
) -> None:
    before, after = decide(policy, tool, given), decide(policy.remembering(*said), tool, given)
    if before.action is not Action.ASK:
        assert (after.action, after.rule) == (before.action, before.rule)
    if after.action is Action.ASK:
        assert set(map(id, after.asking)) <= set(map(id, before.asking))


@given(policies, said)
def test_a_policy_reads_back_as_it_is_written(policy: Policy, said: tuple[Remembered, ...]) -> None:
    policy = policy.remembering(*said)
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy


def test_strictness_goes_from_allow_over_ask_to_deny() -> None:
    assert sorted(STRICTNESS, key=STRICTNESS.__getitem__) == ["allow", "ask", "deny"]
