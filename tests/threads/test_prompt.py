"""What a model is given to read, and what it may cost."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from retinue import Retinue
from retinue.core import events as e
from retinue.core.messages import Data, Text
from retinue.core.outcome import Failure, Usage
from retinue.models.scripted import Reply, ScriptedModel
from retinue.ports.models import ModelRequest, ModelResponse, Retry, Takes
from retinue.ports.models import Said as Spoken
from retinue.testing import SetClock, drain
from tests.outside import data_of

from .talk import ORDERS, Heard, ends, say


async def test_data_of_others_is_shown_under_their_name(app: Retinue, ann: Heard) -> None:
    said = await say(app, {"item": "tea"}, ORDERS)
    await ends(app, await say(app, "fine?", "model:ann", thread=said))
    ordered = ann.shown[-1].messages[1]
    assert ordered.role == "user"
    assert ordered.parts == (
        Text(text="[tests.threads.talk:orders]: "),
        Data(data={"ordered": {"item": "tea"}}),
    )


async def test_how_much_a_model_was_given_is_on_record(app: Retinue) -> None:
    said = await say(app, "twelve chars", "model:ann")
    await ends(app, said)
    (started,) = await data_of(app.get(said.answers[0].run_id), e.TurnStarted)
    assert (started.messages, started.characters, started.model) == (1, 12, "ann")


async def test_over_the_window_the_oldest_middle_goes_and_it_is_said(app: Retinue, ann: Heard) -> None:
    said = await say(app, "first " + "x" * 400, "model:ann")
    for n in range(6):
        said = await say(app, f"{n} " + "x" * 400, "model:ann", thread=said)
    await drain(app)
    ann.takes = Takes(context_tokens=500)
    last = await say(app, "last", "model:ann", thread=said)
    await ends(app, last)
    lines = [line.partition(" ")[0] for _, line in ann.turns]
    assert lines == ["first", "ann", "4", "ann", "5", "ann", "last"]
    (warned,) = await data_of(app.get(last.answers[0].run_id), e.Warned)
    assert (warned.code, "8 messages of its middle" in warned.message) == ("history_cut", True)


class Priced(ScriptedModel):
    """Each word that it says costs a cent, and it may say ten."""

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Spoken, None]:
        async for said in super().ask(request):
            match said:
                case ModelResponse(usage=usage):
                    yield replace(said, usage=replace(usage, cost_usd=usage.output_tokens / 100))
                case _:
                    yield said

    def at_most(self, request: ModelRequest) -> Usage:
        return Usage(calls=1, cost_usd=0.1)


async def test_a_run_asks_only_what_its_purse_can_pay(clock: SetClock) -> None:
    models = {"priced": Priced(lambda _: Reply(pieces=["three ", "short ", "words"]), "priced")}
    async with Retinue.open("sqlite://", clock=clock, models=models, grace=0) as app:
        said = await say(app, "hello", "model:priced", max_cost_usd=0.1)
        assert (await ends(app, said)).usage.cost_usd == pytest.approx(0.03)
        run = app.get(said.answers[0].run_id)
        row = await run.row()
        assert (row.purse_limit, row.purse_spent, row.purse_held, row.reserved) == (100_000, 30_000, 0, None)
        (settled,) = await data_of(run, e.BudgetSettled)
        assert (settled.reserved_usd, settled.spent_usd) == (0.1, 0.03)
        poor = await say(app, "hello", "model:priced", max_cost_usd=0.05)
        outcome = await ends(app, poor)
        assert (outcome.status, outcome.reason, models["priced"].asked) == ("failed", "budget", 1)
        (reached,) = await data_of(app.get(poor.answers[0].run_id), e.LimitReached)
        assert reached.limit == "max_cost_usd"
        free = await say(app, "hello", "model:priced")
        await ends(app, free)
        assert await data_of(app.get(free.answers[0].run_id), e.BudgetSettled) == []


class Fickle(ScriptedModel):
    """Begins, tries again, and only then answers."""

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Spoken, None]:
        begun = super().ask(request)
        yield await anext(begun)
        yield Retry(error=Failure(kind="ModelBusy", message="later"), delay=0.5, model="other")
        async for said in begun:
            yield replace(said, parts=(Text(text="well"),)) if isinstance(said, ModelResponse) else said


async def test_a_try_that_failed_is_on_record_and_its_words_are_not_the_answers(clock: SetClock) -> None:
    models = {"fickle": Fickle(lambda _: Reply(pieces=["oh ", "well"]), "fickle")}
    async with Retinue.open("sqlite://", clock=clock, models=models, grace=0) as app:
        said = await say(app, "hello", "model:fickle")
        assert (await ends(app, said)).output == "well"
        run = app.get(said.answers[0].run_id)
        (retried,) = await data_of(run, e.ModelRetried)
        assert (retried.try_, retried.delay_ms, retried.model) == (1, 500, "other")
        (responded,) = await data_of(run, e.ModelResponded)
        assert responded.try_ == 2


class Mute(ScriptedModel):
    """Ends without saying that it is the end."""

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Spoken, None]:
        async for said in super().ask(request):
            if not isinstance(said, ModelResponse):
                yield said


async def test_an_answer_that_stops_in_the_middle_is_no_answer(clock: SetClock) -> None:
    async with Retinue.open("sqlite://", clock=clock, models={"mute": Mute()}, grace=0) as app:
        outcome = await ends(app, await say(app, "hello", "model:mute"))
    assert (outcome.status, outcome.reason, outcome.partial) == ("failed", "provider_error", "You said: hello")
