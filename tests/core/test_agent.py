from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.agent import SOME_TEXT, AgentCode, AgentDefinition, check_agent
from retinue.core.declared import read
from retinue.core.messages import Text
from retinue.core.schema import Schema


def agent(**keys: Any) -> AgentDefinition:
    definition, problems = read(AgentDefinition, {"name": "guide", "instructions": "You know cities.", **keys})
    assert problems == []
    assert definition
    return definition


NAMES = st.sampled_from(["a", "b-1", "c.d", "mcp:x/*", "*"])
KEYS = st.fixed_dictionaries(
    {},
    optional={
        "description": st.text(max_size=5),
        "model": st.sampled_from(["inherit", "auto", "test"]),
        "tools": st.lists(NAMES, max_size=4),
        "agents": st.lists(st.sampled_from(["x", "y", "z"]), max_size=4),
        "settings": st.fixed_dictionaries({"temperature": st.floats(0, 1), "max_tokens": st.integers(1, 9)}),
        "input": st.just({"type": "object", "properties": {"b": {"type": "string"}, "a": {"default": 1}}}),
        "output": st.just({"name": "answer", "schema": {"type": "string", "minLength": 2}}),
        "limits": st.fixed_dictionaries({"max_turns": st.none() | st.integers(1, 9), "turn_timeout": st.just("2m")}),
        "messages": st.just(
            [{"role": "user", "text": "hi"}, {"role": "model", "parts": [{"kind": "text", "text": "ho"}]}]
        ),
        "policy": st.lists(
            st.sampled_from([{"tool": "x", "action": "ask"}, {"tool": "y", "action": "deny"}]), max_size=3
        ),
        "context": st.lists(st.sampled_from(["date", "skills", "notes.md"]), max_size=3),
        "cache": st.sampled_from(["off", False, "1h", 60]),
        "export": st.booleans(),
        "durability": st.sampled_from(["effects", "restart"]),
    },
)


def shuffled(value: Any, random: random.Random) -> Any:
    match value:
        case dict():
            items = [(key, shuffled(inner, random)) for key, inner in value.items()]
            random.shuffle(items)
            return dict(items)
        case list():
            return [shuffled(inner, random) for inner in value]
        case _:
            return value


@given(KEYS)
def test_a_definition_reads_back_as_it_was_stored(keys: dict[str, Any]) -> None:
    definition = agent(**keys)
    stored = msgspec.json.encode(definition.to_json())
    back = AgentDefinition.from_json(msgspec.json.decode(stored))
    assert (back, back.digest) == (definition, definition.digest)
    assert json.loads(stored) == json.loads(msgspec.json.encode(definition))


@given(KEYS, st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_order_or_repetition(keys: dict[str, Any], random: random.Random) -> None:
    again = shuffled(keys, random)
    for name in ("tools", "agents"):
        if name in again:
            again[name] = [*again[name], *again[name]]
            random.shuffle(again[name])
    assert agent(**again).digest == agent(**keys).digest


@given(KEYS, KEYS)
def test_two_digests_are_the_same_only_for_the_same_agent(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (agent(**one).digest == agent(**other).digest) == (agent(**one) == agent(**other))


def test_what_is_not_said_is_not_in_the_json() -> None:
    assert agent().to_json() == {"name": "guide", "instructions": "You know cities."}


def test_keys_of_a_later_release_are_passed_over() -> None:
    assert AgentDefinition.from_json({"name": "guide", "wings": 2}).name == "guide"


def test_the_defaults_are_those_of_the_specification() -> None:
    guide = agent()
    assert (guide.limits.max_minutes, guide.limits.max_turns, guide.limits.max_cost_usd) == (10, 30, None)
    assert (guide.limits.grace_seconds, guide.limits.turn_timeout, guide.limits.idle_timeout) == (60, 120, 60)
    assert (guide.limits.max_depth, guide.limits.max_children) == (3, 50)
    assert (guide.platform, guide.model, guide.tools, guide.agents) == ("local", None, None, ())
    assert (guide.context, guide.memory, guide.finish, guide.on_unknown) == (("date",), "answers", "tool", "tell")
    assert (guide.steps, guide.when_done, guide.on_change, guide.export) == (1, "wait", "fail", False)
    assert (guide.durability, guide.cache, guide.retry, guide.fallback_models) == (None, None, None, ())


@pytest.mark.parametrize(("result", "fits"), [("done", True), (" \n", False), ("", False), (None, False), (3, False)])
def test_without_an_output_a_text_that_says_something_is_to_be_given(result: object, fits: bool) -> None:
    assert agent().completion is SOME_TEXT
    assert AgentCode().output_of(agent()).check(result).fits is fits
    assert Schema(SOME_TEXT.arguments).check({"result": result}).fits is fits
    assert not Schema(SOME_TEXT.arguments).check({}).fits


def test_the_output_is_the_one_argument_that_it_is_given_by() -> None:
    order = agent(output={"name": "order", "schema": {"type": "integer"}})
    arguments = order.completion.arguments
    assert (arguments["required"], arguments["properties"]) == (["order"], {"order": {"type": "integer"}})


def test_the_templates_are_found_with_their_keys() -> None:
    definition = agent(messages=[{"role": "user", "text": "a"}, {"role": "model", "text": "b"}], query="{{ input }}")
    assert list(definition.templates()) == [
        (("instructions",), "You know cities."),
        (("messages", 0, "parts", 0, "text"), "a"),
        (("messages", 1, "parts", 0, "text"), "b"),
        (("query",), "{{ input }}"),
    ]
    assert definition.messages[0].parts == (Text(text="a"),)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"instructions": " "}, "messages: there are neither instructions"),
        ({"platform": "a2a"}, "platform: an agent on a2a needs the key card"),
        ({"platform": "adk"}, "platform: an agent on adk needs the key entrypoint or config"),
        ({"card": "https://x"}, "card: it is for agents on a2a; this one is on local"),
        ({"agents": ["guide"]}, "agents: guide names itself"),
        ({"finish": "text", "output": {"schema": {}}}, "output: with `finish: text` the answer is text"),
        ({"messages": [{"role": "user", "parts": []}]}, "messages[0]: it says nothing"),
    ],
)
def test_what_is_wrong_with_an_agent_as_a_whole(keys: dict[str, Any], says: str) -> None:
    assert [str(problem)[: len(says)] for problem in check_agent(agent(**keys))] == [says]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"instructions": "", "messages": [{"role": "user", "text": "a"}]},
        {"instructions": "", "platform": "a2a", "card": {"name": "x"}},
        {"platform": "adk", "config": "root_agent.yaml", "instructions": ""},
        {"platform": "mine", "instructions": ""},
    ],
)
def test_what_is_right_is_not_complained_of(keys: dict[str, Any]) -> None:
    assert list(check_agent(agent(**keys))) == []


def test_tools_given_as_objects_stand_in_the_place_of_their_names() -> None:
    lookup, other = object(), object()
    code = AgentCode(tools={"lookup": lookup, "shop:lookup": lookup, "shop:other": other})
    assert code.wanted(agent(tools=["lookup", "shop:lookup", "fetch"])) == ("fetch", lookup)
    assert code.wanted(agent()) == ("*",)
    assert AgentCode().wanted(agent(tools=[])) == ()
