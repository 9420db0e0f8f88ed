"""Which database is meant, and opening it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from retinue.app import Retinue, default_url, look_at
from retinue.core.declared import dotted
from retinue.errors import BadInput, BadSettings
from retinue.settings import Settings, TheProject, is_project, read_project, read_settings


@asynccontextmanager
async def opened(db: str | None, *, create: bool = False, code: bool = False, **options: Any) -> AsyncIterator[Retinue]:
    """The app on a database, without a worker. Only who stores something makes a database where there is none; with
    `code`, the agents and functions of this folder are there."""
    settings = settings_here()
    if code:
        find_code_here()
        options["project"] = project_here()
    url = url_of(db)
    if not create and (await look_at(url))[0] is None:
        raise BadInput(
            problem=f"There is no database at {public(url)} yet. `retinue run` and `retinue worker` make one; "
            "--db URL names another one."
        )
    async with Retinue.open(url, worker=False, settings=settings, **options) as app:
        yield app


@cache
def settings_here() -> Settings:
    """What `retinue.toml` in this folder, `.env` and the environment say. One that is wrong stops everything: what was
    meant by it would not hold. What is only odd, `retinue doctor` tells."""
    settings, problems = read_settings()
    for problem in problems:
        if not problem.warning:
            raise BadSettings(where=f"{problem.place}: {dotted(problem.key)}".strip(": "), problem=problem.text)
    return settings


def project_here() -> TheProject | None:
    """The project in this folder, if it is one. Its mistakes are told, and keep only those from running who have them.

    What its tools print while they are loaded is not what was asked for.
    """
    if not is_project(Path()):
        return None
    with redirect_stdout(sys.stderr):
        project = read_project()
    if errors := sum(not problem.warning for problem in project.problems):
        print(f"warning: {errors} mistakes in this project; `retinue agents check` tells them", file=sys.stderr)
    return project


def url_of(db: str | None) -> str:
    """The database that is meant."""
    return db or settings_here().database_url or default_url()


def public(url: str) -> str:
    """A database's URL without its password."""
    scheme, _, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    return f"{scheme}://{credentials.partition(':')[0]}{at}{host}"


def command(words: str, db: str | None) -> str:
    """A command as it can be typed after this one."""
    return f"{called()} {words} --db '{public(db)}'" if db else f"{called()} {words}"


def called() -> str:
    """What `retinue` is called where this was typed: in a clone, it is on nobody's PATH."""
    if "UV_RUN_RECURSION_DEPTH" in os.environ:
        return "uv run retinue"
    program = sys.argv[0]
    if Path(program).stem != "retinue" or ((found := shutil.which("retinue")) and Path(found).samefile(program)):
        return "retinue"
    near = os.path.relpath(program)
    return program if near.startswith(os.pardir) else near


def find_code_here() -> None:
    """Modules in the current folder can be loaded, before those that are installed."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)


def from_json(text: str, option: str) -> object:
    """The value that an option's JSON says."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadInput(problem=f"{option} is no JSON: {error}.") from None


def one_input(text: str | None, as_json: str | None) -> object:
    """What is said as text or as JSON."""
    if as_json is None:
        return text
    if text is not None:
        raise BadInput(problem="Give it as text or as --input-json, not both.")
    return from_json(as_json, "--input-json")
