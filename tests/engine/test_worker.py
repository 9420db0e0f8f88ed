"""Workers: who claims what, and what becomes of what they leave."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.core.outcome import Durability, Outcome
from retinue.core.target import Target
from retinue.engine.attempt import Attempt
from retinue.engine.context import RunContext
from retinue.engine.description import Capabilities, Description
from retinue.engine.gate import Gate
from retinue.testing import SetClock, drain
from tests.outside import doomed, ended, outside, pass_time, seconds, types_of


async def say(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.step("say", outside.act, input)


async def hold(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.step("hold", outside.wait_at_door, input, effect="read")


async def two_steps(ctx: FunctionContext, input: Any) -> str:
    await ctx.step("first", outside.wait_at_door, "first")
    await ctx.step("second", outside.act, "second")
    return "done"


async def test_runs_are_claimed_by_priority_then_age(file_url: str, clock: SetClock) -> None:
    async with Retinue.open(file_url, clock=clock, worker=False) as app:
        for n, priority in enumerate([0, 5, 0, 9]):
            await app.submit(say, n, priority=priority)
            clock.advance(1)
    async with Retinue.open(file_url, clock=clock, concurrency=1) as app:
        await drain(app)
    assert outside.done == [3, 1, 0, 2]


async def test_a_run_that_is_to_begin_in_less_than_a_second_begins_when_it_is_due(
    app: Retinue, clock: SetClock
) -> None:
    run = await app.submit(say, "now", start_at=clock.now_ms() + 300)
    await drain(app)
    assert (await run.row()).attempt == 0
    clock.advance(0.3)
    assert (await run.outcome()).output == "now"


async def test_a_run_starts_when_it_is_due(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(say, "now", start_at=clock.now_ms() + seconds(60))
    await pass_time(app, clock, 59)
    assert (await run.row()).status == "queued"
    await pass_time(app, clock, 1)
    assert (await ended(app, run)).output == "now"


async def test_no_more_runs_at_once_than_there_are_slots(clock: SetClock) -> None:
    async with Retinue.open("sqlite://", clock=clock, concurrency=3) as app:
        runs = [await app.submit(hold, n) for n in range(8)]
        while len(outside.done) < 3:
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(outside.done) == 3
        outside.door.set()
        assert [(await ended(app, run)).output for run in runs] == list(range(8))


async def test_no_more_runs_of_one_owner_at_once_than_are_allowed(clock: SetClock) -> None:
    async with Retinue.open("sqlite://", clock=clock, owner_limit=5) as app:
        runs = [await app.submit(hold, n, owner="ada") for n in range(6)]
        runs.append(await app.submit(hold, "other", owner="bob"))
        while len(outside.done) < 6:
            await asyncio.sleep(0)
        assert [(await run.row()).status.value for run in runs] == ["running"] * 5 + ["queued", "running"]
        outside.door.set()
        assert (await ended(app, runs[5])).output == 5


async def test_a_run_that_crashes_its_worker_four_times_is_lost_and_can_be_retried(
    file_url: str, clock: SetClock
) -> None:
    run_id = ""
    for _ in range(4):
        outside.at_door.clear()
        async with doomed(file_url, clock) as app:
            run_id = run_id or (await app.submit(hold)).id
            await outside.at_door.wait()
    outside.door.set()
    async with Retinue.open(file_url, clock=clock) as app:
        outcome = await ended(app, app.get(run_id))
        assert (outcome.status, outcome.reason) == ("failed", "lost")
        assert (await ended(app, await app.get(run_id).retry())).status == "completed"


class Elsewhere:
    """A platform that gives no checkpoints, and that not every worker has."""

    platform = "graph"
    capabilities = Capabilities(durability=Durability.RESTART)

    def describe(self, target: Target) -> Description:
        return Description(definition={"name": target.name}, requires={"platform": "graph", "name": target.name})

    def can_load(self, requires: Any) -> bool:
        if requires["name"] == "odd":
            raise RuntimeError("cannot even look")
        return True

    async def run(self, ctx: RunContext) -> Outcome:
        return Outcome.completed("from elsewhere")

    async def cancel(self, ctx: RunContext) -> None:
        pass


async def test_a_worker_leaves_what_it_cannot_load_to_another(file_url: str, clock: SetClock) -> None:
    async with Retinue.open(file_url, clock=clock, runners=[Elsewhere()], worker=False) as app:
        run = await app.submit("graph:far")
    async with Retinue.open(file_url, clock=clock) as app:
        assert (await (await app.submit(say, "mine")).outcome()).output == "mine"
        assert (await app.get(run.id).row()).status == "queued"
        async with Retinue.open(file_url, clock=clock, runners=[Elsewhere()]) as other:
            assert (await other.get(run.id).outcome()).output == "from elsewhere"


async def test_a_runner_that_breaks_when_it_is_asked_does_not_stop_the_worker(file_url: str, clock: SetClock) -> None:
    async with Retinue.open(file_url, clock=clock, runners=[Elsewhere()], worker=False) as app:
        run = await app.submit("graph:odd")
    async with Retinue.open(file_url, clock=clock, runners=[Elsewhere()]) as app:
        assert (await (await app.submit(say, "next")).outcome()).output == "next"
        assert (await app.get(run.id).row()).status == "queued"


async def test_a_graceful_stop_lets_a_run_go_at_its_next_safe_point(file_url: str, clock: SetClock) -> None:
    async with Retinue.open(file_url, clock=clock) as app:
        run = await app.submit(two_steps)
        await outside.at_door.wait()
        stopping = asyncio.create_task(app.worker.stop())
        while not app.worker.attempts[run.id]._context.held:
            await asyncio.sleep(0)
        outside.door.set()
        await stopping
        row = await run.row()
        assert (row.status, row.crashes) == ("queued", 0)
    async with Retinue.open(file_url, clock=clock) as app:
        assert (await ended(app, app.get(run.id))).output == "done"
        assert "run.resumed" in await types_of(app.get(run.id))
    assert outside.done == ["first", "second"]


async def test_a_stop_waits_no_longer_than_its_grace_and_counts_no_crash(file_url: str, clock: SetClock) -> None:
    async with Retinue.open(file_url, clock=clock, grace=0.01) as app:
        run = await app.submit(hold, "x")
        await outside.at_door.wait()
    outside.door.set()
    async with Retinue.open(file_url, clock=clock) as app:
        assert (await app.get(run.id).row()).crashes == 0
        assert (await ended(app, app.get(run.id))).output == "x"


async def test_a_worker_that_lost_its_lease_drops_the_run_and_writes_nothing_more(
    file_url: str, clock: SetClock
) -> None:
    """The first worker has a clock of its own, which stands."""
    async with Retinue.open(file_url, clock=SetClock()) as first:
        run = await first.submit(two_steps)
        await outside.at_door.wait()
        clock.advance(3600)
        async with Retinue.open(file_url, clock=clock) as second:
            while (await run.row()).attempt < 2:
                await asyncio.sleep(0.001)
            outside.door.set()
            assert (await second.get(run.id).outcome()).status == "failed"
            events = await second.service.events(run.id)
        while first.worker.attempts:
            await asyncio.sleep(0.001)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.attempt for event in events[-2:]} == {2}
    assert outside.done == ["first"]


async def test_a_clock_that_jumps_back_does_not_stop_a_worker(app: Retinue, clock: SetClock) -> None:
    clock.advance(-3600)
    run = await app.submit(say, "back then")
    assert (await ended(app, run)).output == "back then"


async def test_two_apps_on_one_file_share_the_work_and_do_each_step_once(file_url: str, clock: SetClock) -> None:
    async with (
        Retinue.open(file_url, clock=clock, concurrency=4) as first,
        Retinue.open(file_url, clock=clock, concurrency=4) as second,
    ):
        runs = [await (first, second)[n % 2].submit(say, n) for n in range(50)]
        outputs = [(await run.outcome()).output for run in runs]
    assert outputs == list(range(50))
    assert sorted(outside.done) == list(range(50))


async def stumble(ctx: FunctionContext, input: Any) -> None:
    raise ValueError(input)


async def ask(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.wait("name")


@pytest.mark.parametrize("function", [say, stumble, ask])
async def test_what_a_run_needed_is_freed_when_it_rests_without_a_collection(app: Retinue, function: Any) -> None:
    await drain(app)
    gc.collect()
    gc.disable()
    before = [one for one in gc.get_objects() if type(one) in (Attempt, RunContext, Gate)]  # what other tests left
    try:
        await app.submit(function, "once")
        await drain(app)
        after = [one for one in gc.get_objects() if type(one) in (Attempt, RunContext, Gate)]
        assert not [one for one in after if not any(one is other for other in before)]
    finally:
        gc.enable()
