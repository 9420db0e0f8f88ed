"""What commands about a project share: reading it, and saying what is wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from retinue.cli.database import find_code_here
from retinue.cli.show import clean, plural, print_json, say
from retinue.core.declared import Problem, dotted, has_errors
from retinue.errors import BadInput
from retinue.settings import TheProject, is_project, read_project

Folder = Annotated[
    Path, typer.Option("--project", metavar="FOLDER", help="The project; else the current folder.", show_default=False)
]


def read_folder(folder: Path) -> TheProject:
    """The project. What its tools print while they are loaded is not what was asked for."""
    if not is_project(folder):
        where = "here" if folder == Path() else f"in {folder}"
        problem = (
            f"There is no project {where}: no retinue.toml, agents/, graphs/ or mcp.json. `retinue init` makes one."
        )
        raise BadInput(problem=problem)
    find_code_here()
    with redirect_stdout(sys.stderr):
        return read_project(folder)


def report(problems: Sequence[Problem], names: Sequence[str], what: str, *, as_json: bool) -> int:
    """Say all that is wrong, by file and line, and how many can run all the same. The exit code."""
    problems = sorted(problems, key=lambda problem: (problem.file, problem.line))
    wrong = has_errors(problems)
    if as_json:
        print_json({"ok": not wrong, f"{what}s": list(names), "problems": [_problem_json(one) for one in problems]})
        return int(wrong)
    for problem in problems:
        said_of = clean(": ".join(part for part in (dotted(problem.key), problem.text) if part))
        kind = ("warning: ", "yellow") if problem.warning else ("error: ", "red")
        say(f"{problem.place}: ", kind, said_of)
    if problems:
        say()
    say(f"{plural(len(names), what)} can run; {counts(problems)}.")
    return int(wrong)


def counts(problems: Sequence[Problem]) -> str:
    errors = sum(not problem.warning for problem in problems)
    said = [plural(errors, "error")] if errors else []
    said += [plural(len(problems) - errors, "warning")] if len(problems) > errors else []
    return ", ".join(said) or "nothing is wrong"


def _problem_json(problem: Problem) -> dict[str, object]:
    return {
        "severity": "warning" if problem.warning else "error",
        "file": problem.file,
        "line": problem.line or None,
        "key": dotted(problem.key) or None,
        "problem": problem.text,
    }
