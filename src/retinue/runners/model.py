"""One model call, streamed. The cheapest path from a question to an answer."""

from __future__ import annotations

from collections.abc import Mapping

from retinue.core import events as e
from retinue.core.messages import text_of
from retinue.core.outcome import Durability, Failure, Outcome, Reason, Status, Usage
from retinue.core.target import Target
from retinue.core.thread import characters
from retinue.engine.context import RunContext
from retinue.engine.description import Capabilities, Description
from retinue.errors import BadInput, ModelError
from retinue.ports.models import Model, ModelRequest, Models
from retinue.runners.ask import ask, settle


class ModelRunner:
    """Runs `model:NAME`: asks once, on its branch. An answer that a crash broke off is asked for again."""

    platform = "model"
    capabilities = Capabilities(durability=Durability.EFFECTS, files=True)

    def __init__(self, models: Models) -> None:
        self._models = models

    def describe(self, target: Target) -> Description:
        self._models.resolve(target.name)
        return Description(definition={"model": target.name}, requires={"platform": "model", "model": target.name})

    def can_load(self, requires: Mapping[str, object]) -> bool:
        try:
            self._models.resolve(str(requires.get("model")))
        except BadInput:
            return False
        return True

    async def run(self, ctx: RunContext) -> Outcome:
        if not _answered(ctx):
            model = self._models.resolve(Target.parse(ctx.run.target).name)
            try:
                if refused := await self._turn(ctx, model):
                    return refused
            except ModelError as error:
                return _failed(error)
        return Outcome.completed(text_of(ctx.state.messages[-1].parts))

    async def _turn(self, ctx: RunContext, model: Model) -> Outcome | None:
        prompt = await ctx.branch(model.takes)
        prompt.messages = [*prompt.messages, *ctx.state.messages]
        if not prompt.messages:
            raise BadInput(problem="There is nothing to answer: nobody has said anything on this branch.")
        request = ModelRequest(messages=tuple(prompt.messages), files=prompt.files, deadline=ctx.deadline)
        # Where nobody has set a limit, nobody waits for what it may cost: the first time, prices are loaded for that.
        at_most = model.at_most(request) if ctx.run.purse_limit is not None else Usage()
        if not await ctx.reserve(at_most.cost_usd):
            ctx.note(e.LimitReached(reason=Reason.BUDGET, limit="max_cost_usd"))
            problem = f"the call may cost up to {at_most.cost_usd:.4f} USD, and the budget has less left"
            return Outcome.failed(Reason.BUDGET, "BudgetSpent", problem)
        if not ctx.state.turn_open:
            await ctx.record(
                e.TurnStarted(
                    turn=ctx.state.turn + 1,
                    model=model.name,
                    messages=len(request.messages),
                    characters=characters(request.messages),
                )
            )
        before = ctx.state.usage.cost_usd
        ctx.note(await ask(ctx, model, request), with_end=True)
        settle(ctx, at_most, ctx.state.usage.cost_usd - before)
        return None

    async def cancel(self, ctx: RunContext) -> None:
        """Leaving the stream is all that there is to do."""


def _answered(ctx: RunContext) -> bool:
    return bool(ctx.state.messages) and ctx.state.messages[-1].role == "model"


def _failed(error: ModelError) -> Outcome:
    """A model that would have been asked again, had there been time, is a timeout."""
    failure = Failure(kind=type(error).__name__, message=str(error))
    if error.too_late:
        return Outcome(status=Status.TIMED_OUT, reason=Reason.TIMEOUT, error=failure)
    return Outcome(status=Status.FAILED, reason=Reason.PROVIDER_ERROR, error=failure)
