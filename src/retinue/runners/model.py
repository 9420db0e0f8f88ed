"""One model call, streamed. The cheapest path from a question to an answer."""

from __future__ import annotations

from collections.abc import Mapping

from retinue.core import events as e
from retinue.core.messages import text_of
from retinue.core.outcome import Durability, Outcome, Reason
from retinue.core.target import Target
from retinue.engine.context import RunContext
from retinue.engine.description import Capabilities, Description
from retinue.errors import BadInput
from retinue.ports.models import Model, ModelRequest, ModelResponse, Models, Piece


class ModelRunner:
    """Runs `model:NAME`: asks once; an answer that a crash broke off is asked for again."""

    platform = "model"
    capabilities = Capabilities(durability=Durability.EFFECTS)

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
        model = self._models.resolve(Target.parse(ctx.run.target).name)
        last = ctx.state.messages[-1] if ctx.state.messages else None
        if last is None or last.role != "model":
            if not ctx.state.turn_open:
                await ctx.record(e.TurnStarted(turn=ctx.state.turn + 1, model=model.name))
            try:
                ctx.note(await self._ask(ctx, model))
            except Exception as error:
                return Outcome.failed(Reason.PROVIDER_ERROR, type(error).__name__, str(error))
            last = ctx.state.messages[-1]
        return Outcome.completed(text_of(last.parts))

    async def _ask(self, ctx: RunContext, model: Model) -> e.ModelResponded:
        turn, try_ = ctx.state.turn, ctx.state.try_
        ctx.speech.begin(turn, try_)
        response: ModelResponse | None = None
        async for said in model.ask(ModelRequest(messages=tuple(ctx.state.messages))):
            match said:
                case Piece(text=text, kind=kind):
                    ctx.stream(text, kind)
                case ModelResponse():
                    response = said
        if response is None:
            raise ConnectionError(f"{model.name} broke its answer off")
        return e.ModelResponded(
            turn=turn,
            try_=try_,
            parts=response.parts,
            model=model.name,
            stop=response.stop,
            usage=response.usage,
        )

    async def cancel(self, ctx: RunContext) -> None:
        """Leaving the stream is all that there is to do."""
