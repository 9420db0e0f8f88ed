"""A run that is told which model answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retinue import Retinue
from retinue.core import events as e
from retinue.errors import NotSupported, UnknownModel
from retinue.testing import SetClock
from tests.agents.acting import Actor, acting, finish, guide
from tests.outside import data_of, ended


async def test_the_model_that_is_named_with_the_run_answers_instead_of_the_agents(clock: SetClock) -> None:
    own, other = Actor(finish("own")), Actor(finish("other"))
    async with Retinue.open("sqlite://", clock=clock, agents=[guide()], models={"m": own, "n": other}) as app:
        run = await app.submit("agent:guide", "Go", model="n")
        assert (await ended(app, run)).output == "other"
        assert (await app.run("agent:guide", "Go")).output == "own"
    assert (len(own.requests), len(other.requests)) == (1, 1)


async def test_it_needs_nothing_of_the_model_that_the_agent_names_itself(clock: SetClock) -> None:
    async with Retinue.open(
        "sqlite://", clock=clock, agents=[guide(model="nobody:x")], models={"n": Actor(finish())}
    ) as app:
        outcome = await app.run("agent:guide", "Go", model="n")
    assert outcome.output == "done"


async def test_a_retry_asks_the_same_model_again(clock: SetClock) -> None:
    actor = Actor("I think", "and think", "and think", finish())
    async with Retinue.open(
        "sqlite://", clock=clock, agents=[guide()], models={"m": Actor(finish("own")), "n": actor}
    ) as app:
        run = await app.submit("agent:guide", "Go", model="n")
        assert (await ended(app, run)).reason == "no_completion"
        again = await run.retry(fresh=True)
        assert (await ended(app, again)).output == "done"
        (queued,) = await data_of(again, e.RunQueued)
    assert queued.model == "n"


async def test_only_a_worker_that_has_the_model_takes_the_run(clock: SetClock, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    models = {"m": Actor(finish("own")), "n": Actor(finish("other"))}
    async with Retinue.open(url, clock=clock, worker=False, agents=[guide()], models=models) as app:
        run = await app.submit("agent:guide", "Go", model="n")
    async with Retinue.open(url, clock=clock, agents=[guide()], models={"m": models["m"]}) as app:
        row = await app.get(run.id).row()
        while not app.worker.cannot_load(row.requires):
            await asyncio.sleep(0)
        assert (await app.get(run.id).row()).status == "queued"
    async with Retinue.open(url, clock=clock, agents=[guide()], models=models) as app:
        assert (await ended(app, app.get(run.id))).output == "other"


async def test_a_model_that_nobody_knows_is_refused_and_nothing_is_stored(clock: SetClock) -> None:
    async with acting(clock, Actor(finish())) as app:
        for name in ("tset", ""):
            with pytest.raises(UnknownModel):
                await app.submit("agent:guide", "Go", model=name)
        assert await app.service.runs() == []


@pytest.mark.parametrize("target", ["model:m", "function:tests.outside:ended"])
async def test_what_asks_no_model_of_its_own_cannot_be_told_which(clock: SetClock, target: str) -> None:
    async with acting(clock, Actor(finish())) as app:
        with pytest.raises(NotSupported, match="cannot be told which model answers"):
            await app.submit(target, "Go", model="m")
        assert await app.service.runs() == []
