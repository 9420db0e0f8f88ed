"""Asking a model in the open turn: what it says goes to readers as it comes, tries that failed go on record."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from retinue.core import events as e
from retinue.core.delta import OpenTurn
from retinue.core.outcome import Usage
from retinue.core.run import CHARACTERS_OF_A_TOKEN
from retinue.engine.context import RunContext
from retinue.errors import ModelBroken, RetinueError
from retinue.ports.models import Model, ModelRequest, ModelResponse, Piece, Retry


async def ask(ctx: RunContext, model: Model, request: ModelRequest) -> e.ModelResponded:
    """Ask until there is a whole answer; leaving this stops the answer at its source. Raises `ModelError`."""
    ctx.lost = partial(lost, model, request)
    answer = _Answer(ctx, model.name)
    try:
        async with aclosing(model.ask(request)) as saying:
            async for said in saying:
                answer.take(said)
    except RetinueError:
        raise
    except Exception as error:  # however it fails, it is the model that failed
        raise ModelBroken(model=model.name, problem=f"{type(error).__name__}: {error}") from error
    return answer.responded()


def lost(model: Model, request: ModelRequest, said: OpenTurn) -> Usage:
    """What an answer cost that broke off: all that the model was given, and what it said, by our own count."""
    length = said.length // CHARACTERS_OF_A_TOKEN
    shortest = replace(request, settings=replace(request.settings, max_tokens=max(1, length)))
    return replace(model.at_most(shortest), output_tokens=length, estimated=True)


class _Answer:
    """An answer that is being given."""

    def __init__(self, ctx: RunContext, model: str) -> None:
        self._ctx, self._turn, self._model = ctx, ctx.state.turn, model
        self._began = time.perf_counter()
        self._first: float | None = None
        self._response: ModelResponse | None = None
        ctx.speech.begin(self._turn, ctx.state.try_)

    def take(self, said: Piece | Retry | ModelResponse) -> None:
        match said:
            case Piece(text=text, kind=kind):
                _look_at(text, self._model)
                if self._first is None:
                    self._first = time.perf_counter()
                self._ctx.stream(text, kind)
            case Retry():
                self._again(said)
            case ModelResponse():
                self._response = said

    def _again(self, retry: Retry) -> None:
        ctx, delay, model, spent = self._ctx, _ms(retry.delay), retry.model, spent_on_nothing(self._ctx)
        try_ = ctx.state.try_
        ctx.note(
            e.ModelRetried(turn=self._turn, try_=try_, error=retry.error, delay_ms=delay, model=model, usage=spent)
        )
        ctx.speech.begin(self._turn, ctx.state.try_)
        self._first = None

    def responded(self) -> e.ModelResponded:
        response = self._response
        if response is None:
            raise ModelBroken(model=self._model, problem="it ended its answer without saying that it is the end")
        return e.ModelResponded(
            turn=self._turn,
            try_=self._ctx.state.try_,
            parts=response.parts,
            model=response.model or self._model,
            stop=response.stop,
            usage=response.usage,
            first_token_ms=None if self._first is None else _ms(self._first - self._began),
            total_ms=_ms(time.perf_counter() - self._began),
        )


def _look_at(text: str, model: str) -> None:
    """What cannot be stored is not shown either."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ModelBroken(model=model, problem="its answer has characters that Unicode does not know") from None


def spent_on_nothing(ctx: RunContext) -> Usage:
    """What a try cost that failed by itself: one that had said nothing was no answer, and nobody is paid for it."""
    said = ctx.speech.said()
    return ctx.lost(said) or Usage() if said and said.length else Usage()


def settle(ctx: RunContext, reserved: Usage, spent_usd: float) -> None:
    """What a call had put aside is replaced by what it cost, with all its tries."""
    if ctx.run.purse_limit is not None:
        ctx.note(e.BudgetSettled(reserved_usd=reserved.cost_usd, spent_usd=spent_usd))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
