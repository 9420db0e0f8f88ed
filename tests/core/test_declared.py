from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from retinue.core.declared import Count, Name, Names, Positive, Problem, Seconds, Written, dotted, has_errors, read
from retinue.core.spelling import did_you_mean, nearest


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    size: Positive
    spokes: Count = 32


@dataclass(frozen=True)
class Bell:
    loud: bool = False
    tones: tuple[int, ...] = field(default=())


class Lock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    code: str = "0000"

    def __post_init__(self) -> None:
        if not self.code.isdigit():
            raise ValueError("a code is made of digits")


class Bicycle(msgspec.Struct, frozen=True, kw_only=True):
    name: Name
    motto: Written = "go"
    colour: Colour = Colour.RED
    kind: Literal["city", "race"] | None = None
    wheels: tuple[Wheel, ...] = ()
    bell: Bell = Bell()
    lock: Lock | None = None
    riders: Names = ()
    parts: dict[str, Wheel] = {}
    stickers: dict[str, str] = {}
    price: float | None = None
    service: Annotated[Seconds | None, "kept"] = None
    rest: Seconds = 1.0
    mine: str = ""


def problems(declared: Any, **options: Any) -> list[str]:
    return [str(problem) for problem in read(Bicycle, declared, **options)[1]]


def test_a_table_is_read_into_its_class() -> None:
    bicycle, odd = read(
        Bicycle,
        {
            "name": "b",
            "colour": "blue",
            "kind": "race",
            "wheels": [{"size": 28}, {"size": 26, "spokes": 0}],
            "bell": {"loud": True, "tones": [1, 2]},
            "lock": {"code": "12"},
            "riders": ["bo", "al", "bo"],
            "parts": {"front": {"size": 1}},
            "price": 100,
        },
    )
    assert odd == []
    assert bicycle == Bicycle(
        name="b",
        colour=Colour.BLUE,
        kind="race",
        wheels=(Wheel(size=28), Wheel(size=26, spokes=0)),
        bell=Bell(loud=True, tones=(1, 2)),
        lock=Lock(code="12"),
        riders=("al", "bo"),
        parts={"front": Wheel(size=1)},
        price=100.0,
    )


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"motto": 3}, "motto: expected text, got a whole number"),
        ({"motto": " \n"}, "motto: it is blank"),
        ({"colour": "bleu"}, "colour: expected one of red, blue, got 'bleu'. Did you mean blue?"),
        ({"colour": 3}, "colour: expected one of red, blue, got a number"),
        ({"kind": True}, "kind: expected one of city, race, got true or false"),
        ({"kind": "boat"}, "kind: expected one of city, race, got 'boat'"),
        ({"wheels": [{"size": 1}, {"size": 0}]}, "wheels[1].size: expected a whole number >= 1"),
        ({"wheels": [{}]}, "wheels[0].size: it is missing"),
        ({"wheels": {"size": 1}}, "wheels: expected a list, got a table of keys"),
        ({"wheels": [3]}, "wheels[0]: expected a table of keys, got a number"),
        ({"wheels": None}, "wheels: expected a list, got nothing"),
        ({"bell": {"tones": [1, "x"]}}, "bell.tones[1]: expected a whole number, got text"),
        ({"bell": []}, "bell: expected a table of keys, got a list"),
        ({"lock": {"code": "abc"}}, "lock: a code is made of digits"),
        ({"riders": ["a", 3]}, "riders[1]: expected text, got a whole number"),
        ({"riders": 3}, "riders: expected a list, got a whole number"),
        ({"parts": {"front": {"size": "big"}}}, "parts.front.size: expected a whole number, got text"),
        ({"stickers": {"a": 1}}, "stickers.a: expected text, got a whole number"),
        ({"price": "free"}, "price: expected a number or nothing, got text"),
        ({"rest": "soon"}, "rest: expected seconds, or a number with s, m, h, d or w, like 30s or 2h"),
        ({"rest": 0}, "rest: expected a time of more than 0 seconds"),
        ({"rest": True}, "rest: expected a number, got true or false"),
        ({"name": "a b"}, "name: a name has letters, digits and _ . -"),
        ({"name": "-a"}, "name: a name has letters, digits and _ . -"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_key(declared: dict[str, Any], says: str) -> None:
    bicycle, found = read(Bicycle, {"name": "b"} | declared)
    assert [str(problem)[: len(says)] for problem in found] == [says]
    assert has_errors(found)
    if "name" not in declared:
        assert bicycle is not None
        assert bicycle.name == "b"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    assert problems({"motto": 1, "price": "x", "wheels": [{"size": "y"}], "colur": "red"}) == [
        "colur: nobody knows this key. Did you mean colour?",
        "name: it is missing",
        "motto: expected text, got a whole number",
        "wheels[0].size: expected a whole number, got text",
        "price: expected a number or nothing, got text",
    ]


def test_without_a_key_that_must_be_there_nothing_is_read() -> None:
    assert read(Bicycle, {})[0] is None
    assert read(Bicycle, "name: b")[0] is None


def test_an_unknown_key_is_a_warning_unless_its_class_or_its_reader_is_strict() -> None:
    assert not has_errors(read(Bicycle, {"name": "b", "gears": 3})[1])
    assert has_errors(read(Bicycle, {"name": "b", "gears": 3}, strict=True)[1])
    assert has_errors(read(Bicycle, {"name": "b", "lock": {"cod": "1"}})[1])
    assert problems({"name": "b", "zzz": 3}) == ["zzz: nobody knows this key"]


def test_keys_that_a_class_has_for_itself_cannot_be_declared() -> None:
    bicycle, found = read(Bicycle, {"name": "b", "mine": "x"}, skip=("mine",))
    assert bicycle is not None
    assert (bicycle.mine, [problem.key for problem in found]) == ("", [("mine",)])


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(2, 2), (0.5, 0.5), ("30s", 30), ("1.5m", 90), ("2 h", 7200), ("7d", 604_800), ("1w", 604_800)],
)
def test_a_length_of_time_is_seconds_or_has_a_unit(said: object, seconds: float) -> None:
    bicycle, found = read(Bicycle, {"name": "b", "rest": said, "service": said})
    assert bicycle is not None
    assert (bicycle.rest, found) == (seconds, [])


@pytest.mark.parametrize("said", ["bo, al", " al,bo,al ", ["bo", "al"], ["al", "bo", "bo", ""]])
def test_names_are_a_set_however_they_are_written(said: object) -> None:
    bicycle, _ = read(Bicycle, {"name": "b", "riders": said})
    assert bicycle is not None
    assert bicycle.riders == ("al", "bo")


def test_a_problem_says_its_place_its_key_and_itself() -> None:
    problem = Problem(file="agents/a.md", line=7, key=("policy", 1, "tool"), text="it is blank")
    assert str(problem) == "agents/a.md:7: policy[1].tool: it is blank"
    assert str(Problem(text="odd")) == "odd"
    assert dotted(()) == ""


def test_the_nearest_names_come_first_and_else_those_that_there_are() -> None:
    assert nearest("LOKUP", ["lookup", "fetch"]) == ["lookup"]
    assert did_you_mean("lokup", ["lookup", "fetch"]) == "Did you mean lookup?"
    assert did_you_mean("zzz", ["b", "a"]) == "There is: a, b."
    assert did_you_mean("zzz", []) == "There is none."
    assert did_you_mean("zzz", map(str, range(100))).endswith("and 88 more.")
