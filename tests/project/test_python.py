"""Agents in Python."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from retinue import Agent, tool
from retinue.core.messages import Message, Text
from retinue.errors import BadDefinition


class Line(BaseModel):
    item: str
    count: int = 1


class Order(BaseModel):
    """What is ordered."""

    customer: str = Field(min_length=2)
    lines: list[Line] = []

    @field_validator("customer")
    @classmethod
    def not_nobody(cls, customer: str) -> str:
        if customer == "nobody":
            raise ValueError("nobody orders nothing")
        return customer.title()


@tool
def lookup(city: str) -> None: ...


def refused(**keys: Any) -> str:
    with pytest.raises(BadDefinition) as bad:
        Agent(**{"name": "guide", "instructions": "x", **keys})
    return bad.value.problem


def test_an_agent_is_the_same_in_python_as_in_a_file() -> None:
    guide = Agent(
        "guide",
        model="openai:gpt-5-mini",
        instructions="You know cities.",
        tools=[lookup, "lookup", "mcp:*"],
        limits={"max_turns": 3},
        messages=[{"role": "user", "text": "hi"}, Message(role="model", parts=(Text(text="ho"),))],
    )
    assert guide.definition.to_json() == {
        "name": "guide",
        "model": "openai:gpt-5-mini",
        "instructions": "You know cities.",
        "tools": ("lookup", "mcp:*"),
        "limits": {"max_turns": 3},
        "messages": (
            {"role": "user", "parts": ({"kind": "text", "text": "hi"},)},
            {"role": "model", "parts": ({"kind": "text", "text": "ho"},)},
        ),
    }
    assert guide.code.wanted(guide.definition) == ("mcp:*", lookup)
    assert guide.code.digests == {"lookup": lookup.digest}


def test_a_pydantic_model_is_a_schema_and_the_second_layer() -> None:
    agent = Agent("clerk", instructions="x", output=Order)
    rule = agent.code.output_of(agent.definition)
    assert str(rule.check({"customer": "a"})) == 'customer: "a" is shorter than 2 characters'
    assert str(rule.check({"customer": "nobody", "lines": [{"item": "tea"}]})) == "customer: nobody orders nothing"
    assert str(rule.check({"customer": "ann", "lines": [{"count": 1}]})) == 'lines[0]: "item" is a required property'
    good = rule.check({"customer": "ann", "lines": [{"item": "tea"}]})
    assert good.value == {"customer": "Ann", "lines": [{"item": "tea", "count": 1}]}


def test_the_definition_says_which_type_it_is_and_what_its_code_was() -> None:
    agent = Agent("clerk", instructions="x", input=Order, output={"name": "order", "schema": Order})
    path = f"{__name__}:Order"
    assert (agent.definition.input_type, agent.definition.output_type) == (path, path)
    assert agent.definition.completion.name == "order"
    assert len(agent.code.digests[path]) == 32
    assert not agent.code.input_of(agent.definition).check({"customer": "nobody"}).fits


def test_a_schema_is_taken_as_it_is() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "default": "Porto"}}}
    agent = Agent("guide", instructions="{{ city }}", input=schema, output={"schema": {"type": "integer"}})
    assert agent.code.input_of(agent.definition).check({}).value == {"city": "Porto"}
    assert not agent.code.output_of(agent.definition).check("x").fits


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"modle": "x"}, "modle: nobody knows this key. Did you mean model?"),
        ({"limits": {"max_turn": 3}}, "limits.max_turn: nobody knows this key. Did you mean max_turns"),
        ({"settings": {"temprature": 3}}, "settings.temprature: nobody knows this key. Did you mean temperature?"),
        ({"name": "a b"}, "name: a name has letters"),
        ({"instructions": ""}, "messages: there are neither instructions"),
        ({"instructions": "{{ a. }}"}, "line 1: instructions: a bad template"),
        ({"tools": [print]}, "tools[0]: print is no tool: put @tool above it"),
        ({"tools": [3]}, "tools[0]: int is no tool"),
        ({"tools": 3}, "tools: expected a list or nothing, got a whole number"),
        ({"tools": [lookup, tool(lookup.function)]}, "tools[1]: there are two tools named lookup"),
        ({"output": {"type": "object"}}, "output.type: nobody knows this key"),
        ({"output": int}, "output: a type cannot be part of a definition"),
        ({"settings": {"x": object()}}, "settings: a dict cannot be part of a definition"),
        ({"on_change": "shrug"}, "on_change: expected one of fail, finish, wait, got 'shrug'"),
        ({"agents": ["guide"]}, "agents: guide names itself"),
        ({"input_type": "a:b"}, "input_type: nobody knows this key"),
    ],
)
def test_a_wrong_key_is_refused_by_its_name(keys: dict[str, Any], says: str) -> None:
    assert refused(**keys).startswith(says)


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert refused(modle="x", tools=[print], model=3).count(";") == 2


def test_what_is_only_odd_is_kept_and_refuses_nothing() -> None:
    agent = Agent("guide", instructions="x", finish="text", output={"schema": {"type": "string"}})
    assert [problem.key for problem in agent.problems] == [("output",)]


def test_nobody_loads_pydantic_jinja_or_yaml_who_needs_none() -> None:
    code = (
        "import sys; from retinue import Agent; Agent('guide', instructions='You know cities.', tools=['a']); "
        "print({'pydantic', 'jinja2', 'yaml', 'jsonschema_rs', 'sqlalchemy'} & {*sys.modules})"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "set()\n"
