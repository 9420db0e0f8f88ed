"""What a model is held to, and what is made of what it says."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.messages import Data, Text, ToolCall
from retinue.models.constrained import BadSchema, Held, grammar
from retinue.ports.models import ModelRequest, ModelSettings, OutputSpec, Piece
from tests.models.asking import question, tool

LOOKUP = tool("lookup", city={"type": "string"})


def schema_of(request: ModelRequest) -> dict[str, Any]:
    text = grammar(request)
    assert text
    head, _, schema = text.partition("\nstart: %json ")
    assert head == "%llguidance {}"
    decoded: dict[str, Any] = json.loads(schema)
    return decoded


def held(schema: dict[str, Any]) -> dict[str, Any]:
    """What is left of a schema."""
    left: dict[str, Any] = schema_of(question("?", output=OutputSpec(schema=schema)))["$defs"]["answer"]
    return left


def options(*names: str, choice: str | None = None, output: bool = False) -> list[str]:
    """What may be said when these tools are offered."""
    request = question(
        "?",
        tools=tuple(map(tool, names)),
        output=OutputSpec(schema={"type": "object"}) if output else None,
        settings=ModelSettings(tool_choice=choice),
    )
    found = schema_of(request)["anyOf"]
    return [option.get("properties", {}).get("tool", {}).get("const") or "answer" for option in found]


def test_what_may_be_said_follows_from_the_request() -> None:
    assert grammar(question("?")) is None
    assert grammar(question("?", tools=(LOOKUP,), settings=ModelSettings(tool_choice="none"))) is None
    assert options("a", "b") == options("a", "b", choice="auto") == ["answer", "a", "b"]
    assert options("a", "b", choice="required") == ["a", "b"]
    assert options("a", "b", choice="b") == ["b"]
    assert options(output=True) == ["answer"]
    assert options("a", output=True) == ["answer", "a"]


def test_references_lead_to_where_the_schema_now_is() -> None:
    schema = {
        "$defs": {"a/b": {"type": "integer"}},
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/a~1b"}, "self": {"$ref": "#"}, "gone": {"$ref": "#/$defs/x"}},
    }
    left = held(schema)
    assert left["properties"] == {
        "n": {"$ref": "#/$defs/answer/$defs/a~1b"},
        "self": {"$ref": "#/$defs/answer"},
        "gone": {},
    }
    assert held({"$ref": "https://example.com/x.json", "title": "x"}) == {}


def test_what_the_library_does_not_know_is_left_out() -> None:
    schema = {
        "type": "object",
        "title": "x",
        "properties": {
            "if": {"type": "string", "pattern": "(?=a)b", "format": "weird"},
            "ok": {"type": "string", "pattern": "^[a-c]{3}$", "format": "date"},
        },
        "not": {"required": ["a"]},
        "patternProperties": {"^x": {}},
        "oneOf": [{"required": ["if"]}, {"required": ["ok"]}],
    }
    assert held(schema) == {
        "type": "object",
        "properties": {"if": {"type": "string"}, "ok": {"type": "string", "pattern": "^[a-c]{3}$", "format": "date"}},
        "anyOf": [{"required": ["if"]}, {"required": ["ok"]}],
        "additionalProperties": False,
    }


def test_objects_have_no_properties_but_their_own_unless_they_may() -> None:
    assert held({"type": "object"})["additionalProperties"] is False
    assert held({"type": "object", "additionalProperties": {"type": "string"}}) == {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }
    assert held({"properties": {"any": {"type": "object"}}})["properties"]["any"] == {"type": "object"}
    assert held({"type": "array", "items": True, "prefixItems": [{"type": "null"}]}) == {
        "type": "array",
        "items": True,
        "prefixItems": [{"type": "null"}],
    }


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"properties": 3}, {"minLength": "x"}])
def test_a_schema_that_is_none_is_said(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSchema, match=r"the schema of answer is none: .+"):
        held(schema)


def fed(request: ModelRequest, text: str, cuts: list[int]) -> tuple[Held, list[Piece]]:
    """A text that comes in pieces."""
    borders = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    value = Held(request)
    pieces = [piece for begin, end in pairwise(borders) for piece in value.add(text[begin:end])]
    return value, [*pieces, *value.rest()]


WITH_TOOL = question("?", tools=(LOOKUP,))
CUTS = st.lists(st.integers(min_value=0, max_value=200))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans(), CUTS)
def test_an_answer_is_heard_as_it_is_said(text: str, escaped: bool, cuts: list[int]) -> None:
    value, pieces = fed(WITH_TOOL, json.dumps({"answer": text}, ensure_ascii=escaped), cuts)
    assert "".join(piece.text for piece in pieces) == text
    assert value.parts() == (Text(text=text),)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 100), CUTS)
def test_an_answer_that_is_cut_off_is_a_beginning(text: str, end: int, cuts: list[int]) -> None:
    whole = json.dumps({"answer": text})
    value, pieces = fed(WITH_TOOL, whole[:end], cuts)
    heard = "".join(piece.text for piece in pieces)
    assert text.startswith(heard)
    assert value.begins_well
    assert value.parts() in (None, (Text(text=heard),))


@given(st.recursive(st.none() | st.integers(-5, 5) | st.text('a{}"\\é'), st.lists, max_leaves=5), CUTS)
def test_a_call_is_heard_when_it_is_complete(city: object, cuts: list[int]) -> None:
    said = f'{{"tool": "lookup", "arguments": {json.dumps({"city": city})}}}'
    value, pieces = fed(WITH_TOOL, said, cuts)
    assert value.parts() == (ToolCall(call_id="", tool="lookup", arguments={"city": city}),)
    assert [(piece.kind, json.loads(piece.text)) for piece in pieces] == [("tool_args", {"city": city})]


def test_a_call_that_is_cut_off_has_its_arguments_as_text() -> None:
    value, pieces = fed(WITH_TOOL, '{"tool": "lookup", "arguments": {"city": "Por', [])
    assert value.parts() == (ToolCall(call_id="", tool="lookup", arguments='{"city": "Por'),)
    assert pieces == [Piece('{"city": "Por', "tool_args")]


def test_a_value_of_a_schema_is_data() -> None:
    output = OutputSpec(schema={"type": "object"})
    value, pieces = fed(question("?", output=output), '{"n": [1, 2]}', [3, 9])
    assert value.parts() == (Data(data={"n": [1, 2]}),)
    assert [piece.text for piece in pieces] == ['{"n', '": [1,', " 2]}"]
    value, pieces = fed(question("?", output=output, tools=(LOOKUP,)), '{"answer": {"n": 1}}', [3, 9])
    assert value.parts() == (Data(data={"n": 1}),)
    assert len(pieces) == 1


@pytest.mark.parametrize("said", ["Sure! Here", "```json", '"a"'])
def test_what_is_something_else_is_seen(said: str) -> None:
    value, _ = fed(WITH_TOOL, said, [])
    assert value.parts() is None
    assert not value.begins_well
