"""The calls of one turn: which run at once, in which order, and what the model is told of each."""

from __future__ import annotations

import asyncio

from retinue import Retinue, tool
from retinue.core import events as e
from retinue.core.messages import File
from retinue.files.config import FilesConfig
from retinue.ports.models import Takes
from retinue.ports.tools import Blob, Content
from retinue.settings import Settings
from retinue.testing import SetClock, call
from tests.agents.acting import Actor, Commits, acting, finish, guide, results_in, told
from tests.outside import data_of, ended, outside

IMAGE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


@tool(effect="read")
async def look(n: int) -> int:
    outside.done.append(f"look {n} begins")
    await asyncio.sleep(0)
    await outside.door.wait()
    outside.done.append(f"look {n} ends")
    return n


@tool
async def act(n: int) -> int:
    outside.done.append(f"act {n} begins")
    await asyncio.sleep(0)
    outside.done.append(f"act {n} ends")
    return n


async def test_L13_reads_overlap_and_their_results_keep_the_order(clock: SetClock) -> None:
    @tool(effect="read")
    async def wait(seconds: float) -> float:
        outside.done.append(seconds)
        await clock.sleep(seconds)
        return seconds

    actor = Actor([call("wait", seconds=0.3), call("wait", seconds=0.2)], finish())
    async with acting(clock, actor, tools=[wait]) as app:
        run = await app.submit("agent:guide", "Go")
        while outside.done != [0.3, 0.2]:
            await asyncio.sleep(0)
        clock.advance(0.2)
        clock.advance(0.1)
        await ended(app, run)
        finished = [data.result for data in await data_of(run, e.ToolFinished)]
    assert (finished[:2], told(actor.requests[1])) == ([0.2, 0.3], [0.3, 0.2])


async def test_L14_write_read_write_keep_their_order_and_the_read_overlaps_nothing(clock: SetClock) -> None:
    actor = Actor([call("act", n=1), call("look", n=2), call("act", n=3)], finish())
    async with acting(clock, actor, tools=[look, act]) as app:
        run = await app.submit("agent:guide", "Go")
        while "look 2 begins" not in outside.done:
            await asyncio.sleep(0)
        outside.door.set()
        await ended(app, run)
    assert outside.done == [f"{what} {how}" for what in ("act 1", "look 2", "act 3") for how in ("begins", "ends")]
    assert told(actor.requests[1]) == [1, 2, 3]


async def test_a_write_is_on_disk_as_begun_before_it_acts(clock: SetClock) -> None:
    commits, seen = Commits(), list[list[str]]()

    @tool
    async def pay() -> None:
        seen.extend(commits.types)

    async with acting(clock, Actor(call("pay"), finish()), checkpoint=commits, tools=[pay]) as app:
        await ended(app, await app.submit("agent:guide", "Go"))
    assert seen[-1] == ["model.responded", "tool.started"]


async def test_L15_a_tool_that_raises_is_told_without_internals_and_the_run_goes_on(clock: SetClock) -> None:
    @tool
    async def fail() -> None:
        raise ValueError("the bank is closed\nsecret line: 0x7f, /srv/app.py")

    actor = Actor([call("fail"), call("act", n=1)], finish())
    async with acting(clock, actor, tools=[fail, act]) as app:
        run = await app.submit("agent:guide", "Go")
        outcome = await ended(app, run)
        failed = (await data_of(run, e.ToolFinished))[0]
    assert (outcome.reason, failed.ok, failed.unknown) == ("goal", False, False)
    assert [(one.ok, one.result) for one in results_in(actor.requests[1])] == [
        (False, "ValueError: the bank is closed"),
        (True, 1),
    ]


@tool(effect="read")
async def draw() -> Content:
    return Content(("A dot:", Blob(data=IMAGE, media_type="image/png", name="dot.png")))


async def test_L16_text_and_image_reach_a_model_that_sees(clock: SetClock) -> None:
    actor = Actor(call("draw"), finish(), takes=Takes(media=frozenset({"image/*"})))
    async with acting(clock, actor, tools=[draw]) as app:
        run = await app.submit("agent:guide", "Go")
        await ended(app, run)
        assert await data_of(run, e.Warned) == []
    request = actor.requests[1]
    (shown,) = [part for part in request.messages[-1].parts if isinstance(part, File)]
    assert told(request) == ["A dot:\n[dot.png: shown below]"]
    assert (shown.media_type, request.files[shown.uri]) == ("image/png", IMAGE)


async def test_L16_a_model_that_does_not_see_gets_a_note_and_the_run_a_warning(clock: SetClock) -> None:
    actor = Actor(call("draw"), finish())
    async with acting(clock, actor, tools=[draw]) as app:
        run = await app.submit("agent:guide", "Go")
        await ended(app, run)
        (warned,) = await data_of(run, e.Warned)
    assert warned.code == "file"
    assert "dot.png" in warned.message
    assert not any(isinstance(part, File) for message in actor.requests[1].messages for part in message.parts)
    assert "cannot be shown to you" in str(actor.requests[1].messages[-1])


async def test_a_file_over_the_limits_is_a_note_and_a_warning(clock: SetClock) -> None:
    actor = Actor(call("draw"), finish(), takes=Takes(media=frozenset({"image/*"})))
    settings = Settings(files=FilesConfig(max_mb=0.00001))
    async with Retinue.open(
        "sqlite://", clock=clock, settings=settings, agents=[guide(tools=[draw])], models={"m": actor}
    ) as app:
        run = await app.submit("agent:guide", "Go")
        assert (await ended(app, run)).reason == "goal"
        (warned,) = await data_of(run, e.Warned)
    assert "dot.png" in warned.message
    assert not actor.requests[1].files


async def test_a_huge_result_is_kept_by_reference_and_read_back_whole(clock: SetClock) -> None:
    @tool(effect="read")
    async def much() -> str:
        return "x" * 300_000

    actor = Actor(call("much"), finish())
    async with acting(clock, actor, tools=[much]) as app:
        run = await app.submit("agent:guide", "Go")
        assert (await ended(app, run)).reason == "goal"
        stored = [row.data for row in await app.services.store.events(run.id, 0, 100)]
        assert [data.result for data in await data_of(run, e.ToolFinished)] == ["x" * 300_000, "done"]
    assert max(map(len, stored)) < 10_000
    assert told(actor.requests[1]) == ["x" * 300_000]
