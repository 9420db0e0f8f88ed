from __future__ import annotations

from typing import Any

import pytest

from retinue.core.agent import AgentDefinition
from retinue.core.declared import read
from retinue.core.messages import Data, Message, Text
from retinue.core.opening import Opening, opening_of
from retinue.core.template import values_of
from retinue.errors import BadTemplate, NamesMissing

GIVEN = {"today": "2026-02-03", "now": "2026-02-03T10:00:00Z", "model": "test", "agent": "guide", "run_id": "run_1"}


def opening(input: object, **keys: Any) -> Opening:
    definition, _ = read(AgentDefinition, {"name": "guide", **keys})
    assert definition
    return opening_of(definition, values_of(input, GIVEN).values, input)


def test_the_templates_of_an_agent_are_filled_in() -> None:
    said = opening(
        {"city": "Porto"},
        instructions="You know {{ city }}. Today is {{ today }}; you are {{ agent }}.\n",
        messages=[
            {"role": "user", "text": "Eat in {{ city }}?"},
            {"role": "model", "parts": [{"kind": "data", "data": "{{"}]},
        ],
        query="Tell of {{ city }}.",
    )
    assert said == Opening(
        instructions="You know Porto. Today is 2026-02-03; you are guide.",
        messages=(
            Message(role="user", parts=(Text(text="Eat in Porto?"),)),
            Message(role="model", parts=(Data(data="{{"),)),
        ),
        query=Text(text="Tell of Porto."),
    )


@pytest.mark.parametrize(
    ("input", "query"),
    [("Porto?", Text(text="Porto?")), ({"a": 1}, Data(data={"a": 1})), ([1], Data(data=[1])), (None, None)],
)
def test_without_a_query_the_input_is_the_first_turn(input: object, query: object) -> None:
    assert opening(input, instructions="x").query == query


@pytest.mark.parametrize(
    ("template", "query"),
    [("{{ of }}", Data(data={"a": [1]})), ("{{ of.a[0] }} ", Data(data=1)), ("Of {{ of }}", Text(text='Of {"a":[1]}'))],
)
def test_a_query_that_is_a_lone_expression_keeps_its_value(template: str, query: object) -> None:
    assert opening({"of": {"a": [1]}}, instructions="x", query=template).query == query


def test_what_all_the_templates_lack_is_said_at_once() -> None:
    with pytest.raises(NamesMissing) as missing:
        opening(
            {"city": "Porto"},
            instructions="{{ city }} {{ street }}",
            messages=[{"role": "user", "text": "{{ number }} {{ street }}"}],
            query="{{ city.name }}",
        )
    assert missing.value.missing == "city.name, street, number"
    assert missing.value.available == "agent, city, input, model, now, run_id, today"


def test_a_dollar_and_braces_are_text() -> None:
    assert opening("x", instructions="Your home is ${HOME}.").instructions == "Your home is ${HOME}."


def test_a_template_that_breaks_on_its_data_says_so() -> None:
    with pytest.raises(BadTemplate, match="division by zero"):
        opening({"n": 0}, instructions="{{ 1 / n }}")
