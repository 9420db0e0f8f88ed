"""Which model answers an agent, and what happens when it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from retinue import Retinue, tool
from retinue.core import events as e
from retinue.core.routing import RoutingConfig
from retinue.errors import ModelBroken, ModelBusy, ModelRefused, ModelUnavailable
from retinue.settings import Settings
from retinue.testing import Reply, ScriptedModel, SetClock, call
from tests.agents.acting import Actor, acting, finish, guide
from tests.agents.pace import NEVER, Paced, pass_slowly, said_to, until
from tests.outside import data_of, doomed, ended, outside, types_of

CHOICES = RoutingConfig(model="router", choices={"small": "easy tasks", "large": "hard tasks"})
BROKEN = ModelBroken(model="m", problem="it broke off")


@tool(effect="read")
async def look(what: str = "") -> str:
    """Looks."""
    return str(await outside.act(f"saw {what}"))


def parts(clock: SetClock, router: ScriptedModel, answering: ScriptedModel, **keys: Any) -> dict[str, Any]:
    settings = Settings(model="small", routing=CHOICES, **keys)
    models = {"router": router, "small": Actor(finish("small")), "large": answering}
    return {"settings": settings, "models": models, "agents": [guide(model="auto", tools=[look])], "clock": clock}


@asynccontextmanager
async def routed(clock: SetClock, router: ScriptedModel, answering: ScriptedModel) -> AsyncIterator[Retinue]:
    async with Retinue.open("sqlite://", grace=0, **parts(clock, router, answering)) as app:
        yield app


def choosing(model: str) -> Reply:
    return Reply(data={"model": model, "why": "it is hard"})


async def test_L29_the_router_is_asked_once_and_its_choice_holds(clock: SetClock) -> None:
    router, large = Actor(choosing("large")), Actor(call("look"), finish("large"))
    async with routed(clock, router, large) as app:
        run = await app.submit("agent:guide", "prove it")
        assert (await ended(app, run)).output == "large"
        assert (router.asked, large.asked) == (1, 2)
        (chosen,) = await data_of(run, e.ModelRouted)
        assert (chosen.model, chosen.why, chosen.usage.calls) == ("large", "it is hard", 1)
        assert "- large: hard tasks" in said_to(router.requests[0])[0]
        assert "prove it" in said_to(router.requests[0])[0]


async def test_L29_a_choice_outlives_a_crash(file_url: str, clock: SetClock) -> None:
    router, large = Actor(choosing("large")), Paced(clock, NEVER, finish("large"))
    async with doomed(file_url, **parts(clock, router, large)) as app:
        run = await app.submit("agent:guide", "prove it")
        await until(lambda: large.asked == 1)
    async with Retinue.open(file_url, **parts(clock, router, large)) as app:
        assert (await ended(app, app.get(run.id))).output == "large"
        assert router.asked == 1


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (Reply(error=ModelUnavailable(model="router", problem="it is down")), "it is down"),
        (choosing("huge"), "'huge', which is none of small, large"),
        (Reply(pieces=["the large one"]), "what it said is no choice"),
        (Reply(data={"why": "?"}), "what it said is no choice"),
    ],
)
async def test_L29_a_router_that_fails_means_the_default_and_a_warning(
    clock: SetClock, said: Reply, problem: str
) -> None:
    async with routed(clock, Actor(said), Actor(finish("large"))) as app:
        run = await app.submit("agent:guide", "prove it")
        assert (await ended(app, run)).output == "small"
        (warning,) = await data_of(run, e.Warned)
        assert warning.code == "routing"
        assert warning.message.startswith("No model could be chosen, so small answers: ")
        assert problem in warning.message


async def test_L29_a_choice_that_nobody_can_ask_means_the_default(clock: SetClock) -> None:
    known = parts(clock, Actor(choosing("large")), Actor())
    del known["models"]["large"]
    async with Retinue.open("sqlite://", grace=0, **known) as app:
        run = await app.submit("agent:guide", "prove it")
        assert (await ended(app, run)).output == "small"
        assert "large" in (await data_of(run, e.Warned))[0].message


async def test_a_router_that_never_answers_takes_no_more_than_the_time_of_a_turn(clock: SetClock) -> None:
    router = Paced(clock, NEVER)
    async with routed(clock, router, Actor()) as app:
        run = await app.submit("agent:guide", "prove it")
        await until(lambda: router.asked == 1)
        await pass_slowly(clock, 120)
        assert (await ended(app, run)).output == "small"
        assert "there was no answer within 120 s" in (await data_of(run, e.Warned))[0].message


async def test_L35_a_call_of_a_try_that_broke_is_not_made(clock: SetClock) -> None:
    half = Reply(pieces=["Let me "], calls=[call("look", what="wrong")], error=BROKEN)
    model = Paced(clock, half, call("look", what="right"), finish())
    async with acting(clock, model, tools=[look], retry=None) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: model.asked == 1)
        await pass_slowly(clock, 1)
        assert (await ended(app, run)).reason == "goal"
        assert outside.done == ["saw right"]
        (first, _) = await data_of(run, e.ModelResponded)
        assert first.try_ == 2
        assert [said.try_ for said in await data_of(run, e.ModelRetried)] == [1]


async def test_L36_a_busy_provider_is_asked_again_when_it_says(clock: SetClock) -> None:
    busy = Reply(error=ModelBusy(model="m", problem="too many requests", retry_after=2.0))
    model = Paced(clock, busy, finish())
    async with acting(clock, model, retry=None) as app:
        run = await app.submit("agent:guide", "go")
        await until(lambda: model.asked == 1)
        await pass_slowly(clock, 1.999)
        assert model.asked == 1
        clock.advance(0.001)
        outcome = await ended(app, run)
        assert (outcome.reason, outcome.usage.calls) == ("goal", 1)
        (retried,) = await data_of(run, e.ModelRetried)
        assert (retried.delay_ms, retried.error.kind) == (2000, "ModelBusy")


async def test_L36_past_the_deadline_it_is_a_timeout(clock: SetClock) -> None:
    busy = Reply(error=ModelBusy(model="m", problem="too many requests", retry_after=40.0))
    model = Paced(clock, busy)
    async with acting(clock, model, retry=None, limits={"max_minutes": 0.5, "grace_seconds": 20}) as app:
        run = await app.submit("agent:guide", "go")
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason, outcome.usage.calls) == ("timed_out", "timeout", 0)
        assert model.asked == 2  # the second time in the grace turn
        assert "too many requests" in (await data_of(run, e.LimitReached))[0].limit


async def test_L37_a_request_that_is_refused_ends_the_run(clock: SetClock) -> None:
    refused = Reply(error=ModelRefused(model="m", problem="'messages' is too long (400)"))
    thinking = Reply(pieces=["I will look."], calls=[call("look")])
    model = Paced(clock, thinking, refused)
    async with acting(clock, model, tools=[look], retry=None) as app:
        run = await app.submit("agent:guide", "one two three")
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason, outcome.partial) == ("failed", "provider_error", "I will look.")
        assert outcome.error
        assert "'messages' is too long (400)" in outcome.error.message
        assert (outcome.usage.calls, outcome.usage.input_tokens, outcome.usage.estimated) == (1, 3, False)
        assert model.asked == 2
        assert "recovery.started" not in await types_of(run)


async def test_the_last_model_that_failed_is_a_provider_error_with_all_that_was_tried(clock: SetClock) -> None:
    model = Paced(clock, Reply(pieces=["Let me "], error=BROKEN))
    async with acting(clock, model, retry={"tries": 2}) as app:
        run = await app.submit("agent:guide", "one two three")
        await until(lambda: model.asked == 1)
        await pass_slowly(clock, 1)
        outcome = await ended(app, run)
        assert (outcome.reason, outcome.partial) == ("provider_error", "Let me ")
        assert (outcome.usage.calls, outcome.usage.estimated) == (2, True)  # both said something


async def test_another_model_is_asked_where_one_fails(clock: SetClock) -> None:
    down, other = Actor(Reply(error=ModelUnavailable(model="m", problem="it is down"))), Actor(finish("other"))
    agents = [guide(fallback_models=["other"], retry={"tries": 1})]
    async with Retinue.open("sqlite://", clock=clock, agents=agents, models={"m": down, "other": other}) as app:
        run = await app.submit("agent:guide", "go")
        assert (await ended(app, run)).output == "other"
        assert (down.asked, other.asked) == (1, 1)
