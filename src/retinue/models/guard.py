"""Stands around every call of a model: a place in its provider's lane, the breaker, tries, and then other models.

In this order: a try waits for its place, then the breaker lets it through or not. What fails is tried again after a
delay, as long as that ends before the deadline; after the last try the models of the fallback chain are asked in turn.
The budget is the engine's, which asks `at_most` before.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass, replace

from retinue.core.outcome import Usage
from retinue.errors import BadInput, CircuitOpen, ModelBroken, ModelBusy, ModelError, ModelRefused, ModelUnavailable
from retinue.models import estimate
from retinue.models.breaker import Breaker
from retinue.models.config import RetryConfig
from retinue.models.health import Health, Record, failure_of
from retinue.models.lane import Lane
from retinue.models.prices import Prices
from retinue.models.silence import until_silent
from retinue.models.takes import Row
from retinue.ports.clock import Clock
from retinue.ports.models import Model, ModelRequest, ModelResponse, Retry, Said, Takes


@dataclass(frozen=True, slots=True)
class Seller:
    """By whose prices a model is paid for, and its name there. None says that nobody's are known."""

    name: str | None
    model: str


class Visit:
    """A call that the breaker has let through: how it ends is counted, unless it is the caller's doing."""

    def __init__(self, breaker: Breaker, record: Record, clock: Clock) -> None:
        self._breaker, self._record, self._clock = breaker, record, clock
        self._first = 0

    def __enter__(self) -> Visit:
        self._probe = self._breaker.enter()
        self._began = self._clock.now_ms()
        self._record.calls += 1
        self._record.under_way += 1
        return self

    @property
    def heard(self) -> bool:
        return bool(self._first)

    def hears(self) -> None:
        if not self._first:
            self._first = self._clock.now_ms()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._record.under_way -= 1
        if error is None:
            self._record.answered(self._began, self._first, self._clock.now_ms())
            self._breaker.leave(self._probe, "answered")
        elif isinstance(error, ModelError) and not isinstance(error, ModelRefused):
            self._record.failed(error, self._clock.now_ms())
            self._breaker.leave(self._probe, "failed", error.problem)
        else:
            self._breaker.leave(self._probe, "neither")


class Guard:
    """A model that is asked with patience, but not without limit. Of one that is `watched` nobody else notices that it
    has fallen silent."""

    def __init__(
        self,
        model: Model,
        *,
        provider: str,
        clock: Clock,
        lane: Lane,
        breaker: Breaker,
        retry: RetryConfig,
        prices: Prices,
        seller: Seller,
        row: Row | None = None,
        watched: bool = False,
        others: Callable[[], Sequence[Model]] = tuple,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = model.name
        self._model, self._provider, self._clock = model, provider, clock
        self._lane, self._breaker, self._retry = lane, breaker, retry
        self._prices, self._seller, self._row = prices, seller, row
        self._watched, self._others, self._chance = watched, others, chance
        self._record = Record()

    def variant(self, retry: RetryConfig, others: Callable[[], Sequence[Model]]) -> Guard:
        """The same model, with the same place in the lane and the same breaker, asked with other patience."""
        other = copy(self)
        other._retry, other._others = retry, others
        return other

    @property
    def takes(self) -> Takes:
        return self._row.takes if self._row else self._model.takes

    def at_most(self, request: ModelRequest) -> Usage:
        """Counted input and the longest answer, with what they cost where that is known."""
        usage = estimate.at_most(request, self._row.longest) if self._row else self._model.at_most(request)
        return self._prices.with_cost(self._seller.name, self._seller.model, usage)

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Said, None]:
        """The answer, of the first try that gives one. What a failed try said is taken back by a `Retry`."""
        models: list[Model] = [self, *self._others()]
        errors: list[ModelError] = []
        tries = 0
        while True:
            model = models[0]
            tries += 1
            asking = model.once(request) if isinstance(model, Guard) else model.ask(request)
            try:
                async with aclosing(asking) as answer:
                    async for said in answer:
                        yield said
                return
            except ModelError as error:
                failed = error
            again = self._again(model, tries, failed, request)
            if isinstance(again, ModelError):
                errors.append(again)
                models.pop(0)
                if not models or (model is self and isinstance(again, ModelRefused)):
                    raise _all(errors) from None
                tries, again = 0, 0.0
            yield Retry(error=failure_of(failed), delay=again, model=models[0].name)
            if again:
                await self._clock.sleep(again)

    async def once(self, request: ModelRequest) -> AsyncGenerator[Said, None]:
        """One try."""
        if self._past(0.0, request):
            raise ModelBusy(model=self.name, problem="the time for an answer is over", too_late=True)
        self._breaker.check()  # nobody waits for a place only to hear that
        await self._lane.enter(self.name, request.deadline)
        try:
            with Visit(self._breaker, self._record, self._clock) as visit:
                response: ModelResponse | None = None
                try:
                    async with aclosing(self._heard(request)) as answer:
                        async for said in answer:
                            visit.hears()
                            if isinstance(said, ModelResponse):
                                response = said
                                break
                            yield said
                except (ModelError, BadInput):
                    raise
                except TimeoutError:
                    raise self._silent(request, begun=visit.heard) from None
                except Exception as error:
                    # An error that is none of ours may hold anything, also a key: only its kind is told.
                    raise ModelBroken(model=self.name, problem=f"asking failed with {type(error).__name__}") from error
                if response is None:
                    raise ModelBroken(model=self.name, problem="it ended without an answer")
        finally:
            self._lane.leave()
        yield await self._priced(response)

    def _heard(self, request: ModelRequest) -> AsyncGenerator[Said, None]:
        saying, patience = self._model.ask(request), request.settings.timeout
        return until_silent(saying, self._clock, patience) if self._watched and patience else saying

    def _silent(self, request: ModelRequest, *, begun: bool) -> ModelError:
        seconds = request.settings.timeout
        if begun:
            return ModelBroken(model=self.name, problem=f"it broke off: nothing came any more for {seconds:g} s")
        return ModelUnavailable(model=self.name, problem=f"it said nothing for {seconds:g} s")

    def health(self) -> Health:
        record, now = self._record, self._clock.now_ms()
        return Health(
            provider=self._provider,
            model=self.name,
            breaker=self._breaker.state,
            opens_in=self._breaker.opens_in,
            calls=record.calls,
            failures=record.failures,
            under_way=record.under_way,
            waiting=self._lane.waiting,
            last_error=record.last_error,
            last_error_at=record.last_error_at,
            first_token_ms=record.first_token_ms,
            total_ms=record.total_ms,
            retry_after=(record.left_alone_until - now) / 1000 if record.left_alone_until > now else None,
        )

    def _again(self, model: Model, tries: int, error: ModelError, request: ModelRequest) -> float | ModelError:
        """After how many seconds the model is asked again; or the error that it ends with."""
        if not isinstance(model, Guard) or tries >= self._retry.tries or isinstance(error, ModelRefused | CircuitOpen):
            return error
        if isinstance(error, ModelBusy) and (error.no_quota or error.too_late):
            return error
        delay = self._delay(tries)
        if after := getattr(error, "retry_after", None):
            if after > self._retry.patience:
                return error
            delay = after
        return _too_late(error) if self._past(delay, request) else delay

    def _delay(self, tries: int) -> float:
        """Twice as long each time; up to half of it by chance, so that those who failed together do not come so."""
        whole = min(self._retry.longest_delay, self._retry.first_delay * 2 ** (tries - 1))
        return float(whole * (1 + self._chance()) / 2)

    def _past(self, seconds: float, request: ModelRequest) -> bool:
        return request.deadline is not None and self._clock.now_ms() + seconds * 1000 >= request.deadline

    async def _priced(self, response: ModelResponse) -> ModelResponse:
        if self._seller.name is None:
            return response
        await self._prices.ready()
        return replace(response, usage=self._prices.with_cost(self._seller.name, self._seller.model, response.usage))


def _too_late(error: ModelError) -> ModelError:
    return type(error)(**{**error.facts, "too_late": True})


def _all(errors: Sequence[ModelError]) -> ModelError:
    """The error of the model that was asked for, with what became of the others."""
    first, *others = errors
    if not others:
        return first
    problem = "; ".join([first.problem, *(f"nor did {error.model} answer: {error.problem}" for error in others)])
    return type(first)(**{**first.facts, "problem": problem})
