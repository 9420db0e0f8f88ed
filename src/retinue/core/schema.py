"""Values checked against what is declared of them: a JSON schema, then whatever a Python type has to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from retinue.core.declared import Problem

MOST_PROBLEMS, LONGEST_PROBLEM = 20, 300
KNOWN = """
type properties items required enum const anyOf oneOf allOf not $ref $defs definitions format pattern minLength
maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems uniqueItems prefixItems
contains additionalProperties patternProperties propertyNames minProperties maxProperties if then else title
description default examples $schema $id $comment dependentRequired dependentSchemas unevaluatedProperties"""
KEYWORDS = frozenset(KNOWN.split())
DEFINITIONS = ("$defs", "definitions")


@dataclass(frozen=True, slots=True)
class Checked:
    """A value that was checked: with defaults and conversions where it fits, as it was where it does not."""

    value: object
    problems: tuple[Problem, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


Convert = Callable[[object], Checked]
"""The second layer: what a Python type makes of a value that its schema allows, as JSON."""


class Schema:
    """A rule for values. Without a schema, anything fits."""

    def __init__(self, schema: Mapping[str, object] | None, convert: Convert | None = None) -> None:
        self._schema, self._convert = schema, convert
        self._validator = _library().validator_for(dict(schema), offline=True) if schema is not None else None

    def check(self, value: object) -> Checked:
        """The value with its defaults and conversions, or all that is wrong with it and where."""
        if self._schema is not None:
            try:
                filled = Defaults(self._schema).fill(value)
            except RecursionError:
                return Checked(value, (Problem(text="it is nested too deeply"),))
            if problems := _problems(self._validator, filled):
                return Checked(value, problems)
            value = filled
        return self._convert(value) if self._convert else Checked(value)


def misfits(schema: Mapping[str, object], value: object) -> tuple[Problem, ...]:
    """Why a value does not fit a schema, as it is: without defaults."""
    return _problems(_library().validator_for(dict(schema), offline=True), value)


def wrong_schema(schema: object) -> str:
    """What is wrong with a schema; nothing when nothing is. It never fetches what it refers to."""
    if not isinstance(schema, Mapping):
        return "a JSON schema is a table of keys"
    try:
        _library().validator_for(dict(schema), offline=True)
    except ValueError as error:
        where = ".".join(map(str, getattr(error, "instance_path", ())))
        return f"{where}: {_first_line(error)}" if where else _first_line(error)
    return ""


def says_nothing(schema: Mapping[str, object]) -> bool:
    """Whether a schema has keys, and none that JSON Schema knows: it was meant otherwise."""
    return bool(schema) and KEYWORDS.isdisjoint(schema)


def as_part(schema: Mapping[str, Any], place: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema as it stands at `place` in another one, and the definitions that belong at the root of that: what it
    refers to within itself is found there too. One with an `$id` is a root wherever it stands."""
    if "$id" in schema:
        return dict(schema), {}
    moved: dict[str, Any] = _moved(schema, place)
    return moved, {name: moved.pop(name) for name in DEFINITIONS if name in moved}


def _moved(value: Any, place: str) -> Any:
    match value:
        case Mapping():
            return {
                key: _reference(inner, place) if key == "$ref" and isinstance(inner, str) else _moved(inner, place)
                for key, inner in value.items()
            }
        case list() | tuple():
            return [_moved(inner, place) for inner in value]
        case _:
            return value


def _reference(ref: str, place: str) -> str:
    at_root = ref.startswith(tuple(f"#/{name}/" for name in DEFINITIONS))
    return place + ref[1:] if (ref == "#" or ref.startswith("#/")) and not at_root else ref


@cache
def _library() -> ModuleType:
    import jsonschema_rs  # few runs check anything: those that do not should not wait for it

    return jsonschema_rs


def _problems(validator: Any, value: object) -> tuple[Problem, ...]:
    found: list[Problem] = []
    try:
        for error in validator.iter_errors(value):
            if len(found) == MOST_PROBLEMS:
                return (*found, Problem(text="and more"))
            found.append(Problem(text=_first_line(error), key=tuple(error.instance_path)))
    except ValueError as error:  # nested too deeply for it, or no Unicode
        found.append(Problem(text=f"it cannot be checked: {_first_line(error)}"))
    return tuple(found)


def _first_line(error: Exception) -> str:
    line = str(getattr(error, "message", None) or error).partition("\n")[0]
    return line if len(line) <= LONGEST_PROBLEM else f"{line[:LONGEST_PROBLEM]}…"


@dataclass(frozen=True, slots=True)
class Defaults:
    """The defaults that a schema declares, put where a value says nothing."""

    root: Mapping[str, object]

    def fill(self, value: object) -> object:
        return self._fill(self.root, value, ())

    def _fill(self, schema: object, value: object, refs: tuple[str, ...]) -> object:
        if not isinstance(schema, Mapping) or not isinstance(value, Mapping | list):
            return value
        match schema.get("$ref"):
            case str() as ref if ref not in refs:
                value = self._fill(self._at(ref), value, (*refs, ref))
            case _:
                pass
        match schema.get("allOf"):
            case list() as parts:
                for part in parts:
                    value = self._fill(part, value, refs)
            case _:
                pass
        for keyword in ("anyOf", "oneOf"):
            value = self._fill_one(schema.get(keyword), value, refs)
        return self._object(schema, value) if isinstance(value, Mapping) else self._list(schema, value)

    def _fill_one(self, branches: object, value: object, refs: tuple[str, ...]) -> object:
        """By the first branch that fits."""
        if isinstance(branches, list):
            for branch in branches:
                filled = self._fill(branch, value, refs)
                if isinstance(branch, Mapping) and self._fits(branch, filled):
                    return filled
        return value

    def _fits(self, branch: Mapping[str, object], value: object) -> bool:
        definitions = {name: self.root[name] for name in DEFINITIONS if name in self.root}
        try:
            return bool(_library().is_valid({**definitions, **branch}, value, offline=True))
        except ValueError:  # it refers to a part of the whole that it does not have alone
            return False

    def _object(self, schema: Mapping[str, object], value: Mapping[str, object]) -> Mapping[str, object]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return value
        filled = dict(value)
        for name, inner in properties.items():
            if name in filled:
                filled[name] = self._fill(inner, filled[name], ())
            elif isinstance(inner, Mapping) and "default" in inner:
                filled[name] = inner["default"]  # as it stands: a default that refers to itself would have no end
        return filled

    def _list(self, schema: Mapping[str, object], value: object) -> object:
        assert isinstance(value, list)
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        rest = schema.get("items")
        return [self._fill(first[n] if n < len(first) else rest, item, ()) for n, item in enumerate(value)]

    def _at(self, ref: str) -> object:
        """What a reference within the schema means; of one to elsewhere there is nothing to know."""
        found: object = self.root
        if not ref.startswith("#"):
            return None
        for step in ref[1:].split("/")[1:]:
            if not isinstance(found, Mapping):
                return None
            found = found.get(step.replace("~1", "/").replace("~0", "~"))
        return found
