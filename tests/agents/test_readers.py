"""Those who watch an agent: they see all of it, from anywhere, and the run does not notice them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from retinue import Run, tool
from retinue.testing import Reply, SetClock, call
from tests.agents.acting import acting, finish
from tests.agents.pace import Paced
from tests.outside import ended, outside

ROOT = Path(__file__).parents[2]


@tool(effect="read")
async def look() -> str:
    """Looks."""
    return "saw it"


@asynccontextmanager
async def onlooker(url: str, run: Run) -> AsyncIterator[asyncio.StreamReader]:
    """What a reader in another process prints. It is not left behind."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.agents.onlooker", url, run.id), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    try:
        yield process.stdout
    finally:
        if process.returncode is None and not process.stdout.at_eof():
            process.kill()
        await process.communicate()


async def text_until(length: int, lines: asyncio.StreamReader, text: str = "") -> str:
    """What the deltas say, until it is so long: each begins where the one before ended."""
    async with asyncio.timeout(30):
        while len(text) < length:
            seen: dict[str, Any] = msgspec.json.decode(await lines.readline())
            if "offset" in seen:
                assert seen["offset"] == len(text)
                text += seen["text"]
    return text


async def test_L49_a_late_reader_in_another_process_sees_all_and_no_word_twice(file_url: str, clock: SetClock) -> None:
    doors = [asyncio.Event() for _ in range(3)]
    doors[0].set()
    pieces = ["a" * 5000, "b" * 5000, "the end"]

    async def at_door(n: int) -> None:
        await doors[n].wait()

    model = Paced(clock, Reply(pieces=pieces, before=at_door, calls=[finish()]))
    async with acting(clock, model, file_url) as app:
        run = await app.submit("agent:guide", "go")
        async with onlooker(file_url, run) as lines:
            text = await text_until(5000, lines)
            doors[1].set()
            text = await text_until(10_000, lines, text)
            doors[2].set()
            rest = [msgspec.json.decode(line) for line in (await lines.read()).splitlines()]
        assert text == "".join(pieces[:2])
        said = "".join(one["text"] for one in rest if "offset" in one)
        assert "the end".startswith(said)
        (whole,) = [one["data"]["parts"][0]["text"] for one in rest if one.get("type") == "model.responded"]
        assert whole == "".join(pieces)
        assert rest[-1]["type"] == "run.finished"
        assert (await ended(app, run)).reason == "goal"


async def read_and_raise(run: Run) -> None:
    async with aclosing(run.follow()) as seen:  # type: ignore[type-var]
        async for one in seen:
            if one.type == "turn.started":
                raise ValueError("I cannot read this")


async def test_L39_readers_that_raise_or_stall_are_not_noticed(clock: SetClock) -> None:
    talking = Reply(pieces=["I ", "look ", "for it"], before=outside.wait_at_door, calls=[call("look")])
    model = Paced(clock, talking, finish("found"))
    async with acting(clock, model, tools=[look]) as app:
        run = await app.submit("agent:guide", "go")
        async with aclosing(run.follow()) as stalled, aclosing(run.follow(tree=True)) as watched:  # type: ignore[type-var]
            assert (await anext(stalled)).type == "run.queued"  # and no more of it is read
            raising = asyncio.create_task(read_and_raise(run))
            outside.door.set()
            types = [one.type async for one in watched]
            assert types[-1] == "run.finished"
            with pytest.raises(ValueError, match="I cannot read this"):
                await raising
        outcome = await ended(app, run)
        assert (outcome.reason, outcome.output, model.asked) == ("goal", "found", 2)
