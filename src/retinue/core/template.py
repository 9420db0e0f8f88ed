"""Templates: text with `{{ … }}` and `{% … %}` in it, over JSON values.

Text without any is its own template, and costs nothing. `${X}` is only text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import ModuleType
from typing import Protocol

GIVEN = ("today", "now", "model", "agent", "run_id")
WHOLE_INPUT = "input"
MARKS = ("{{", "{%", "{#")


class Template(Protocol):
    """A template that can be used."""

    @property
    def mentions(self) -> Mapping[str, int]:
        """The names that it cannot do without, and the line that each is first on.

        One that it asks about with `is defined`, or has a `default` for, is not among them.
        """

    @property
    def names(self) -> frozenset[str]:
        """All names that it speaks of, also those that it can do without."""

    def missing(self, values: Mapping[str, object]) -> tuple[str, ...]:
        """What it needs that is not among the values: names, and keys inside them like `city.zip`."""

    def render(self, values: Mapping[str, object]) -> str:
        """The text. Raises `NamesMissing` with all that is missing, or `BadTemplate`."""

    def value(self, values: Mapping[str, object]) -> object:
        """What a lone `{{ … }}` gives, kept as JSON; of anything else the text."""


@dataclass(frozen=True, slots=True)
class PlainText:
    """Text with nothing to put in."""

    text: str
    mentions: Mapping[str, int] = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    def missing(self, values: Mapping[str, object]) -> tuple[str, ...]:
        return ()

    def render(self, values: Mapping[str, object]) -> str:
        return self.text

    def value(self, values: Mapping[str, object]) -> object:
        return self.text


@lru_cache(maxsize=2048)
def template(text: str) -> Template:
    """The template that a text is, compiled once. Raises `BadTemplate` with the line."""
    if not any(mark in text for mark in MARKS):
        return PlainText(text)
    compiled: Template = _sandbox().Compiled(text)
    return compiled


@cache
def _sandbox() -> ModuleType:
    from retinue.core import sandbox  # Jinja takes longer to load than all the rest

    return sandbox


@dataclass(frozen=True, slots=True)
class Values:
    """What templates of a run are given; `shadowed` are names of ours that the caller's keys have taken."""

    values: Mapping[str, object]
    shadowed: tuple[str, ...] = ()


def values_of(input: object, given: Mapping[str, object]) -> Values:
    """The input's keys, the whole input as `input`, and what is given: today, now, model, agent, run_id.

    The caller's keys win.
    """
    keys = input if isinstance(input, Mapping) else {}
    shadowed = tuple(name for name in given if name in keys)
    return Values({WHOLE_INPUT: input, **given, **keys}, shadowed)


def known_names(input_schema: Mapping[str, object] | None) -> frozenset[str] | None:
    """The names that templates can count on, or None where the input may bring any."""
    if input_schema is None or input_schema.get("additionalProperties", False) is not False:
        return None
    properties = input_schema.get("properties")
    if not isinstance(properties, Mapping) or _brings_more(input_schema):
        return None
    return frozenset(map(str, properties)) | {*GIVEN, WHOLE_INPUT}


def _brings_more(schema: Iterable[str]) -> bool:
    return not {"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"}.isdisjoint(schema)
