"""`.env`: variables for a project, a line each."""

from __future__ import annotations

import re

from retinue.core.declared import Problem

_line = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_quoted = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?""")
_escape = re.compile(r"\\(.)")
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env(file: str, text: str) -> tuple[dict[str, str], list[Problem]]:
    """KEY=VALUE; `#` begins a comment, quotes keep what is in them. Nothing is expanded."""
    variables: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        if found := _line.fullmatch(said):
            variables[found[1]] = _value(found[2])
        else:
            problems.append(Problem(file=file, line=number, text="expected KEY=VALUE"))
    return variables, problems


def _value(text: str) -> str:
    if found := _quoted.fullmatch(text):
        if found[2] is not None:
            return found[2]
        return _escape.sub(lambda escape: ESCAPES.get(escape[1], escape[1]), found[1])
    return re.split(r"\s+#", text, maxsplit=1)[0].strip()
