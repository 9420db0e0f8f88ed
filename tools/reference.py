"""Write `docs/reference/events.md` from `core/events.py`. `--check` only compares."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from retinue.core import events, messages
from retinue.core.events import GROUPS, KINDS, Event, EventData
from retinue.core.outcome import Failure, Usage

PATH = Path(__file__).parent.parent / "docs/reference/events.md"
INTRO = """
# Events

A run is its events: its state, its outcome and what it said follow from them and from nothing else.
The list is closed. Names are past tense; an event's data is one flat JSON object.

This page is generated from `src/retinue/core/events.py`; change it there, then run `make docs`.

A field without a default is always there. A field of an event that has its default is left out.
Readers ignore fields that they do not know. In Python, `try` is called `try_`.
"""
WORDS = {object: "any JSON", str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}
PARTS = get_args(messages.AnyPart)
SHAPES: tuple[type, ...] = (Usage, Failure, *PARTS)


def anchor(title: str) -> str:
    """The address that a heading gets on a page."""
    return title.lower().replace(".", "").replace(" ", "-")


def link(kind: type) -> str:
    return f"[{kind.__name__}](#{anchor(kind.__name__)})"


def typed(hint: Any) -> str:
    """An annotation in the words of JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint == messages.AnyPart:
        return "[part](#parts)"
    if origin in (Union, types.UnionType):
        return " or ".join(typed(argument) for argument in arguments)
    if origin is tuple:
        return f"list of {typed(arguments[0])}"
    if origin is dict:
        return "object"
    return WORDS.get(hint) or link(hint)


def default(value: object) -> str:
    if value is MISSING or value is msgspec.NODEFAULT:
        return ""
    if isinstance(value, Usage):
        return "`{}`"
    return f"`{msgspec.json.encode(value).decode()}`"


def rows(kind: Any) -> Iterator[tuple[str, Any, object]]:
    """The fields of a class: name in JSON, annotation, default."""
    hints = get_type_hints(kind)
    if issubclass(kind, msgspec.Struct):
        own = [*kind.__annotations__, *(name for name in kind.__struct_fields__ if name not in kind.__annotations__)]
        defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
        yield from ((name, hints[name], defaults[name]) for name in own)
    else:
        yield from ((field.name.rstrip("_"), hints[field.name], field.default) for field in fields(kind))


def table(kind: type) -> str:
    lines = [f"| `{name}` | {typed(hint)} | {default(value)} |" for name, hint, value in rows(kind)]
    return "\n".join(["| field | type | default |", "|---|---|---|", *lines])


def section(level: int, title: str, kind: type, *more: str) -> str:
    return "\n\n".join([f"{'#' * level} {title}", inspect.cleandoc(kind.__doc__ or ""), *more])


def named_values() -> list[type[Enum]]:
    """The enums that events and their shapes use, in the order in which they are met."""
    met: dict[type[Enum], None] = {}

    def meet(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, Enum):
            met[hint] = None
        for argument in get_args(hint):
            meet(argument)

    for kind in (*KINDS.values(), *SHAPES):
        for _, hint, _ in rows(kind):
            meet(hint)
    return list(met)


def line_of_a_journal() -> str:
    of_data = "an object: the fields below"
    kinds = {name: of_data if hint is EventData else typed(hint) for name, hint, _ in rows(Event)}
    lines = [f"| `{name}` | {kind} |" for name, kind in kinds.items()]
    lines.insert(-1, "| `type` | string: one of the types below |")
    return "\n".join(["| field | type |", "|---|---|", *lines])


def page() -> str:
    index = [f"| {group} | {' '.join(f'[`{t}`](#{anchor(t)})' for t in kinds)} |" for group, kinds in GROUPS.items()]
    parts = [INTRO.strip(), section(2, "Event", Event, line_of_a_journal())]
    parts += ["## Types", "\n".join(["| group | types |", "|---|---|", *index])]
    for group, kinds in GROUPS.items():
        parts.append(f"## Group: {group}")
        parts += [section(3, kind, KINDS[kind], table(KINDS[kind])) for kind in kinds]
    parts.append("## Shapes")
    parts += [section(3, kind.__name__, kind, table(kind)) for kind in SHAPES if kind not in PARTS]
    parts += ["## Parts", f"{inspect.cleandoc(messages.Part.__doc__ or '')} `kind` says which piece it is."]
    for kind in PARTS:
        parts.append(section(3, kind.__name__, kind, f"`kind` is `{kind.__struct_config__.tag}`.", table(kind)))
    parts.append("## Values")
    for named in named_values():
        values = ", ".join(f"`{member.value}`" for member in named)
        parts.append(section(3, named.__name__, named, f"{values}."))
    return "\n\n".join(parts) + "\n"


def main() -> int:
    if "--check" not in sys.argv:
        PATH.parent.mkdir(parents=True, exist_ok=True)
        PATH.write_text(page(), encoding="utf-8")
        return 0
    if PATH.exists() and PATH.read_text(encoding="utf-8") == page():
        return 0
    print(f"{PATH.name} does not follow from {Path(events.__file__).name} any more; run make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
