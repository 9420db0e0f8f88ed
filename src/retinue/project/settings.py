"""Settings, typed: what is said in Python, the environment, `retinue.toml`, and defaults, in that order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from retinue.core.declared import Key, Problem, arms, bare_hint, dotted, fields_of, is_table, read
from retinue.core.references import bare_references, literal_secrets, resolve
from retinue.core.secrets import SHORTEST
from retinue.core.spelling import nearest
from retinue.project.documents import Document

PREFIX = "RETINUE_"
OTHER_NAMES = {"DATABASE_URL": f"{PREFIX}DATABASE_URL"}
"""Variables that many programs know, and ours that means the same and comes first."""
SECRETS = "secrets"
S = TypeVar("S")


@dataclass(slots=True)
class Found:
    """Secrets that were met, by name, and what is wrong or odd."""

    secrets: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def keep(self, secrets: Mapping[str, str]) -> None:
        """Take secrets. One that is too short could not be told from ordinary text."""
        for name, value in secrets.items():
            if len(value) >= SHORTEST:
                self.secrets[re.sub(r"[^A-Za-z0-9_.-]", "_", name)] = value
            elif value:
                text = f"{name} is too short to be kept out of the journal ({SHORTEST} characters at least)"
                self.problems.append(Problem(text=text, warning=True))


def read_settings(
    kind: type[S],
    document: Document | None,
    variables: Mapping[str, str],
    arguments: Mapping[str, object] | None = None,
) -> tuple[S, Found]:
    """The settings, and what was met on the way. A wrong value is a problem, and its default holds.

    `arguments` are tables like the file's.
    """
    found = Found()
    declared = _of_file(document, variables, found)
    of_variables = dict(_of_variables(kind, variables, found))
    for key, (_, value) in of_variables.items():
        declared = _with(declared, key, value)
    for key, value in _leaves(arguments or {}):
        declared = _with(declared, key, value)
        of_variables.pop(key, None)
    settings, problems = read(kind, declared, skip=(SECRETS,))
    assert settings is not None, "every setting has a default"
    found.problems += (_placed(problem, document, of_variables) for problem in problems)
    return settings, found


def _of_file(document: Document | None, variables: Mapping[str, str], found: Found) -> dict[str, object]:
    if document is None:
        return {}
    resolved = resolve(document.value, variables)
    odd = [
        *((key, f"{name} is not set") for key, name in resolved.missing.items()),
        *(
            (key, f"${{{name}}} is only text: write ${{env:{name}}} or ${{secret:{name}}}")
            for key, name in bare_references(document.value).items()
        ),
    ]
    found.problems += document.problems
    found.problems += (document.placed(Problem(key=key, text=text, warning=True)) for key, text in odd)
    found.keep(resolved.secrets)
    found.keep({dotted(key): value for key, value in literal_secrets(document.value).items()})
    assert isinstance(resolved.value, dict)
    return resolved.value


def _of_variables(kind: Any, variables: Mapping[str, str], found: Found) -> Iterator[tuple[Key, tuple[str, object]]]:
    known = {f"{PREFIX}{'_'.join(key).upper()}": (key, hint) for key, hint in _settings_in(kind)}
    given = {OTHER_NAMES[name]: value for name, value in variables.items() if name in OTHER_NAMES and value}
    given |= {name: value for name, value in variables.items() if name.startswith(PREFIX)}
    for name, text in given.items():
        if name in known:
            key, hint = known[name]
            yield key, (name, _typed(text, hint))
        elif near := nearest(name.removeprefix(PREFIX), (one.removeprefix(PREFIX) for one in known)):
            text = f"nobody knows this variable. Did you mean {' or '.join(PREFIX + one for one in near)}?"
            found.problems.append(Problem(file=name, text=text, warning=True))


def _settings_in(kind: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for one in fields_of(kind):
        hint = bare_hint(one.hint)
        tables = [arm for arm in arms(hint) if is_table(arm)]
        if tables:
            yield from _settings_in(tables[0], (*key, one.name))
        elif (*key, one.name) != (SECRETS,):
            yield (*key, one.name), hint


def _typed(text: str, hint: Any) -> object:
    """The text of a variable as a value: a list with commas, a table as JSON."""
    match get_origin(hint), get_args(hint):
        case (origin, (item, *_)) if origin in (tuple, list) and item is str:
            return [part.strip() for part in text.split(",") if part.strip()]
        case _:
            pass
    try:
        return msgspec.convert(text, hint, strict=False)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _leaves(table: Mapping[str, object], key: Key = ()) -> Iterator[tuple[Key, object]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*key, name))
        else:
            yield (*key, name), value


def _with(table: Mapping[str, object], key: Key, value: object) -> dict[str, object]:
    """The table with a value at a key, in tables that are made where there are none."""
    first, *rest = key
    inner = table.get(str(first))
    put = _with(inner if isinstance(inner, Mapping) else {}, tuple(rest), value) if rest else value
    return {**table, str(first): put}


def _placed(problem: Problem, document: Document | None, of_variables: Mapping[Key, tuple[str, object]]) -> Problem:
    """A problem at the variable that it comes from, or in the file."""
    for key, (name, _) in of_variables.items():
        if problem.key[: len(key)] == key:
            return Problem(file=name, text=problem.text, warning=problem.warning)
    return document.placed(problem) if document else problem
