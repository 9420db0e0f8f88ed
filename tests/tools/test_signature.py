from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from retinue import ToolContext, ToolFailed, tool
from retinue.core.schema import misfits
from retinue.errors import BadDefinition
from retinue.tools.signature import Signature


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    """Where something is."""

    city: str
    near: Place | None = None


class Row(TypedDict, total=False):
    id: int


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


class Guest(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=2, description="As on the card.")


class Party(pydantic.BaseModel):
    guests: list[Guest]


@dataclass
class Table:
    """Not of Pydantic, but what is in it."""

    host: Guest


class Strange:
    pass


def signature(function: Any) -> Signature:
    return Signature("Tool it", function, {})


def test_the_schema_has_all_parameters_and_forbids_others() -> None:
    def it(text: str, count: int, share: float = 0.5, sure: bool = False, *, kind: Literal["a", 3] = "a") -> None: ...

    assert signature(it).schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "share": {"type": "number", "default": 0.5},
            "sure": {"type": "boolean", "default": False},
            "kind": {"enum": [3, "a"], "default": "a"},
        },
        "required": ["text", "count"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("type_", "given", "read"),
    [
        (str, "x", "x"),
        (int, 3, 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (str | None, None, None),
        (list[int], [1, 2], [1, 2]),
        (dict[str, object], {"a": [None]}, {"a": [None]}),
        (object, {"a": 1}, {"a": 1}),
        (list, [1, "a"], [1, "a"]),
        (Colour, "blue", Colour.BLUE),
        (Place, {"city": "Porto", "near": {"city": "Braga"}}, Place("Porto", Place("Braga"))),
        (Row, {"id": 3}, {"id": 3}),
        (Point, {"x": 1}, Point(1.0)),
        (datetime.date, "2031-02-03", datetime.date(2031, 2, 3)),
        (bytes, "aGk=", b"hi"),
        (Guest, {"name": "Ann"}, Guest(name="Ann")),
        (Guest | None, None, None),
        (list[Guest], [{"name": "Ann"}], [Guest(name="Ann")]),
        (Party, {"guests": [{"name": "Ann"}]}, Party(guests=[Guest(name="Ann")])),
        (Table, {"host": {"name": "Ann"}}, Table(Guest(name="Ann"))),
        (Annotated[int, pydantic.Field(gt=2)], 3, 3),
        (Annotated[int, msgspec.Meta(gt=2)], 3, 3),
    ],
)
def test_arguments_have_the_declared_types(type_: Any, given: object, read: object) -> None:
    def it(value: Any) -> None: ...

    it.__annotations__["value"] = type_
    made = signature(it)
    assert misfits(made.schema, {"value": given}) == ()
    assert made.read({"value": given}) == {"value": read}
    assert type(made.read({"value": given})["value"]) is type(read)


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        (int, "x"),
        (int, 3.5),
        (list[int], ["a"]),
        (Colour, "green"),
        (Place, {}),
        (Guest, {"name": "A"}),
        (Annotated[int, pydantic.Field(gt=2)], 2),
        (Annotated[int, msgspec.Meta(gt=2)], 2),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_by_the_schema_and_by_the_tool(type_: Any, given: object) -> None:
    def it(value: Any) -> None: ...

    it.__annotations__["value"] = type_
    made = signature(it)
    assert misfits(made.schema, {"value": given})
    with pytest.raises(ToolFailed, match="the arguments do not fit"):
        made.read({"value": given})


def test_what_is_missing_or_unknown_is_said() -> None:
    def it(city: str, limit: int = 3) -> None: ...

    with pytest.raises(ToolFailed, match="missing required field `city`"):
        signature(it).read({})
    with pytest.raises(ToolFailed, match="unknown field `town`"):
        signature(it).read({"city": "Porto", "town": "Porto"})
    assert signature(it).read({"city": "Porto"}) == {"city": "Porto"}


def test_arguments_are_copies() -> None:
    def it(values: list[int]) -> None: ...

    given = {"values": [1]}
    signature(it).read(given)["values"].append(2)
    assert given == {"values": [1]}


def test_two_types_of_one_name_do_not_get_in_each_others_way() -> None:
    def it(one: Party, two: list[Party], three: Place) -> None: ...

    schema = signature(it).schema
    assert sorted(schema["$defs"]) == ["Place", "one.Guest", "two.Guest", "two.Party"]
    party = {"guests": [{"name": "Ann"}]}
    assert misfits(schema, {"one": party, "two": [party], "three": {"city": "Porto"}}) == ()
    assert misfits(schema, {"one": party, "two": [{"guests": [{}]}], "three": {"city": "Porto"}})


def test_a_default_that_json_does_not_know_is_only_pythons() -> None:
    def it(value: Annotated[str, "What to find."] = Strange()) -> None: ...  # type: ignore[assignment]

    assert signature(it).schema["properties"] == {"value": {"description": "What to find.", "type": "string"}}
    assert signature(it).read({}) == {}


def test_the_context_is_not_in_the_schema() -> None:
    def it(city: str, context: ToolContext | None = None) -> None: ...

    made = signature(it)
    assert (made.context, list(made.schema["properties"])) == ("context", ["city"])


def untyped(city) -> None: ...  # type: ignore[no-untyped-def]
def starred(*cities: str) -> None: ...
def open_ended(**cities: str) -> None: ...
def by_place(city: str, /) -> None: ...
def strange(city: Strange) -> None: ...
def mixed(city: Strange | str) -> None: ...
def nowhere(city: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def not_none(city: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
def not_int(limit: int = "3") -> None: ...  # type: ignore[assignment]
def two_contexts(one: ToolContext, two: ToolContext) -> None: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (untyped, "parameter city has no type: write `city: str`"),
        (starred, r"\*cities could be anything"),
        (open_ended, r"\*\*cities could be anything"),
        (by_place, "city is given by place only"),
        (strange, "parameter city has a type without a form in JSON"),
        (mixed, "parameter city has a type without a form in JSON"),
        (nowhere, "its types cannot be resolved: name 'Nowhere' is not defined"),
        (not_none, "the default None of parameter city is not of its type: write `… | None`"),
        (not_int, "the default '3' of parameter limit is not of its type"),
        (two_contexts, "one and two are both the context"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_where_it_is_declared(function: Any, says: str) -> None:
    with pytest.raises(BadDefinition, match=f"Tool {function.__name__} is not declared rightly: {says}"):
        tool(function)


def test_a_result_may_have_a_type_that_exists_for_type_checkers_only() -> None:
    def it(city: str) -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    assert signature(it).read({"city": "Porto"}) == {"city": "Porto"}
