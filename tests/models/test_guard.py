"""What stands around every call: places, breaker, tries and other models, in this order, on the set clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest

from retinue.core.messages import Text, Thinking
from retinue.core.outcome import Failure, Usage
from retinue.errors import (
    CircuitOpen,
    KeyMissing,
    ModelBroken,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from retinue.models.breaker import Breaker
from retinue.models.config import BreakerConfig, RetryConfig
from retinue.models.guard import Guard, Seller
from retinue.models.lane import Lane
from retinue.models.prices import Prices
from retinue.models.takes import Row
from retinue.ports.models import Model, ModelRequest, ModelResponse, ModelSettings, Piece, Retry, Said, Takes
from retinue.testing import Reply, ScriptedModel, SetClock
from tests.models.wire.conftest import asks

YES = Reply(pieces=["yes"])
DOWN = ModelUnavailable(model="acme:any", problem="it is down")
BUSY = ModelBusy(model="acme:any", problem="too many", retry_after=2.0)
REFUSED = ModelRefused(model="acme:any", problem="too long")


def failing(error: Exception, *pieces: str) -> Reply:
    return Reply(pieces=pieces, error=error)


def guarded(clock: SetClock, *replies: Reply, model: Model | None = None, **more: Any) -> Guard:
    """A guard around a model that gives these replies, the last one again and again."""
    left = list(replies)
    name = more.pop("name", "acme:any")
    model = model or ScriptedModel(lambda request: left.pop(0) if len(left) > 1 else left[0], name)
    parts: dict[str, Any] = {
        "provider": "acme",
        "clock": clock,
        "lane": Lane(clock),
        "breaker": Breaker(name, BreakerConfig(failures=100), clock.now_ms),
        "retry": RetryConfig(tries=3, first_delay=1, longest_delay=30),
        "prices": Prices(),
        "seller": Seller(None, name),
        "chance": lambda: 1.0,
    }
    return Guard(model, **{**parts, **more})


class Answering:
    """A model that answers as a function does."""

    def __init__(self, answer: Callable[[ModelRequest], AsyncGenerator[Said, None]]) -> None:
        self.name, self.takes, self.ask = "acme:any", Takes(), answer

    def at_most(self, request: ModelRequest) -> Usage:
        return Usage(calls=1)


async def heard(model: Model, request: ModelRequest | None = None) -> list[Said]:
    return [said async for said in model.ask(request or asks("hello"))]


async def played(clock: SetClock, asking: asyncio.Task[Any], seconds: float = 1000) -> list[float]:
    """Let time pass until all is said; the times at which something was waited for."""
    times = []
    start = clock.now_ms()
    while not asking.done():
        for _ in range(10):
            await asyncio.sleep(0)
        if asking.done() or clock.now_ms() - start > seconds * 1000:
            break
        clock.advance(0.5)
        times.append((clock.now_ms() - start) / 1000)
    return times


def text(said: Sequence[Said]) -> str:
    """What a reader has in the end who drops what is taken back."""
    words = ""
    for one in said:
        words = "" if isinstance(one, Retry) else words + one.text if isinstance(one, Piece) else words
    return words


async def test_an_answer_goes_through_as_it_is(clock: SetClock) -> None:
    model = guarded(clock, Reply(pieces=["yes", " sir"], thinking="hm"))
    *pieces, response = await heard(model)
    assert pieces == [Piece("hm", "thinking"), Piece("yes"), Piece(" sir")]
    assert isinstance(response, ModelResponse)
    assert response.parts == (Thinking(text="hm"), Text(text="yes sir"))
    assert model.health().calls == 1


async def test_what_failed_is_tried_again_and_taken_back(clock: SetClock) -> None:
    asking = asyncio.create_task(heard(guarded(clock, failing(DOWN, "wrong "), YES)))
    assert (await played(clock, asking))[-1] == 1.0
    said = asking.result()
    failure = Failure(kind="ModelUnavailable", message="acme:any cannot be reached: it is down")
    assert said[:2] == [Piece("wrong "), Retry(error=failure, delay=1.0, model="acme:any")]
    assert text(said) == "yes"


async def test_the_delay_doubles_and_the_last_error_is_the_outcome(clock: SetClock) -> None:
    model = guarded(clock, failing(DOWN), retry=RetryConfig(tries=4, longest_delay=3))
    asking = asyncio.create_task(delays(model))
    await played(clock, asking)
    assert asking.result() == [1.0, 2.0, 3.0]
    assert model.health().failures == 4


async def delays(model: Model, request: ModelRequest | None = None) -> list[float]:
    """How long it waited before each further try, until it gave up."""
    found: list[float] = []
    try:
        async for said in model.ask(request or asks("hello")):
            if isinstance(said, Retry):
                found.append(said.delay)
    except ModelError:
        return found
    raise AssertionError("it did not give up")


@pytest.mark.parametrize(("chance", "delay"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
async def test_chance_spreads_the_delay(clock: SetClock, chance: float, delay: float) -> None:
    model = guarded(clock, failing(DOWN), retry=RetryConfig(tries=2), chance=lambda: chance)
    asking = asyncio.create_task(delays(model))
    await played(clock, asking)
    assert asking.result() == [delay]


async def test_the_provider_says_how_long_to_wait(clock: SetClock) -> None:
    asking = asyncio.create_task(heard(guarded(clock, failing(BUSY), YES)))
    assert (await played(clock, asking))[-1] == 2.0
    assert text(asking.result()) == "yes"


async def test_a_provider_that_wants_an_hour_is_not_waited_for(clock: SetClock) -> None:
    hour = ModelBusy(model="acme:any", problem="later", retry_after=3600.0)
    with pytest.raises(ModelBusy) as caught:
        await heard(guarded(clock, failing(hour), YES))
    assert caught.value.retry_after == 3600.0


async def test_a_wait_that_would_end_after_the_deadline_is_not_begun(clock: SetClock) -> None:
    request = asks("hello", deadline=clock.now_ms() + 2000)
    with pytest.raises(ModelBusy, match="too many") as caught:
        await heard(guarded(clock, failing(BUSY), YES), request)
    assert (caught.value.too_late, caught.value.retry_after) == (True, 2.0)


async def test_a_wait_that_ends_before_the_deadline_is_worth_it(clock: SetClock) -> None:
    request = asks("hello", deadline=clock.now_ms() + 2001)
    asking = asyncio.create_task(heard(guarded(clock, failing(BUSY), YES), request))
    await played(clock, asking)
    assert text(asking.result()) == "yes"


async def test_after_the_deadline_nobody_is_asked(clock: SetClock) -> None:
    model = ScriptedModel()
    with pytest.raises(ModelBusy, match="the time for an answer is over") as caught:
        await heard(guarded(clock, model=model), asks("hello", deadline=clock.now_ms()))
    assert (caught.value.too_late, model.asked) == (True, 0)


@pytest.mark.parametrize(
    "error",
    [REFUSED, KeyMissing(name="m", provider="p", variable="V"), ModelBusy(model="m", problem="paid up", no_quota=True)],
)
async def test_what_trying_again_does_not_help_is_said_at_once(clock: SetClock, error: Exception) -> None:
    with pytest.raises(type(error)):
        await heard(guarded(clock, failing(error), YES))


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply(pieces=["a"], error=RuntimeError("sk-secret")), "asking failed with RuntimeError"),
        (Reply(pieces=["a"], error=None), "it ended without an answer"),
    ],
)
async def test_what_nobody_foresaw_is_a_typed_error_without_its_words(
    clock: SetClock, reply: Reply, problem: str
) -> None:
    async def speechless(request: ModelRequest) -> AsyncGenerator[Said, None]:
        async for said in ScriptedModel(lambda request: reply).ask(request):
            if not isinstance(said, ModelResponse):
                yield said

    model = guarded(clock, model=Answering(speechless), retry=RetryConfig(tries=1))
    with pytest.raises(ModelBroken, match=f"makes no sense: {problem}$"):
        await heard(model)


async def test_others_are_asked_in_turn(clock: SetClock) -> None:
    second = guarded(clock, failing(BUSY), name="other:b", retry=RetryConfig(tries=1))
    plain = ScriptedModel(lambda request: YES, "mine")
    first = guarded(clock, failing(DOWN), retry=RetryConfig(tries=1), others=lambda: [second, plain])
    said = await heard(first)
    assert [(one.model, one.delay) for one in said if isinstance(one, Retry)] == [("other:b", 0.0), ("mine", 0.0)]
    assert text(said) == "yes"


async def test_others_have_tries_of_their_own(clock: SetClock) -> None:
    second = guarded(clock, failing(BUSY), YES, name="other:b")
    first = guarded(clock, failing(DOWN), others=lambda: [second], retry=RetryConfig(tries=2))
    asking = asyncio.create_task(heard(first))
    await played(clock, asking)
    names = [(one.model, one.delay) for one in asking.result() if isinstance(one, Retry)]
    assert names == [("acme:any", 1.0), ("other:b", 0.0), ("other:b", 2.0)]


async def test_when_nobody_answers_the_first_is_to_blame(clock: SetClock) -> None:
    once = RetryConfig(tries=1)
    second = guarded(clock, failing(REFUSED), name="other:b", retry=once)
    first = guarded(clock, failing(DOWN), retry=once, others=lambda: [second])
    with pytest.raises(
        ModelUnavailable, match=r"^acme:any cannot be reached: it is down; nor did acme:any answer: too"
    ):
        await heard(first)


async def test_the_callers_mistake_is_not_taken_to_others(clock: SetClock) -> None:
    other = ScriptedModel()
    with pytest.raises(ModelRefused):
        await heard(guarded(clock, failing(REFUSED), others=lambda: [other]))
    assert other.asked == 0


async def test_too_late_for_a_wait_is_not_too_late_for_another_model(clock: SetClock) -> None:
    request = asks("hello", deadline=clock.now_ms() + 500)
    said = await heard(guarded(clock, failing(DOWN), others=lambda: [ScriptedModel(lambda _: YES)]), request)
    assert text(said) == "yes"


async def test_G15_a_model_that_is_left_alone_is_not_asked_and_others_are(clock: SetClock) -> None:
    breaker = Breaker("acme:any", BreakerConfig(failures=2), clock.now_ms)
    model = ScriptedModel(lambda request: failing(DOWN), "acme:any")
    alone = guarded(clock, model=model, breaker=breaker)
    asking = asyncio.create_task(delays(alone))
    await played(clock, asking)
    assert model.asked == 2
    with pytest.raises(CircuitOpen):
        await heard(alone)
    said = await heard(guarded(clock, model=model, breaker=breaker, others=lambda: [ScriptedModel(lambda _: YES)]))
    assert text(said) == "yes"
    assert model.asked == 2


async def test_G15_a_hundred_callers_and_exactly_one_tries(clock: SetClock) -> None:
    """And when it is cancelled, the next one does."""
    go_on = asyncio.Event()

    async def wait(n: int) -> None:
        await go_on.wait()

    breaker = Breaker("acme:any", BreakerConfig(failures=1, cool_down=30), clock.now_ms)
    model = ScriptedModel(lambda request: Reply(pieces=["yes"], before=wait), "acme:any")
    guard = guarded(clock, model=model, breaker=breaker)
    breaker.leave(breaker.enter(), "failed", "it was down")
    clock.advance(30)
    for asked in (1, 2):
        asking = [asyncio.create_task(heard(guard)) for _ in range(100)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert model.asked == asked
        assert sum(isinstance(call.exception(), CircuitOpen) for call in asking if call.done()) == 99
        (probe,) = [call for call in asking if not call.done()]
        if asked == 1:
            probe.cancel()
            with pytest.raises(asyncio.CancelledError):
                await probe
    go_on.set()
    await probe
    assert breaker.state == "closed"
    assert all(text(said) == "yes" for said in await asyncio.gather(*(heard(guard) for _ in range(10))))


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_who_leaves_gives_his_place_back_and_stops_the_model(clock: SetClock, how: str) -> None:
    stopped = asyncio.Event()

    async def endless(request: ModelRequest) -> AsyncGenerator[Said, None]:
        try:
            while True:
                yield Piece("a")
                await asyncio.sleep(0)
        finally:
            stopped.set()

    lane = Lane(clock, at_once=1)
    guard = guarded(clock, model=Answering(endless), lane=lane)
    answer = guard.ask(asks("hello"))
    await anext(answer)
    assert (lane.under_way, guard.health().under_way) == (1, 1)
    if how == "cancel":
        asking = asyncio.ensure_future(heard(Answering(lambda request: answer)))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    await answer.aclose()
    assert stopped.is_set()
    assert (lane.under_way, guard.health().under_way, guard.health().failures) == (0, 0, 0)


async def test_a_wait_between_tries_holds_no_place(clock: SetClock) -> None:
    lane = Lane(clock, at_once=1)
    guard = guarded(clock, failing(DOWN), YES, lane=lane)
    asking = asyncio.create_task(heard(guard))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (asking.done(), lane.under_way) == (False, 0)
    await played(clock, asking)


async def test_health_tells_how_it_went(clock: SetClock) -> None:
    async def slowly(n: int) -> None:
        clock.advance(0.2)

    guard = guarded(clock, failing(BUSY), Reply(pieces=["a", "b"], before=slowly), retry=RetryConfig(tries=1))
    with pytest.raises(ModelBusy):
        await heard(guard)
    clock.advance(0.5)
    health = guard.health()
    assert (health.calls, health.failures, health.breaker, health.retry_after) == (1, 1, "closed", 1.5)
    assert health.last_error == Failure(kind="ModelBusy", message="acme:any takes no more requests now: too many")
    assert health.last_error_at == clock.now_ms() - 500
    await heard(guard)
    health = guard.health()
    assert (health.calls, health.failures, health.first_token_ms, health.total_ms) == (2, 1, 200, 400)
    assert health.retry_after is None


async def test_a_call_costs_what_the_seller_takes(clock: SetClock) -> None:
    usage = Usage(calls=1, input_tokens=1000, output_tokens=100)
    row = Row("", longest=1000, context=5000)
    guard = guarded(clock, YES, seller=Seller("openai", "gpt-5-mini"), row=row)
    response = (await heard(guard))[-1]
    assert isinstance(response, ModelResponse)
    assert response.usage.cost_usd == pytest.approx(1 * 0.25e-6 + 1 * 2e-6)
    most = guard.at_most(asks("x" * 400, settings=ModelSettings(max_tokens=50)))
    assert (most.output_tokens, most.cost_usd > usage.cost_usd) == (50, True)
    assert guard.at_most(asks("hello")).output_tokens == 1000
    assert guard.takes.context_tokens == 5000


async def test_what_nobody_sells_costs_nothing_and_loads_nothing(clock: SetClock) -> None:
    prices = Prices()
    guard = guarded(clock, YES, prices=prices)
    (_, response) = await heard(guard)
    assert isinstance(response, ModelResponse)
    assert response.usage.cost_usd == 0
    assert prices._package is None
