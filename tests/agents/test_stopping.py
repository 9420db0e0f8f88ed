"""Pausing and cancelling runs of agents, wherever they are."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from retinue import Retinue, Run, ToolContext, tool
from retinue.core import events as e
from retinue.core.outcome import Effect, Status, Waits
from retinue.core.routing import RoutingConfig
from retinue.core.run import RunState, fold
from retinue.engine.submit import Request
from retinue.errors import RunEnded
from retinue.settings import Settings
from retinue.testing import Reply, SetClock, call, drain
from tests.agents.acting import Actor, acting, finish, guide
from tests.outside import data_of, ended, heard, outside, types_of


@tool
async def write(what: str) -> str:
    """Write."""
    return str(await outside.act(f"wrote {what}"))


@tool
async def hang(context: ToolContext) -> str:
    """Write, until the door is open."""
    return str(await outside.wait_at_door("hung"))


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@tool
async def confirm(context: ToolContext) -> str:
    """Write, when somebody agrees."""
    return str(await outside.act(await context.ask("Sure?")))


TOOLS = [write, hang, look, confirm]


async def state_of(app: Retinue, run: Run) -> RunState:
    return fold(run.id, await app.service.events(run.id, limit=1000))


# Pause


async def test_a_pause_lets_the_call_under_way_end_and_asks_the_model_nothing_more(clock: SetClock) -> None:
    actor = Actor([call("hang"), call("write", what="it")], finish())
    async with acting(clock, actor, tools=TOOLS) as app:
        run = await app.submit("agent:guide", "Do it.")
        await outside.at_door.wait()
        await run.pause()
        await heard(app, run)
        outside.door.set()
        await drain(app)
        assert ((await run.row()).waits_for, outside.done, len(actor.requests)) == ("paused", ["hung"], 1)
        await run.resume()
        assert (await ended(app, run)).output == "done"
        assert outside.done == ["hung", "wrote it"]


async def test_a_run_that_is_paused_while_people_are_asked_waits_for_both(clock: SetClock) -> None:
    actor = Actor(call("write", what="it"), finish())
    async with acting(clock, actor, tools=TOOLS, policy=[{"tool": "write", "action": "ask"}]) as app:
        run = await app.submit("agent:guide", "Do it.")
        await drain(app)
        await run.pause()
        await drain(app)
        await app.approve((await app.tickets())[0].id)
        await drain(app)
        assert ((await run.row()).waits_for, outside.done) == ("paused", [])
        await run.resume()
        assert (await ended(app, run)).output == "done"
        assert outside.done == ["wrote it"]


async def test_a_pause_during_an_answer_keeps_the_answer(clock: SetClock) -> None:
    async def at_door(piece: int) -> None:
        await outside.wait_at_door()

    actor = Actor(Reply(pieces=["Well"], before=at_door, calls=[call("write", what="it")]), finish())
    async with acting(clock, actor, tools=TOOLS) as app:
        run = await app.submit("agent:guide", "Do it.")
        await outside.at_door.wait()
        await run.pause()
        await heard(app, run)
        outside.door.set()
        await drain(app)
        assert ((await run.row()).waits_for, len(actor.requests)) == ("paused", 1)
        await run.resume()
        assert (await ended(app, run)).output == "done"
        assert (len(actor.requests), "turn.interrupted" in await types_of(run)) == (2, False)


# Cancel


async def cancelled(app: Retinue, run: Run) -> RunState:
    """Cancel it: it ends at once and in order, and says of what it has left that nobody knows."""
    await run.cancel("enough")
    outcome = await ended(app, run)
    assert (outcome.status, outcome.error and outcome.error.message) == (Status.CANCELLED, "enough")
    state = await state_of(app, run)
    assert (await types_of(run))[-1] == "run.finished"
    assert not {"recovery.started", "limit.reached"} & {*await types_of(run)}
    assert (await app.tickets(), await run.tickets()) == ([], [])
    return state


WAITING: dict[str, Any] = {
    "approval": ([call("write", what="it")], {"policy": [{"tool": "write", "action": "ask"}]}),
    "a question": ([call("confirm")], {}),
    "two of them": ([call("confirm"), call("look")], {"policy": [{"tool": "look", "action": "ask"}]}),
}


@pytest.mark.parametrize("name", WAITING)
async def test_a_run_that_waits_for_people_can_be_cancelled(clock: SetClock, name: str) -> None:
    calls, keys = WAITING[name]
    async with acting(clock, Actor(calls, finish()), tools=TOOLS, **keys) as app:
        run = await app.submit("agent:guide", "Do it.")
        await drain(app)
        assert (await run.row()).status is Status.WAITING
        await cancelled(app, run)
        assert outside.done == []


async def test_a_run_that_waits_for_its_client_can_be_cancelled(clock: SetClock) -> None:
    theirs: tuple[dict[str, object], ...] = ({"name": "locate"},)
    async with acting(clock, Actor(call("locate")), tools=TOOLS) as app:
        run = app.get(await app.service.submit(Request(target="agent:guide", input="Find it.", client_tools=theirs)))
        await drain(app)
        assert (await run.row()).waits_for == Waits.CLIENT_TOOL
        await cancelled(app, run)


async def test_a_run_that_is_paused_can_be_cancelled(clock: SetClock) -> None:
    async with acting(clock, Actor(finish()), tools=TOOLS) as app:
        run = await app.submit("agent:guide", "Do it.", start_at=clock.now_ms() + 1000)
        await run.pause()
        await cancelled(app, run)


async def test_of_a_write_that_a_cancel_stops_nobody_knows(clock: SetClock) -> None:
    async with acting(clock, Actor([call("hang"), call("write", what="it")]), tools=TOOLS) as app:
        run = await app.submit("agent:guide", "Do it.")
        await outside.at_door.wait()
        state = await cancelled(app, run)
        assert [call.unknown for call in state.calls.values()] == [True]
        assert outside.done == ["hung"]


async def test_a_grace_turn_can_be_cancelled(clock: SetClock) -> None:
    async def at_door(piece: int) -> None:
        await outside.wait_at_door()

    actor = Actor(call("write", what="it"), Reply(pieces=["Well"], before=at_door))
    async with acting(clock, actor, tools=TOOLS, limits={"max_turns": 1}) as app:
        run = await app.submit("agent:guide", "Do it.")
        await outside.at_door.wait()
        await run.cancel()
        outcome = await ended(app, run)
        assert (outcome.status, outcome.recovered) == (Status.CANCELLED, False)
        assert [ended.ok for ended in await data_of(run, e.RecoveryFinished)] == []


async def test_the_choice_of_a_model_can_be_cancelled(clock: SetClock) -> None:
    async def at_door(piece: int) -> None:
        await outside.wait_at_door()

    models = {"chooser": Actor(Reply(data={"model": "m"}, before=at_door)), "m": Actor(finish())}
    settings = Settings(routing=RoutingConfig(model="chooser", choices={"m": "all"}))
    agents = [guide(tools=TOOLS, model="auto")]
    async with Retinue.open("sqlite://", clock=clock, grace=0, agents=agents, models=models, settings=settings) as app:
        run = await app.submit("agent:guide", "Do it.")
        await outside.at_door.wait()
        await cancelled(app, run)
        assert "model.routed" not in await types_of(run)


LINES = ([call("look"), call("write", what="one"), call("look")], [call("write", what="two"), finish()])


@pytest.mark.parametrize("seq", range(1, 19))
async def test_a_run_that_is_cancelled_at_any_event_ends_in_order(clock: SetClock, seq: int) -> None:
    async with acting(clock, Actor(*LINES), tools=TOOLS) as app:
        run = await app.submit("agent:guide", "Do it.")
        async for followed in run.follow():
            if isinstance(followed, e.Event) and followed.seq == seq:
                with suppress(RunEnded):
                    await run.cancel()
        outcome = await ended(app, run)
        state = await state_of(app, run)
        assert outcome.status in (Status.CANCELLED, Status.COMPLETED)
        writes = [call for call in state.calls.values() if call.effect is Effect.WRITE]
        known = [call.arguments["what"] for call in writes if call.ok and isinstance(call.arguments, dict)]
        assert {f"wrote {what}" for what in known} <= {*outside.done}
        assert len(outside.done) <= len(known) + sum(call.unknown for call in writes)
        assert len(outside.done) == len({*outside.done})
