"""Examples are what their schema allows."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.models.example import example_of

NUMBERS: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": "integer", "minimum": 7},
    {"type": "integer", "exclusiveMinimum": 7},
    {"type": "integer", "maximum": -7},
    {"type": "integer", "minimum": 5, "multipleOf": 4},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "exclusiveMaximum": -2},
    {"type": "number", "exclusiveMinimum": 10, "multipleOf": 2.5},
]
TEXTS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "minLength": 20},
    {"type": "string", "maxLength": 2},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "email"},
]
OTHERS: list[dict[str, Any]] = [
    {"type": "boolean"},
    {"type": "null"},
    {"enum": ["a", 1]},
    {"const": {"a": 1}},
    {"type": ["string", "null"]},
    {"minimum": 3},
    {},
    {"type": "string", "default": "blue"},
    {"type": "string", "examples": ["green"]},
]


def larger(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def an_object(properties: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

    return st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(an_object),
        st.builds(lambda items, least: {"type": "array", "items": items, "minItems": least}, inner, st.integers(0, 3)),
        inner.map(lambda item: {"type": "array", "prefixItems": [item], "minItems": 2}),
        st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options}),
        inner.map(lambda of: {"allOf": [of, {"description": "x"}]}),
    )


@given(st.recursive(st.sampled_from([*NUMBERS, *TEXTS, *OTHERS]), larger, max_leaves=8))
def test_an_example_is_valid(schema: dict[str, Any]) -> None:
    jsonschema_rs.validate(schema, example_of(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$ref": "#/$defs/node",
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        },
        {"properties": {"a/b": {"$ref": "#/$defs/x~1y"}}, "required": ["a/b"], "$defs": {"x/y": {"type": "integer"}}},
        {"allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"required": ["b"]}], "type": "object"},
        {"type": "object", "oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"]}]},
    ],
)
def test_references_and_combinations_are_followed(schema: dict[str, Any]) -> None:
    jsonschema_rs.validate(schema, example_of(schema))


def test_what_has_no_end_ends() -> None:
    endless = {"$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}}, "$ref": "#/$defs/n"}
    assert isinstance(example_of(endless), dict)
    assert example_of({"$ref": "#/nowhere"}) is None
    assert example_of(True) is None
