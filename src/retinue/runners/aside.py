"""Questions beside what a run says: which model is to answer, what a history comes to in short."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from retinue.core.delta import OpenTurn
from retinue.core.outcome import Usage
from retinue.engine.alarm import time_limit
from retinue.engine.context import RunContext
from retinue.errors import ModelBroken, ModelRefused, ModelUnavailable
from retinue.ports.models import Model, ModelRequest, ModelResponse, Piece, Retry
from retinue.runners.ask import lost, settle


class Aside:
    """Asks one model, within the run's budget and time. `spent` is what all its questions cost so far, also those that
    came to nothing; whoever asks records it."""

    def __init__(self, ctx: RunContext, model: Model, seconds: float, idle: float) -> None:
        self._ctx, self._model, self._seconds, self._idle = ctx, model, seconds, idle
        self.spent = Usage()

    async def ask(self, request: ModelRequest) -> ModelResponse:
        """Raises `ModelError`."""
        ctx, now = self._ctx, self._ctx.clock.now_ms()
        ends = now + int(self._seconds * 1000)
        request = replace(
            request,
            settings=replace(request.settings, timeout=self._idle),
            deadline=ends if ctx.deadline is None else min(ends, ctx.deadline),
        )
        at_most = self._model.at_most(request) if ctx.run.purse_limit is not None else Usage()
        if not await ctx.reserve(at_most.cost_usd, keep=at_most.cost_usd):
            raise ModelRefused(model=self._model.name, problem="the budget has not enough left")
        before = self.spent.cost_usd
        try:
            with time_limit(ctx.clock, self._seconds):
                return await self._answer(request)
        except TimeoutError:
            problem = f"there was no answer within {self._seconds:g} s"
            raise ModelUnavailable(model=self._model.name, problem=problem) from None
        finally:
            settle(ctx, at_most, self.spent.cost_usd - before)

    async def _answer(self, request: ModelRequest) -> ModelResponse:
        said = OpenTurn(0, 1)
        try:
            async with aclosing(self._model.ask(request)) as answer:
                async for one in answer:
                    match one:
                        case Piece(text=text, kind=kind):
                            said.add(kind, said.length, text)
                        case Retry():
                            self._spend(request, said)
                            said = OpenTurn(0, 1)
                        case ModelResponse():
                            self.spent, said = self.spent + one.usage, OpenTurn(0, 1)
                            return one
        finally:
            self._spend(request, said)
        raise ModelBroken(model=self._model.name, problem="it ended without an answer")

    def _spend(self, request: ModelRequest, said: OpenTurn) -> None:
        if said.length:
            self.spent += lost(self._model, request, said)
