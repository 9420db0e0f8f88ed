"""The model runner: one question, one answer, also when it broke off."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from retinue import Delta, Retinue
from retinue.core import events as e
from retinue.core.outcome import Usage
from retinue.errors import UnknownModel
from retinue.ports.models import ModelRequest
from retinue.testing import Reply, ScriptedModel, SetClock
from tests.outside import data_of, doomed, ended, outside, types_of


async def test_a_model_answers_and_its_usage_is_known(app: Retinue) -> None:
    run = await app.submit("model:test", "hello there")
    outcome = await ended(app, run)
    assert outcome.output == "You said: hello there"
    assert (outcome.usage.calls, outcome.usage.input_tokens, outcome.usage.estimated) == (1, 2, False)
    assert await types_of(run) == ["run.queued", "run.started", "turn.started", "model.responded", "run.finished"]


async def test_the_deltas_of_an_answer_make_its_text(app: Retinue) -> None:
    run = await app.submit("model:test", "one two three four")
    deltas = [event async for event in run.follow() if isinstance(event, Delta)]
    text = "".join(delta.text for delta in deltas)
    assert "You said: one two three four".startswith(text)
    assert [delta.offset for delta in deltas] == sorted({delta.offset for delta in deltas})


def halting(request: ModelRequest) -> Reply:
    """Stops after two pieces until the door is open."""

    async def before(n: int) -> None:
        if n == 2:
            await outside.wait_at_door()

    return Reply(pieces=["a lot ", "of words ", "and the end"], thinking="hm", before=before)


async def test_an_answer_that_a_crash_broke_off_is_asked_for_again(shared_url: str, clock: SetClock) -> None:
    models: dict[str, Any] = {"slow": ScriptedModel(halting)}
    async with doomed(shared_url, clock, models=models) as app:
        run = await app.submit("model:slow", "tell")
        await outside.at_door.wait()
        clock.advance(1)
        while not await app.services.store.open_turn(run.id):
            await asyncio.sleep(0.001)
    outside.door.set()
    async with Retinue.open(shared_url, clock=clock, models=models) as app:
        again = app.get(run.id)
        outcome = await ended(app, again)
        (interrupted,) = await data_of(again, e.TurnInterrupted)
    assert (interrupted.cause, interrupted.text, interrupted.thinking) == ("crash", "a lot of words ", "hm")
    assert outcome.output == "a lot of words and the end"
    assert (outcome.usage.calls, outcome.usage.estimated, models["slow"].asked) == (2, True, 2)


async def test_an_answer_that_is_cancelled_keeps_what_was_said(clock: SetClock) -> None:
    async with Retinue.open("sqlite://", clock=clock, models={"slow": ScriptedModel(halting)}) as app:
        run = await app.submit("model:slow", "tell")
        await outside.at_door.wait()
        await run.cancel()
        outcome = await ended(app, run)
    assert (outcome.status, outcome.output, outcome.partial) == ("cancelled", None, "a lot of words ")
    assert outcome.usage == Usage(calls=1, input_tokens=1, output_tokens=4, estimated=True)


@pytest.mark.parametrize(
    ("words", "partial", "says"), [("some ", "some ", "ConnectionError: no line"), ("odd \udc80", None, "Unicode")]
)
async def test_an_error_of_the_model_is_a_provider_error(
    clock: SetClock, words: str, partial: str | None, says: str
) -> None:
    broken = ScriptedModel(lambda request: Reply(pieces=[words], error=ConnectionError("no line")))
    async with Retinue.open("sqlite://", clock=clock, models={"broken": broken}) as app:
        outcome = await ended(app, await app.submit("model:broken", "hello"))
    assert (outcome.status, outcome.reason, outcome.partial) == ("failed", "provider_error", partial)
    assert outcome.error
    assert says in outcome.error.message


async def test_an_unknown_model_is_refused_with_near_names(clock: SetClock) -> None:
    async with Retinue.open("sqlite://", clock=clock, models={"openai:gpt-5-mini": ScriptedModel()}) as app:
        with pytest.raises(UnknownModel, match="openai:gpt-5-mini"):
            await app.submit("model:opnai:gpt-5-mini", "hello")
        assert await app.service.runs() == []


BUSY = "- error: {kind: busy, message: too many requests, retry_after: 2}\n- text: Here I am\n"


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`test:busy` takes no more requests for two seconds, once."""
    monkeypatch.setenv("RETINUE_TEST_SCRIPTS", str(tmp_path))
    (tmp_path / "busy.yaml").write_text(BUSY)


@pytest.mark.usefixtures("busy")
async def test_a_model_that_is_busy_is_asked_again_when_it_says(app: Retinue, clock: SetClock) -> None:
    run = await app.submit("model:test:busy", "hello")
    while "model.retried" not in await types_of(run):
        await asyncio.sleep(0)
    (retried,) = await data_of(run, e.ModelRetried)
    assert (retried.delay_ms, retried.error.kind, retried.model) == (2000, "ModelBusy", "test:busy")
    clock.advance(1.9)
    assert (await run.row()).status == "running"
    clock.advance(0.1)
    outcome = await ended(app, run)
    assert outcome.output == "Here I am"


@pytest.mark.usefixtures("busy")
async def test_a_model_that_is_busy_past_the_deadline_is_a_timeout(app: Retinue) -> None:
    run = await app.submit("model:test:busy", "hello", max_minutes=1 / 60)
    outcome = await ended(app, run)
    assert (outcome.status, outcome.reason) == ("timed_out", "timeout")
    assert outcome.error
    assert outcome.error.message == "test takes no more requests now: too many requests"
