"""The definition of an agent, or the code of its tools, changes under a run that waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from retinue import Retinue, Run, tool
from retinue.core import events as e
from retinue.core.outcome import Reason, Status
from retinue.testing import SetClock, call, drain
from tests.agents.acting import Actor, finish, guide, told
from tests.outside import data_of, doomed, ended, outside

ASK = [{"tool": "do", "action": "ask"}]


def do(version: str) -> object:
    """The tool `do` of a release."""

    @tool(name="do", version=version)
    async def act(what: str) -> str:
        """Do."""
        return str(await outside.act(f"{version} did {what}"))

    return act


def opening(actor: Actor, version: str = "1", **keys: Any) -> dict[str, Any]:
    return {"agents": [guide(**{"tools": [do(version)], "policy": ASK, **keys})], "models": {"m": actor}}


async def parked(url: str, clock: SetClock, **options: Any) -> str:
    """A run that waits for a person, whose process is gone."""
    async with Retinue.open(url, clock=clock, grace=0, **options) as app:
        run = await app.submit("agent:guide", "Do it.")
        await drain(app)
        return run.id


@asynccontextmanager
async def released(url: str, clock: SetClock, run_id: str, **options: Any) -> AsyncIterator[tuple[Retinue, Run]]:
    """The next release, in which somebody approves what the run waits for."""
    async with Retinue.open(url, clock=clock, grace=0, **options) as app:
        for ticket in await app.tickets():
            await app.approve(ticket.id)
        yield app, app.get(run_id)


async def test_a_run_keeps_the_definition_that_it_began_with(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("do", what="it"), finish())
    run_id = await parked(file_url, clock, **opening(actor, instructions="The first."))
    async with released(file_url, clock, run_id, **opening(actor, instructions="The second.")) as (app, run):
        assert (await ended(app, run)).output == "done"
        assert "The first." in str(actor.requests[-1].instructions)


async def test_when_the_code_of_a_tool_changed_the_run_fails_and_says_so(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("do", what="it"), finish())
    run_id = await parked(file_url, clock, **opening(actor))
    async with released(file_url, clock, run_id, **opening(actor, "2")) as (app, run):
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.INVALID)
        assert "the code of agent:guide changed while the run was under way" in str(outcome.error)
        assert (await ended(app, await run.retry())).output == "done"
        assert outside.done == ["2 did it"]


async def test_a_run_may_finish_with_the_new_code(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("do", what="it"), finish())
    run_id = await parked(file_url, clock, **opening(actor, on_change="finish"))
    async with released(file_url, clock, run_id, **opening(actor, "2", on_change="finish")) as (app, run):
        assert (await ended(app, run)).output == "done"
        assert outside.done == ["2 did it"]
        assert [warned.code for warned in await data_of(run, e.Warned)] == ["code_changed"]


async def test_a_run_may_wait_for_a_worker_with_the_old_code(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("do", what="it"), finish())
    run_id = await parked(file_url, clock, **opening(actor, on_change="wait"))
    for on_change in ("wait", "fail"):
        async with released(file_url, clock, run_id, **opening(actor, "2", on_change=on_change)) as (app, run):
            await app.worker.learn()
            assert await app.worker.claim() == []
            assert (await run.row()).status is Status.QUEUED
    async with released(file_url, clock, run_id, **opening(actor, on_change="wait")) as (app, run):
        assert (await ended(app, run)).output == "done"
        assert outside.done == ["1 did it"]


async def test_waiting_for_the_old_code_is_not_waiting_for_the_old_words(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("do", what="it"), finish())
    run_id = await parked(file_url, clock, **opening(actor, on_change="wait"))
    changed = opening(actor, on_change="wait", instructions="New.")
    async with released(file_url, clock, run_id, **changed) as (app, run):
        assert (await ended(app, run)).output == "done"
        assert "You guide." in str(actor.requests[-1].instructions)


@tool(version="1")
async def hang() -> str:
    """Do, until the door is open."""
    return str(await outside.wait_at_door("hung"))


@pytest.mark.parametrize("tool_is", ["gone", "forbidden"])
async def test_a_call_under_way_that_cannot_be_made_any_more_has_a_result(
    file_url: str, clock: SetClock, tool_is: str
) -> None:
    actor = Actor(call("hang"), finish())
    before: dict[str, Any] = {
        "tools": [hang, do("1")],
        "policy": [{"tool": "hang", "action": "ask"}],
        "on_change": "finish",
    }
    async with doomed(file_url, clock, **opening(actor, **before)) as app:
        run_id = (await app.submit("agent:guide", "Do it.")).id
        await drain_tickets(app)
        await outside.at_door.wait()
    tools = [do("2")] if tool_is == "gone" else [hang, do("2")]
    rules = [{"tool": "hang", "action": "deny"}]
    after = opening(actor, tools=tools, policy=rules, on_change="finish")
    async with Retinue.open(file_url, clock=clock, grace=0, **after) as app:
        assert (await ended(app, app.get(run_id))).output == "done"
        assert "nobody can tell whether it took effect" in str(told(actor.requests[-1]))
        assert outside.done == ["hung"]


async def drain_tickets(app: Retinue) -> None:
    await drain(app)
    for ticket in await app.tickets():
        await app.approve(ticket.id)
