"""Files with keys in them: YAML, TOML and JSON, each value with the line that it stands on."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from retinue.core.declared import Key, Problem

DEEPEST, MOST_VALUES = 100, 50_000
Lines = Mapping[Key, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file that was read: what it says, where each key stands, and what is odd about it."""

    file: str
    value: object
    lines: Lines
    problems: tuple[Problem, ...] = ()

    def placed(self, problem: Problem) -> Problem:
        """A problem with a key, at the line of that key or of what it is in."""
        for length in range(len(problem.key), -1, -1):
            if line := self.lines.get(problem.key[:length]):
                return replace(problem, file=self.file, line=line)
        return replace(problem, file=self.file)


def read_text(path: Path, file: str) -> str | Problem:
    """The text of a file."""
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return Problem(file=file, line=line, text="it is not UTF-8: save it with that encoding")
    except OSError as error:
        return Problem(file=file, text=f"it cannot be read: {error.strerror}")


# YAML


def yaml_document(file: str, text: str, first_line: int = 1) -> Document | Problem:
    """YAML 1.2, as far as JSON goes: `yes` and dates are text, a key that stands twice is an error."""
    try:
        node: Any = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = (mark.line if mark else 0) + first_line
        said = " ".join(part for part in (error.context, error.problem) if part)
        return Problem(file=file, line=line, text=f"it is no YAML: {said}")
    except (yaml.YAMLError, RecursionError) as error:
        said = str(error).partition("\n")[0]
        return Problem(file=file, line=first_line, text=f"it is no YAML: {said}")
    builder = _Builder(first_line)
    try:
        value = builder.value(node, ()) if node is not None else None
    except _TooMuch as error:
        return Problem(file=file, line=error.line, text=error.text)
    placed = tuple(replace(problem, file=file) for problem in builder.problems)
    return Document(file=file, value=value, lines={(): first_line, **builder.lines}, problems=placed)


def _loader() -> Any:
    """The one in C where there is one."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _TooMuch(Exception):
    def __init__(self, line: int, text: str) -> None:
        self.line, self.text = line, text


@dataclass(slots=True)
class _Builder:
    """Values out of YAML's nodes, with the line of each key."""

    first_line: int
    lines: dict[Key, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    values: int = 0

    def value(self, node: Any, key: Key) -> object:
        line = self.lines.setdefault(key, node.start_mark.line + self.first_line)
        self.values += 1
        if len(key) > DEEPEST or self.values > MOST_VALUES:
            raise _TooMuch(line, "it is nested too deeply, or holds itself, or is far too long")
        match node:
            case yaml.ScalarNode():
                return node.value if node.style else _scalar(node)  # a plain one has no quotes, nor anything like them
            case yaml.SequenceNode():
                return [self.value(item, (*key, n)) for n, item in enumerate(node.value)]
            case _:
                return self._table(node, key)

    def _table(self, node: Any, key: Key) -> dict[str, object]:
        table: dict[str, object] = {}
        for name_node, value_node in node.value:
            line = name_node.start_mark.line + self.first_line
            if not isinstance(name_node, yaml.ScalarNode):
                self.problems.append(Problem(key=key, line=line, text="a key is text, not a list or a table"))
                continue
            inner = (*key, name_node.value)
            if name_node.value in table:
                text = f"it stands here twice, first in line {self.lines[inner]}"
                self.problems.append(Problem(key=inner, line=line, text=text))
                continue
            self.lines[inner] = line
            table[name_node.value] = self.value(value_node, inner)
        return table


_whole = re.compile(r"[-+]?[0-9]+")
_other_whole = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_number = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_words: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
LONGEST_NUMBER = 400


def _scalar(node: Any) -> object:
    text: str = node.value
    if text in _words:
        return _words[text]
    if len(text) > LONGEST_NUMBER:
        return text
    if _whole.fullmatch(text):
        return int(text)
    if _other_whole.fullmatch(text):
        return int(text, 0)
    return float(text) if _number.fullmatch(text) else text


# JSON


def json_document(file: str, text: str) -> Document | Problem:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return Problem(file=file, line=error.lineno, text=f"it is no JSON: {error.msg.lower()}")
    except (ValueError, RecursionError) as error:
        return Problem(file=file, line=1, text=f"it is no JSON: {error}")
    # JSON is YAML but for its tabs; what this says of values counts for nothing, only where they stand.
    placed = yaml_document(file, text.replace("\t", " "))
    if isinstance(placed, Problem):
        return Document(file=file, value=value, lines={(): 1})
    return Document(file=file, value=value, lines=placed.lines, problems=placed.problems)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not in JSON")


# TOML

_toml_place = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_toml_header = re.compile(r"^\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?$")
_toml_key = re.compile(
    r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_toml_step = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def toml_document(file: str, text: str) -> Document | Problem:
    try:
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        said = str(error)
        place = _toml_place.search(said)
        line = int(place[1]) if place and place[1] else len(text.splitlines())
        text = said[: place.start()] if place else said
        return Problem(file=file, line=line, text=f"it is no TOML: {text[:1].lower()}{text[1:]}")
    return Document(file=file, value=value, lines=_toml_lines(text))


def _toml_lines(text: str) -> Lines:
    """Where the keys of tables stand. Keys inside inline tables are taken to be where those begin."""
    lines: dict[Key, int] = {(): 1}
    table: Key = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _toml_header.match(line):
            table = _toml_steps(header[2])
            if header[1] == "[[":
                table = (*table, sum(key[:-1] == table and isinstance(key[-1], int) for key in lines if key))
            lines.setdefault(table, number)
        elif key := _toml_key.match(line):
            lines.setdefault((*table, *_toml_steps(key[1])), number)
    return lines


def _toml_steps(text: str) -> Key:
    return tuple(step.strip("\"'") for step in _toml_step.findall(text))
