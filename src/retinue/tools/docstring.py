"""What a docstring says of a function, and of each of its parameters."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

_google = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_numpy = re.compile(r"^(?:Parameters|Other Parameters)\s*$")
_named = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_names = re.compile(r"^(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")


@dataclass(slots=True)
class Docstring:
    """The text without its section on parameters, and what that says of each."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(docstring: str | None) -> Docstring:
    """Sections are found in the styles of Google and NumPy."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    for n, line in enumerate(lines):
        if _google.match(line):
            end = _end_of_indented(lines, n + 1)
            return _without(lines, n, end, _read_google(lines[n + 1 : end]))
        if _numpy.match(line) and _is_rule(lines, n + 1):
            end = _end_of_numpy(lines, n + 2)
            return _without(lines, n, end, _read_numpy(lines[n + 2 : end]))
    return Docstring("\n".join(lines).strip())


def _without(lines: list[str], begin: int, end: int, parameters: dict[str, str]) -> Docstring:
    before, after = "\n".join(lines[:begin]).strip(), "\n".join(lines[end:]).strip()
    return Docstring("\n\n".join(part for part in (before, after) if part), parameters)


def _end_of_indented(lines: list[str], begin: int) -> int:
    return next((n for n in range(begin, len(lines)) if lines[n].strip() and not lines[n].startswith(" ")), len(lines))


def _end_of_numpy(lines: list[str], begin: int) -> int:
    return next((n for n in range(begin, len(lines)) if _is_rule(lines, n + 1)), len(lines))


def _is_rule(lines: list[str], n: int) -> bool:
    return n < len(lines) and len(lines[n]) > 2 and not lines[n].strip("-")


def _read_google(lines: list[str]) -> dict[str, str]:
    """`name (type): what it is`, and further lines that are indented more."""
    said: dict[str, list[str]] = {}
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    current: list[str] = []
    for line in lines:
        found = _named.match(line[depth:])
        if found:
            current = said.setdefault(found[1], [found[2]])
        else:
            current.append(line.strip())
    return _joined(said)


def _read_numpy(lines: list[str]) -> dict[str, str]:
    """`name : type` at the margin, and what it is below, indented. One line may name several."""
    said: dict[str, list[str]] = {}
    current: list[list[str]] = []
    for line in lines:
        found = _names.match(line)
        if found:
            current = [said.setdefault(name.strip(), []) for name in found[1].split(",")]
        else:
            for one in current:
                one.append(line.strip())
    return _joined(said)


def _joined(said: dict[str, list[str]]) -> dict[str, str]:
    return {name: text for name, lines in said.items() if (text := " ".join(filter(None, lines)))}
