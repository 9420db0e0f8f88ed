"""`retinue init`"""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from retinue.cli.options import Json, examples, single
from retinue.cli.show import print_json, say

app = single()

LOCAL, TEST = "local:smollm2", "test"
OF_LOCAL = "# A small model inside the process: no key, and after the first run no network."
OF_TEST = """\
# `test` only says again what it is told: no key, no network. For answers of its own:
#   model = "local:smollm2"        inside the process; pip install 'retinue[local]'
#   model = "openai:gpt-5-mini"    with OPENAI_API_KEY in the environment or in .env"""

SETTINGS = """\
# Settings of this project. A variable comes before what stands here: RETINUE_MODEL, RETINUE_WORKER_CONCURRENCY, …

{about}
model = "{model}"

# Short names for models, to be used wherever a model is named.
# [aliases]
# fast = "openai:gpt-5-mini"

# Any server that speaks OpenAI's format. Secrets stay in .env, or in the environment.
# [providers.mine]
# base_url = "http://127.0.0.1:8000/v1"
# api_key = "${{secret:MY_API_KEY}}"

# [worker]
# concurrency = 100

# What agents may do: the first rule that matches a call decides.
# [[policy]]
# tool = "mcp:*"
# effect = "write"
# action = "ask"
"""
AGENT = """\
---
name: guide
description: Knows a few cities.
tools: [about_city]
# Besides the text below it is told nothing; without this line, the date.
context: []
# An answer without tool calls is the answer. With `tool`, the agent has to call complete_task with it.
finish: text
---
You know cities. Look a city up before you speak of it, and say so when you know nothing about it.
"""
TOOL = '''\
"""Tools of this project: every function with @tool above it."""

from retinue import tool

CITIES = {
    "Porto": "A city on the Douro. Eat francesinha; cross the bridge on foot.",
    "Riga": "A city on the Daugava. See the market halls; take a warm coat.",
}


@tool(effect="read")
def about_city(city: str) -> str:
    """What is known about a city."""
    return CITIES.get(city, f"Nothing is known about {city}.")
'''
IGNORED = """\
.retinue/
.env
"""


@app.command(epilog=examples("retinue init", "retinue init my-agents"))
def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where; else here.", show_default=False)] = Path(),
    as_json: Json = False,
) -> None:
    """Write a small project that works at once, with no key. What is there already is left as it is."""
    made: list[str] = []
    kept: list[str] = []
    for name, text in _files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (made if _write(path, text) else kept).append(name)
    if as_json:
        print_json({"folder": str(folder), "made": made, "kept": kept})
        return
    for name in made:
        say(("made  ", "green"), str(folder / name))
    for name in kept:
        say(("kept  ", "dim"), str(folder / name), ("  it was there", "dim"))
    say()
    say("Try next:")
    for command, about in _next_steps(folder):
        say(f"  {command:50}  ", (about, "dim"))


def _files() -> dict[str, str]:
    """Each file and what stands in it."""
    model, about = (LOCAL, OF_LOCAL) if find_spec("xllamacpp") else (TEST, OF_TEST)
    return {
        "retinue.toml": SETTINGS.format(model=model, about=about),
        "agents/guide.md": AGENT,
        "tools/cities.py": TOOL,
        ".gitignore": IGNORED,
    }


def _write(path: Path, text: str) -> bool:
    """Write a new file; nothing when there is one."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _next_steps(folder: Path) -> list[tuple[str, str]]:
    steps = [("cd " + shlex.quote(str(folder)), "")] if folder != Path() else []
    return [
        *steps,
        ("retinue agents check", "is everything declared as it should be?"),
        ('retinue run agent:guide "What to see in Porto?"', "ask it, and watch"),
        ("retinue chat agent:guide", "talk with it"),
    ]
