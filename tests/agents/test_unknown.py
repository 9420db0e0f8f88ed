"""A tool that a crash interrupted: what is done about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from retinue import Retinue, Run
from retinue.core import events as e
from retinue.core.outcome import Reason, Status
from retinue.errors import BadInput
from retinue.testing import SetClock, call, drain
from tests.agents.acting import Actor, finish, told
from tests.agents.interrupting import interrupted, keys_of
from tests.outside import data_of, doomed, ended, outside


@asynccontextmanager
async def revived(url: str, clock: SetClock, actor: Actor, **keys: Any) -> AsyncIterator[tuple[Retinue, Run]]:
    """After the crash, another process."""
    run_id = await interrupted(url, clock, actor, **keys)
    async with Retinue.open(url, clock=clock, grace=0, **keys_of(actor, **keys)) as app:
        await drain(app)
        yield app, app.get(run_id)


async def finished_calls(run: Run, tool: str) -> list[e.ToolFinished]:
    ids = {started.call_id for started in await data_of(run, e.ToolStarted) if started.tool == tool}
    return [finished for finished in await data_of(run, e.ToolFinished) if finished.call_id in ids]


async def test_L43_tell_says_to_the_model_that_nobody_knows(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("pay"), finish())
    async with revived(file_url, clock, actor) as (app, run):
        assert (await ended(app, run)).output == "done"
        (result,) = told(actor.requests[-1])
        assert "nobody can tell whether it took effect" in str(result)
        assert [finished.unknown for finished in await finished_calls(run, "pay")] == [True]
        assert len(outside.done) == 1


async def test_L43_retry_calls_it_again_with_the_same_key(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("pay"), finish())
    async with revived(file_url, clock, actor, on_unknown="retry") as (app, run):
        await ended(app, run)
        first, second = outside.done
        assert first == second
        assert told(actor.requests[-1]) == [f"paid {first}"]
        assert [started.try_ for started in await data_of(run, e.ToolStarted)][:2] == [1, 2]


async def test_L43_fail_ends_the_run_and_says_why(file_url: str, clock: SetClock) -> None:
    actor = Actor([call("pay"), call("look"), finish()])
    async with revived(file_url, clock, actor, on_unknown="fail") as (app, run):
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.TOOL_ERROR)
        assert outcome.error
        assert "pay was interrupted, and nobody can tell" in outcome.error.message
        assert (len(outside.done), len(actor.requests)) == (1, 1), "it is not repeated, and nothing follows"
        assert [finished.unknown for finished in await data_of(run, e.ToolFinished)] == [True]


@pytest.mark.parametrize(("decision", "times"), [("approve", 2), ("deny", 1)])
async def test_L43_ask_lets_a_person_decide(file_url: str, clock: SetClock, decision: str, times: int) -> None:
    actor = Actor(call("pay", euros=7), finish())
    async with revived(file_url, clock, actor, on_unknown="ask") as (app, run):
        (ticket,) = await app.tickets()
        assert ticket.title == "pay was interrupted, and nobody knows whether it took effect. Call it again?"
        await getattr(app, decision)(ticket.id, message="I have looked.")
        assert (await ended(app, run)).output == "done"
        assert (len(outside.done), len({*outside.done})) == (times, 1)
        (result,) = told(actor.requests[-1])
        assert ("A person says: I have looked." in str(result)) is (decision == "deny")


async def test_L43_a_person_may_have_it_called_again_in_another_way(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("pay", euros=7), finish())
    async with revived(file_url, clock, actor, on_unknown="ask") as (app, run):
        (ticket,) = await app.tickets()
        with pytest.raises(BadInput, match="fit its schema"):
            await app.approve(ticket.id, arguments={"euros": "many"})
        await app.approve(ticket.id, arguments={"euros": 3})
        await ended(app, run)
        first, again, _ = await data_of(run, e.ToolStarted)
        assert (first.arguments, again.arguments) == ({"euros": 7}, {"euros": 3})


async def test_L43_ask_asks_again_after_another_crash(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("pay"), finish())
    run_id = await interrupted(file_url, clock, actor, on_unknown="ask")
    outside.door.clear()
    outside.at_door.clear()
    async with doomed(file_url, clock, **keys_of(actor, on_unknown="ask")) as app:
        await drain(app)
        await app.approve((await app.tickets())[0].id)
        await outside.at_door.wait()
    async with Retinue.open(file_url, clock=clock, grace=0, **keys_of(actor, on_unknown="ask")) as app:
        await drain(app)
        await app.deny((await app.tickets())[0].id)
        assert (await ended(app, app.get(run_id))).output == "done"
    assert len(outside.done) == 2


async def test_L43_a_read_is_repeated_with_the_same_key(file_url: str, clock: SetClock) -> None:
    actor = Actor(call("look"), finish())
    async with revived(file_url, clock, actor, on_unknown="fail") as (app, run):
        await ended(app, run)
        first, second = outside.done
        assert first == second
        assert told(actor.requests[-1]) == [f"saw {first}"]


@pytest.mark.parametrize(("took_effect", "says"), [(True, "checked"), (False, "sent")])
async def test_L46_the_check_decides_what_a_crash_left(
    file_url: str, clock: SetClock, took_effect: bool, says: str
) -> None:
    actor = Actor(call("send"), finish())
    run_id = await interrupted(file_url, clock, actor, on_unknown="ask")
    (key,) = outside.done
    outside.done = [f"effect {key}"] if took_effect else []
    async with Retinue.open(file_url, clock=clock, grace=0, **keys_of(actor, on_unknown="ask")) as app:
        assert (await ended(app, app.get(run_id))).output == "done"
        assert told(actor.requests[-1]) == [f"{says} {key}"]
        assert await app.tickets() == []
        (finished,) = await finished_calls(app.get(run_id), "send")
        assert finished.checked is took_effect
    assert len(outside.done) == 1, "it took effect exactly once"


@pytest.mark.parametrize(("on_unknown", "status"), [("tell", "completed"), ("fail", "failed")])
async def test_a_check_that_fails_leaves_it_to_on_unknown(
    file_url: str, clock: SetClock, on_unknown: str, status: str
) -> None:
    actor = Actor(call("ship"), finish())
    async with revived(file_url, clock, actor, on_unknown=on_unknown) as (app, run):
        assert (await ended(app, run)).status == status
        (warned,) = await data_of(run, e.Warned)
        assert warned.code == "check"
        assert "its check failed: nobody is there" in warned.message
