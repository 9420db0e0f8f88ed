from __future__ import annotations

from typing import Any

import msgspec
import pytest

from retinue.core.approval import Approval, Verdict, settle
from retinue.core.policy import Action, Policy, Rule, decide
from retinue.core.tool import ToolEntry

PAY = ToolEntry("pay", "mcp:bank")
ASKED = {"eur": 500}
ASK = Rule(tool="pay", action=Action.ASK, at_expiry="allow")
NEVER = Rule(tool="pay", action=Action.DENY, arguments={"to": "mallory"})


def settled(decision: str, value: object = None, message: str = "", policy: Policy | None = None) -> Verdict:
    return settle(policy or Policy(), PAY, ASKED, decision, value, message)


def test_an_approved_call_is_made_as_it_was_asked_for() -> None:
    assert settled("approved") == Verdict(allowed=True, arguments=ASKED)


def test_an_approved_call_is_made_with_the_arguments_that_a_person_gave() -> None:
    assert settled("approved", {"arguments": {"eur": 20}}) == Verdict(allowed=True, arguments={"eur": 20}, edited=True)
    assert settled("approved", {"arguments": {}}).arguments == {}
    assert not settled("approved", {"arguments": {"eur": 500}}).edited


def test_a_refusal_reaches_the_model_with_the_persons_words() -> None:
    verdict = settled("denied", {"arguments": {"eur": 20}}, "too much")
    assert not verdict.allowed
    assert verdict.why == 'a person refused it: too much; these arguments would be fine: {"eur":20}'
    assert settled("denied").why == "a person refused it"


def test_what_nobody_decided_in_time_is_refused_unless_the_rule_says_otherwise() -> None:
    assert settled("expired") == Verdict(allowed=False, arguments=ASKED, why="nobody decided in time")
    assert settled("expired", policy=Policy.of((ASK,))).allowed


@pytest.mark.parametrize("decision", ["answered", "void", "", "Approved"])
def test_only_an_approval_approves(decision: str) -> None:
    assert not settled(decision).allowed


@pytest.mark.parametrize(
    "value", ["yes", 1, [], {"arguments": "x"}, {"arguments": [1]}, {"remember": "yes"}, {"argument": {}}]
)
def test_a_value_that_makes_no_sense_approves_nothing(value: object) -> None:
    assert not settled("approved", value).allowed
    with pytest.raises(ValueError, match=r"\w"):
        Approval.of(value)


def test_an_edit_is_no_way_around_a_rule_that_denies() -> None:
    policy = Policy.of((NEVER, ASK))
    assert settled("approved", policy=policy).allowed
    assert not settled("approved", {"arguments": {"to": "mallory"}}, policy=policy).allowed


@pytest.mark.parametrize(("decision", "action"), [("approved", Action.ALLOW), ("denied", Action.DENY)])
def test_a_decision_for_the_run_holds_for_the_next_call(decision: str, action: Action) -> None:
    verdict = settled(decision, {"remember": True})
    assert decide(Policy().remembering(*verdict.remembered), PAY, {"eur": 7}).action is action
    assert settled(decision).remembered == ()


def test_nothing_is_remembered_of_what_nobody_decided() -> None:
    assert settled("expired", {"remember": True}).remembered == ()
    assert settled("answered", {"remember": True}).remembered == ()


@pytest.mark.parametrize("value", [None, {"remember": True}, {"arguments": {"eur": 1}}])
def test_an_approval_is_sent_as_it_is_read(value: dict[str, Any] | None) -> None:
    assert Approval.of(value).value == value
    assert msgspec.json.encode(Approval.of(value).value) == msgspec.json.encode(value)


def test_a_decision_about_one_call_is_not_undone_by_what_was_said_for_others() -> None:
    never_again = settled("denied", {"remember": True}).remembered
    policy = Policy().remembering(*never_again)
    assert settled("approved", policy=policy).allowed
    assert settled("approved", {"remember": True}, policy=policy).remembered
