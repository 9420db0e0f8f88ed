from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.agent import Output
from retinue.core.declared import Problem
from retinue.core.schema import Checked, Schema, misfits, says_nothing, wrong_schema

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "size": {"type": "integer", "default": 1},
        "twin": {"anyOf": [{"$ref": "#/$defs/city"}, {"type": "null"}]},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/city"}},
        "pair": {
            "prefixItems": [{"properties": {"first": {"default": True}}}],
            "items": {"properties": {"n": {"default": 0}}},
        },
    },
    "required": ["name"],
    "allOf": [{"properties": {"all": {"default": "of"}}}],
    "$defs": {"city": {"type": "object", "properties": {"size": {"default": 2}, "in": {"$ref": "#/$defs/city"}}}},
}


def test_a_value_that_fits_comes_back_with_its_defaults() -> None:
    assert Schema(CITY).check({"name": "Porto"}) == Checked({"name": "Porto", "size": 1, "all": "of"})


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"twin": {}}, {"twin": {"size": 2}}),
        ({"twin": None}, {"twin": None}),
        ({"parts": [{}, {"size": 9, "in": {}}]}, {"parts": [{"size": 2}, {"size": 9, "in": {"size": 2}}]}),
        ({"pair": [{}, {}, {"n": 1}]}, {"pair": [{"first": True}, {"n": 0}, {"n": 1}]}),
    ],
)
def test_defaults_are_put_in_wherever_the_schema_declares_them(given: dict[str, Any], filled: dict[str, Any]) -> None:
    value = Schema(CITY).check({"name": "Porto", **given}).value
    assert isinstance(value, dict)
    assert {key: value[key] for key in filled} == filled


def test_all_that_does_not_fit_is_said_with_its_path_and_the_value_stays_as_it_was() -> None:
    value = {"name": "P", "size": "big", "parts": [{}, 3]}
    checked = Schema(CITY).check(value)
    assert (checked.value, checked.fits) == (value, False)
    assert {problem.key for problem in checked.problems} == {("name",), ("parts", 1), ("size",)}
    assert 'name: "P" is shorter than 2 characters' in str(checked)


def test_without_a_schema_anything_fits() -> None:
    assert Schema(None).check(object) == Checked(object)


def test_the_second_layer_sees_what_the_schema_lets_through_and_has_the_last_word() -> None:
    seen: list[object] = []

    def convert(value: object) -> Checked:
        seen.append(value)
        return Checked("converted") if value == {"a": 1} else Checked(value, (Problem(key=("a",), text="odd"),))

    schema = Schema({"properties": {"a": {"type": "integer", "default": 1}}}, convert)
    assert schema.check({}).value == "converted"
    assert str(schema.check({"a": 2})) == "a: odd"
    assert not schema.check({"a": "x"}).fits
    assert seen == [{"a": 1}, {"a": 2}]


def test_a_default_that_refers_to_itself_has_an_end() -> None:
    endless = {"properties": {"next": {"$ref": "#", "default": {}}}}
    assert Schema(endless).check({}).value == {"next": {}}
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert Schema(circle).check({}).value == {}


def test_what_is_nested_too_deeply_is_a_misfit_and_no_crash() -> None:
    deep: dict[str, Any] = {}
    for _ in range(2000):
        deep = {"in": deep}
    nested = {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"in": {"$ref": "#/$defs/n"}}}}}
    assert "nested" in str(Schema(nested).check(deep))


def test_a_long_value_is_not_said_again_in_full() -> None:
    assert len(str(Schema({"type": "integer"}).check("x" * 100_000))) < 400
    assert len(Schema({"items": {"type": "integer"}}).check(["x"] * 1000).problems) < 30


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "strin"}, "type"),
        ({"properties": {"a": {"minimum": "x"}}}, "properties.a.minimum"),
        ({"pattern": "("}, "regex"),
        ({"$ref": "#/nowhere"}, "does not exist"),
        ("string", "a table of keys"),
    ],
)
def test_what_is_wrong_with_a_schema(schema: object, says: str) -> None:
    assert says in wrong_schema(schema)
    assert wrong_schema({"type": "string"}) == ""


def test_a_schema_never_makes_anybody_fetch_anything() -> None:
    asked: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        thread = threading.Thread(target=lambda: asked.append(_accepted(server)))
        thread.start()
        wrong = wrong_schema({"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"})
        thread.join()
    assert "disabled" in wrong
    assert asked == [False]
    assert "disabled" in wrong_schema({"$ref": "file:///etc/passwd"})


def _accepted(server: socket.socket) -> bool:
    try:
        server.accept()
    except TimeoutError:
        return False
    return True


def test_a_schema_whose_keys_mean_nothing_is_told_from_an_empty_one() -> None:
    assert says_nothing({"city": {"type": "string"}})
    assert not says_nothing({})
    assert not says_nothing({"city": 1, "type": "object"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "size", "parts", "twin"]), inner)
    ),
    max_leaves=6,
)


@given(JSON)
def test_what_fits_without_its_defaults_fits_with_them(value: Any) -> None:
    if not misfits(CITY, value):
        checked = Schema(CITY).check(value)
        assert checked.fits
        assert Schema(CITY).check(checked.value) == checked


TREE = {
    "$defs": {"Leaf": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}},
    "definitions": {"Name": {"type": "string"}},
    "type": "object",
    "properties": {
        "leaf": {"$ref": "#/$defs/Leaf"},
        "name": {"$ref": "#/definitions/Name"},
        "below": {"type": "array", "items": {"$ref": "#"}},
        "also": {"$ref": "#/properties/leaf"},
    },
}


def test_a_schema_that_becomes_part_of_another_keeps_what_it_refers_to() -> None:
    rule = Schema(Output(schema=TREE, name="tree").arguments)
    checked = rule.check({"tree": {"below": [{"leaf": {}, "also": {}}], "name": "oak"}})
    assert checked.value == {"tree": {"below": [{"leaf": {"size": 1}, "also": {"size": 1}}], "name": "oak"}}
    wrong = rule.check({"tree": {"below": [{"name": 3, "also": {"size": "x"}}]}})
    assert sorted(problem.key for problem in wrong.problems) == [
        ("tree", "below", 0, "also", "size"),
        ("tree", "below", 0, "name"),
    ]


def test_a_schema_with_an_id_is_its_own_root_wherever_it_stands() -> None:
    schema = {"$id": "urn:tree", "$defs": {"N": {"type": "integer"}}, "$ref": "#/$defs/N"}
    rule = Schema(Output(schema=schema).arguments)
    assert (rule.check({"result": 3}).fits, rule.check({"result": "x"}).fits) == (True, False)
