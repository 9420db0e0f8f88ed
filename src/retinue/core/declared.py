"""Reading what people declare: tables of keys into typed values, with every problem and the key that it is at.

A wrong value is an error, and its default stands in for it so that the rest can be read. An unknown key is a
warning: files are shared with other programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from retinue.core.spelling import did_you_mean, nearest
from retinue.errors import BadInput

T = TypeVar("T")
Key = tuple[str | int, ...]
Coerce = Callable[[object], object]

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MOST_ECHOED = 60
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "a table of keys",
    "array": "a list",
    "null": "nothing",
}
_place = re.compile(r" - at `\$(.*)`$")
_steps = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_kind = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong with what was declared, and where. A warning stops nothing."""

    text: str
    key: Key = ()
    warning: bool = False
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}" if self.file else f"line {self.line}"

    def __str__(self) -> str:
        return ": ".join(said for said in (self.place, dotted(self.key), self.text) if said)


def dotted(key: Key) -> str:
    """A key as people write it: `limits.max_turns`, `policy[1].tool`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in key).removeprefix(".")


def read(
    kind: type[T], declared: object, *, key: Key = (), skip: Collection[str] = (), strict: bool = False
) -> tuple[T | None, list[Problem]]:
    """A struct or dataclass out of a table of keys. Nothing where a key that must be there is missing.

    Keys in `skip` are not for whoever declares; the class has them for itself. When `strict`, and in classes that
    forbid unknown fields, an unknown key is an error.
    """
    reader = _Reader(strict)
    value = reader.table(kind, declared, key, skip)
    return (None if value is _NOTHING else cast(T, value)), reader.problems


def has_errors(problems: Collection[Problem]) -> bool:
    return not all(problem.warning for problem in problems)


class Field(NamedTuple):
    """A key that a class takes."""

    name: str
    attribute: str
    hint: Any
    required: bool


@cache
def fields_of(kind: Any) -> tuple[Field, ...]:
    """The keys that a class takes, in its order."""
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return tuple(
            Field(one.name, one.name, hints[one.name], one.default is MISSING and one.default_factory is MISSING)
            for one in fields(kind)
        )
    return tuple(
        Field(one.encode_name, one.name, one.type, one.required) for one in msgspec.structs.fields(cast(Any, kind))
    )


def is_table(hint: Any) -> bool:
    """Whether a type is declared as a table of keys."""
    return isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, msgspec.Struct))


def bare_hint(hint: Any) -> Any:
    """A type without our own annotations."""
    return _unwrapped(hint)[1]


def arms(hint: Any) -> tuple[Any, ...]:
    """The types that a union is made of; any other type alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


# Values that may be said in more than one way


def names(value: object) -> object:
    """A set of names: a list, or one text with commas. Order and repetitions do not matter."""
    said = value.split(",") if isinstance(value, str) else value
    if isinstance(said, list | tuple) and all(isinstance(name, str) for name in said):
        return tuple(sorted({name.strip() for name in said} - {""}))
    return value


def seconds(value: object) -> object:
    """A length of time: seconds, or a number with its unit, like 30s, 10m, 2h, 7d."""
    if isinstance(value, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", value.strip())
        if not found:
            raise ValueError("expected seconds, or a number with s, m, h, d or w, like 30s or 2h")
        value = float(found[1]) * SECONDS[found[2]]
    if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
        raise ValueError("expected a time of more than 0 seconds")
    return value


def named(value: object) -> object:
    """A name that fits into addresses and files."""
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", value):
        raise ValueError("a name has letters, digits and _ . -, begins with a letter or digit, and is not over 64 long")
    return value


def written(value: object) -> object:
    """Text that says something."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("it is blank")
    return value


Names = Annotated[tuple[str, ...], names]
Seconds = Annotated[float, seconds]
Name = Annotated[str, named]
Written = Annotated[str, written]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


# The reader

_NOTHING = object()


class _Reader:
    """Reads values of types, and keeps what is wrong with them. `_NOTHING` stands for what cannot be read."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self.problems: list[Problem] = []

    def table(self, kind: Any, declared: object, key: Key, skip: Collection[str] = ()) -> object:
        if not isinstance(declared, Mapping):
            return self._wrong(f"expected a table of keys, got {_kind_of(declared)}", key)
        known = {field.name: field for field in fields_of(kind) if field.name not in skip}
        stern = self._strict or (not is_dataclass(kind) and kind.__struct_config__.forbid_unknown_fields)
        self.problems += [
            Problem(text=unknown_key(name, known), key=(*key, name), warning=not stern)
            for name in map(str, declared)
            if name not in known
        ]
        values: dict[str, object] = {}
        complete = True
        for field in known.values():
            value = _NOTHING
            if field.name in declared:
                value = self.value(field.hint, declared[field.name], (*key, field.name))
            elif field.required:
                self._wrong("it is missing", (*key, field.name))
            if value is not _NOTHING:
                values[field.attribute] = value
            elif field.required:
                complete = False
        return self._made(kind, values, key) if complete else _NOTHING

    def _made(self, kind: Any, values: dict[str, object], key: Key) -> object:
        try:
            return kind(**values)
        except (ValueError, BadInput) as error:  # what a class checks itself
            return self._wrong(str(error), key)

    def value(self, hint: Any, value: object, key: Key) -> object:
        coercions, hint = _unwrapped(hint)
        try:
            for coerce in coercions:
                value = coerce(value)
        except ValueError as error:
            return self._wrong(str(error), key)
        kinds = [kind for kind in arms(hint) if kind is not NoneType]
        if value is None and len(kinds) < len(arms(hint)):
            return None
        tables = [kind for kind in kinds if is_table(kind)]
        if len(tables) == 1 and (len(kinds) == 1 or isinstance(value, Mapping)):
            return self.table(tables[0], value, key)
        if choices := _choices(kinds):
            return self._chosen(choices, value, key)
        match get_origin(hint), get_args(hint), value:
            case (origin, (item, *_), list() | tuple()) if origin in (tuple, list):
                items = [self.value(item, one, (*key, n)) for n, one in enumerate(value)]
                return origin(one for one in items if one is not _NOTHING)
            case (origin, (_, inner), Mapping()) if origin in (dict, Mapping):
                read_all = {str(name): self.value(inner, one, (*key, str(name))) for name, one in value.items()}
                return {name: one for name, one in read_all.items() if one is not _NOTHING}
            case _:
                return self._leaf(hint, value, key)

    def _chosen(self, choices: Mapping[str, object], value: object, key: Key) -> object:
        if not isinstance(value, str):
            return self._wrong(f"expected one of {', '.join(choices)}, got {_kind_of(value)}", key)
        if value in choices:
            return choices[value]
        near = f". {did_you_mean(value, choices)}" if nearest(value, choices) else ""
        return self._wrong(f"expected one of {', '.join(choices)}, got {value[:MOST_ECHOED]!r}{near}", key)

    def _leaf(self, hint: Any, value: object, key: Key) -> object:
        try:
            return msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            text = str(error)
        if place := _place.search(text):
            text = text[: place.start()]
            key += tuple(int(number) if number else name for name, number in _steps.findall(place[1]))
        return self._wrong(_in_words(text), key)

    def _wrong(self, text: str, key: Key) -> object:
        self.problems.append(Problem(text=text, key=key))
        return _NOTHING


def unknown_key(key: str, known: Collection[str]) -> str:
    near = f". {did_you_mean(key, known)}" if nearest(key, known) else ""
    return f"nobody knows this key{near}"


def _unwrapped(hint: Any) -> tuple[list[Coerce], Any]:
    """A type without our own annotations, and those, the outermost first. None passes by those of a union's arm."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        more, inner = _unwrapped(inner)
        ours: list[Coerce] = [mark for mark in marks if callable(mark)]
        others = tuple(mark for mark in marks if not callable(mark))
        return ours + more, Annotated[(inner, *others)] if others else inner
    kinds = [arm for arm in arms(hint) if arm is not NoneType]
    if len(kinds) == 1 and kinds[0] is not hint:
        more, inner = _unwrapped(kinds[0])
        return [_unless_none(coerce) for coerce in more], inner | None
    return [], hint


def _unless_none(coerce: Coerce) -> Coerce:
    return lambda value: None if value is None else coerce(value)


def _choices(kinds: Collection[Any]) -> dict[str, object]:
    """The words that a value may be one of, and what they mean; none when it may be anything else."""
    found: dict[str, object] = {}
    for kind in kinds:
        if get_origin(kind) is Literal:
            found |= {word: word for word in get_args(kind)}
        elif isinstance(kind, type) and issubclass(kind, Enum):
            found |= {str(member.value): member for member in kind}
        else:
            return {}
    return found


def _in_words(text: str) -> str:
    said = _kind.sub(lambda found: " or ".join(_WORDS.get(word, word) for word in found[1].split(" | ")), text)
    return said[0].lower() + said[1:]


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "a table of keys"
        case _:
            return type(value).__name__
