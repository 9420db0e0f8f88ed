"""`retinue run`"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from retinue.app import Retinue, RunOptions
from retinue.cli.attend import attend
from retinue.cli.database import one_input, opened
from retinue.cli.options import Db, Detach, Json, examples, single
from retinue.cli.show import aside
from retinue.service import OnBusy, parts_of

app = single()

EXAMPLES = examples(
    'retinue run model:test "Hello"',
    'retinue run agent:guide "What to see in Porto?" --model openai:gpt-5-mini',
    'retinue run model:openai:gpt-5-mini "And then?" --thread 3f8k2      goes on in a thread',
    'retinue run model:openai:gpt-5-mini "What is in it?" --file report.pdf --file photo.png',
    "cat notes.txt | retinue run model:local:smollm2 -     what is piped in",
    'retinue run function:shop:order --input-json \'{"item": "tea"}\'',
    "retinue run function:shop:order --key order-17      the same run, however often it is said",
    "retinue run function:shop:order --detach            a worker runs it",
)


@app.command(epilog=EXAMPLES)
def run(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="agent:NAME, graph:NAME, model:NAME or function:MODULE:NAME.")
    ],
    text: Annotated[str | None, typer.Argument(metavar="[INPUT]", help="What it is given, as text.")] = None,
    input_json: Annotated[str | None, typer.Option("--input-json", metavar="JSON", help="What it is given.")] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="PATH|URL", help="A file, folder, archive or page to read; may be repeated."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="THREAD", help="Go on in this thread; else a new one begins.")
    ] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", metavar="MESSAGE", help="Answer after this message, not after the newest.")
    ] = None,
    on_busy: Annotated[
        OnBusy, typer.Option("--on-busy", help="When something runs on that branch already.")
    ] = OnBusy.QUEUE,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Of an agent: who answers, instead of its own.")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--from", metavar="NODE", help="Start a graph at this node; --input-json says before.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="USD", help="What it may cost, with all that it starts.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Its idempotency key: said again, the same run.")] = None,
    owner: Annotated[str, typer.Option("--owner", help="Whose it is.", show_default=False)] = "",
    priority: Annotated[int, typer.Option("--priority", help="Higher goes first.")] = 0,
    max_minutes: Annotated[float | None, typer.Option("--max-minutes", help="How long it may be active.")] = None,
    detach: Detach = False,
    db: Db = None,
    as_json: Json = False,
) -> int:
    """Run something and watch it until it has ended.

    It is stored before it begins. It runs in this process, with all that it starts; what has to wait for a person or
    for long is left to `retinue worker`, and the exit code is 3. Ctrl-C cancels it; a second one leaves it at once.
    """
    value = one_input(sys.stdin.read() if text == "-" else text, input_json)

    async def go() -> int:
        async with opened(db, create=True, code=True) as app:
            options = RunOptions(
                idempotency_key=key, owner=owner, priority=priority, max_minutes=max_minutes, max_cost_usd=max_cost
            )
            if model:
                options["model"] = model
            if node:
                options["at_node"] = node
            if thread:
                options["thread"] = (await app.service.threads.named(thread)).id
                options["on_busy"] = on_busy.value
            if parent:
                options["parent"] = parent
            said = await _with_files(app, value, files, owner) if files else value
            submitted = await app.submit(target, said, **options)
            return await attend(app, submitted.id, as_json=as_json, db=db, detach=detach)

    return asyncio.run(go())


async def _with_files(app: Retinue, said: object, files: list[str], owner: str) -> object:
    """What is said, and the files that go with it."""
    gathered = await app.attach(*files, owner=owner)
    for note in gathered.notes:
        aside(note)
    return [*parts_of(said), *gathered.parts]
