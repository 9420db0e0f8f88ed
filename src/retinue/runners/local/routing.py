"""Which model answers, when another one is asked to choose: once for a run, whatever happens to it."""

from __future__ import annotations

from contextlib import aclosing

import msgspec

from retinue.core import events as e
from retinue.core.agent import AgentDefinition
from retinue.core.messages import Data, Message, Text, text_of
from retinue.core.notes import as_text
from retinue.core.outcome import Usage
from retinue.core.routing import Choice, RoutingConfig, choice_of, question, schema_of
from retinue.engine.context import RunContext
from retinue.errors import BadInput, ModelBroken, ModelError
from retinue.ports.models import ModelRequest, ModelResponse, Models, OutputSpec


async def route(
    ctx: RunContext, agent: AgentDefinition, models: Models, routing: RoutingConfig | None, default: str
) -> str:
    """The model that was chosen. What goes wrong on the way is told, and the default taken."""
    if ctx.state.model:
        return ctx.state.model
    try:
        if routing is None or not routing.choices:
            raise BadInput(problem="nothing is set up for that: see [routing] in retinue.toml.")
        choice, usage = await _choose(ctx, agent, models, routing)
    except (BadInput, ModelError, ValueError) as error:
        message = f"No model could be chosen, so {default} answers: {error}"
        ctx.note(e.Warned(code="routing", message=message))
        choice, usage = Choice(model=default, why="the default: no model could be chosen"), Usage()
    ctx.note(e.ModelRouted(model=choice.model, why=choice.why, usage=usage))
    return choice.model


async def _choose(
    ctx: RunContext, agent: AgentDefinition, models: Models, routing: RoutingConfig
) -> tuple[Choice, Usage]:
    chooser = models.resolve(routing.model)
    asked = question(routing.choices, agent.description or agent.name, as_text(ctx.input))
    request = ModelRequest(
        messages=(Message(role="user", parts=(Text(text=asked),)),),
        output=OutputSpec(schema=schema_of(routing.choices), name="choice"),
        deadline=ctx.deadline,
    )
    async with aclosing(chooser.ask(request)) as answer:
        async for said in answer:
            if isinstance(said, ModelResponse):
                return _choice(said, routing), said.usage
    raise ModelBroken(model=chooser.name, problem="it ended without an answer")


def _choice(response: ModelResponse, routing: RoutingConfig) -> Choice:
    data = next((part.data for part in response.parts if isinstance(part, Data)), None)
    try:
        choice = choice_of(text_of(response.parts) if data is None else data, routing.choices)
    except msgspec.MsgspecError as error:
        raise ValueError(f"what it said is no choice: {error}") from None
    return choice
