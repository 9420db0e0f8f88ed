"""`retinue run`"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from retinue.cli.attend import attend
from retinue.cli.database import find_code_here, one_input, opened
from retinue.cli.options import Db, Detach, Json, examples, single

app = single()

EXAMPLES = examples(
    'retinue run model:test "Hello"',
    'retinue run function:shop:order --input-json \'{"item": "tea"}\'',
    "retinue run function:shop:order --key order-17      the same run, however often it is said",
    "retinue run function:shop:order --detach            a worker runs it",
)


@app.command(epilog=EXAMPLES)
def run(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="model:NAME or function:MODULE:NAME.")],
    text: Annotated[str | None, typer.Argument(metavar="[INPUT]", help="What it is given, as text.")] = None,
    input_json: Annotated[str | None, typer.Option("--input-json", metavar="JSON", help="What it is given.")] = None,
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
    value = one_input(text, input_json)
    find_code_here()

    async def go() -> int:
        async with opened(db, create=True) as app:
            submitted = await app.submit(
                target,
                value,
                idempotency_key=key,
                owner=owner,
                priority=priority,
                max_minutes=max_minutes,
            )
            return await attend(app, submitted.id, as_json=as_json, db=db, detach=detach)

    return asyncio.run(go())
