"""`cache`: who asks the same again within the time gets the same answer, and can see whose it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from retinue import Retinue, Run, tool
from retinue.core import events as e
from retinue.testing import SetClock, call
from tests.agents.acting import Actor, acting, finish, guide
from tests.agents.pace import Paced
from tests.outside import data_of, ended, heard, outside, pass_time, types_of


@tool(effect="read")
async def wait() -> str:
    """Waits at the door."""
    return str(await outside.wait_at_door())


def counting() -> Actor:
    """A model that never answers the same."""
    return Actor(*[finish(f"answer {n}") for n in range(1, 10)])


@pytest.fixture
async def cached(database_url: str, clock: SetClock) -> AsyncIterator[Retinue]:
    async with acting(clock, counting(), database_url, cache=60) as app:
        yield app


async def answer(app: Retinue, input: Any = "where?", **options: Any) -> object:
    return (await ended(app, await app.submit("agent:guide", input, **options))).output


async def test_the_same_question_has_the_same_answer_for_a_while(cached: Retinue, clock: SetClock) -> None:
    assert await answer(cached) == "answer 1"
    await pass_time(cached, clock, 60)
    assert await answer(cached) == "answer 1"
    await pass_time(cached, clock, 0.001)
    assert await answer(cached) == "answer 2"


async def test_the_run_says_whose_answer_it_gave_and_did_nothing_else(cached: Retinue) -> None:
    first = await cached.submit("agent:guide", "where?")
    await ended(cached, first)
    again = await cached.submit("agent:guide", "where?")
    outcome = await ended(cached, again)
    assert (outcome.status, outcome.reason, outcome.answer_of) == ("completed", "goal", first.id)
    assert outcome.usage.calls == 0
    assert await types_of(again) == ["run.queued", "run.started", "run.finished"]


async def test_an_answer_does_not_become_younger_by_being_given_again(cached: Retinue, clock: SetClock) -> None:
    for seconds, expected in ((0, 1), (40, 1), (40, 2)):
        await pass_time(cached, clock, seconds)
        assert await answer(cached) == f"answer {expected}"


async def test_another_question_or_another_owner_has_another_answer(cached: Retinue) -> None:
    assert await answer(cached) == "answer 1"
    assert await answer(cached, "when?") == "answer 2"
    assert await answer(cached, owner="ann") == "answer 3"
    assert await answer(cached, owner="ann") == "answer 3"


async def test_what_was_said_before_belongs_to_the_question(cached: Retinue) -> None:
    first = await cached.submit("agent:guide", "where?")
    await ended(cached, first)
    assert await answer(cached, thread=(await first.row()).thread_id) == "answer 2"


async def test_a_retry_is_answered_anew(cached: Retinue) -> None:
    run = await cached.submit("agent:guide", "where?")
    await ended(cached, run)
    assert (await ended(cached, await run.retry(fresh=True))).output == "answer 2"


async def test_agents_that_differ_in_a_word_share_no_answer(shared_url: str, clock: SetClock) -> None:
    model, given = counting(), []
    for instructions in ("You guide.", "You guide well.", "You guide."):
        async with acting(clock, model, shared_url, cache=60, instructions=instructions) as app:
            given.append(await answer(app))
    assert given == ["answer 1", "answer 2", "answer 1"]


async def test_another_model_has_another_answer(clock: SetClock) -> None:
    models = {"m": Actor(finish("own")), "n": Actor(finish("other"))}
    async with Retinue.open("sqlite://", clock=clock, agents=[guide(cache=60)], models=models) as app:
        assert [await answer(app), await answer(app, model="n"), await answer(app)] == ["own", "other", "own"]


async def test_by_default_everything_is_asked_anew(clock: SetClock) -> None:
    async with acting(clock, counting()) as app:
        assert [await answer(app), await answer(app)] == ["answer 1", "answer 2"]


async def test_what_a_limit_came_to_is_not_given_again(clock: SetClock) -> None:
    model = Actor("let me think", "more", finish("late"), finish("anew"))
    async with acting(clock, model, cache=60) as app:
        assert [await answer(app), await answer(app)] == ["late", "anew"]


async def test_what_a_person_steered_to_is_not_given_again(clock: SetClock) -> None:
    model = Paced(clock, call("wait"), finish("left"), finish("anew"))
    async with acting(clock, model, tools=[wait], cache=60) as app:
        run: Run = await app.submit("agent:guide", "where?")
        await outside.at_door.wait()
        await run.steer("go left")
        await heard(app, run)
        outside.door.set()
        assert (await ended(app, run)).output == "left"
        assert await answer(app) == "anew"
        (finished,) = await data_of(run, e.RunFinished)
        assert finished.answer_key is None
