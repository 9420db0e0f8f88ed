from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from retinue import Blob, Content, ToolFailed
from retinue.tools.results import result_of


@dataclass
class Place:
    city: str
    people: set[str]


class Guest(pydantic.BaseModel):
    name: str
    born: datetime.date


class Level(enum.IntEnum):
    HIGH = 3


IMAGE = Blob(data=b"\x89PNG", media_type="image/png")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        ("é", "é"),
        (Level.HIGH, 3),
        ([1, (2,), {3}], [1, [2], [3]]),
        ({1: datetime.date(2031, 2, 3)}, {"1": "2031-02-03"}),
        (Place("Porto", {"Ann"}), {"city": "Porto", "people": ["Ann"]}),
        (Guest(name="Ann", born=datetime.date(2001, 2, 3)), {"name": "Ann", "born": "2001-02-03"}),
        ([Guest(name="Ann", born=datetime.date(2001, 2, 3))], [{"name": "Ann", "born": "2001-02-03"}]),
        (IMAGE, Content((IMAGE,))),
        (b"\x00", Content((Blob(data=b"\x00", media_type="application/octet-stream"),))),
        (Content(("see", IMAGE)), Content(("see", IMAGE))),
        (["see", IMAGE, {"a": 1}], Content(("see", IMAGE, '{"a":1}'))),
    ],
)
def test_what_can_be_kept(given: object, kept: object) -> None:
    result = result_of("it", given)
    assert result == kept
    assert type(result) is type(kept)


def circle() -> list[Any]:
    one: list[Any] = []
    one.append(one)
    return one


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (object(), "a value of type object"),
        ([lambda: 3], "a value of type function"),
        (Guest, "a value of type ModelMetaclass"),
        (float("nan"), "nan is no JSON number"),
        ({"a": [float("inf")]}, "inf is no JSON number"),
        ({(1, 2): 3}, "keys"),
        ("\ud800", "surrogates"),
        (circle(), "recursion"),
        (Content((3,)), "a part of Content is text or Blob, not int"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_json_is_an_error_in_words(given: object, says: str) -> None:
    with pytest.raises(ToolFailed) as raised:
        result_of("it", given)
    assert str(raised.value).startswith("What it gave cannot be stored as JSON: ")
    assert says in str(raised.value)
