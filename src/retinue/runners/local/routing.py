"""Which model answers, when another one is asked to choose: once for a run, whatever happens to it."""

from __future__ import annotations

import msgspec

from retinue.core import events as e
from retinue.core.agent import AgentDefinition
from retinue.core.messages import Data, Message, Text, text_of
from retinue.core.notes import as_text
from retinue.core.outcome import Usage
from retinue.core.routing import Choice, RoutingConfig, choice_of, question, schema_of
from retinue.engine.alarm import Rung
from retinue.engine.context import RunContext
from retinue.errors import BadInput, ModelError
from retinue.ports.models import ModelRequest, ModelResponse, Models, OutputSpec
from retinue.runners.aside import Aside


async def route(
    ctx: RunContext, agent: AgentDefinition, models: Models, routing: RoutingConfig | None, default: str
) -> str:
    """The model that was chosen. What goes wrong on the way is told, and the default taken."""
    if ctx.state.model:
        return ctx.state.model
    choice, spent = Choice(model=default, why="the default: no model could be chosen"), Usage()
    try:
        if routing is None or not routing.choices:
            raise BadInput(problem="nothing is set up for that: see [routing] in retinue.toml.")
        limits = agent.limits
        aside = Aside(ctx, models.resolve(routing.model), limits.turn_timeout, limits.idle_timeout)
        try:
            with ctx.time_is_up.interrupting():
                chosen = _choice(await aside.ask(_request(ctx, agent, routing)), routing)
        finally:
            spent = aside.spent
        models.resolve(chosen.model)  # one that cannot be asked is no choice
        choice = chosen
    except (BadInput, ModelError, ValueError, Rung) as error:
        why = "the time was over" if isinstance(error, Rung) else error
        ctx.note(e.Warned(code="routing", message=f"No model could be chosen, so {default} answers: {why}"))
    ctx.note(e.ModelRouted(model=choice.model, why=choice.why, usage=spent))
    return choice.model


def _request(ctx: RunContext, agent: AgentDefinition, routing: RoutingConfig) -> ModelRequest:
    asked = question(routing.choices, agent.description or agent.name, as_text(ctx.input))
    return ModelRequest(
        messages=(Message(role="user", parts=(Text(text=asked),)),),
        output=OutputSpec(schema=schema_of(routing.choices), name="choice"),
    )


def _choice(response: ModelResponse, routing: RoutingConfig) -> Choice:
    data = next((part.data for part in response.parts if isinstance(part, Data)), None)
    try:
        choice = choice_of(text_of(response.parts) if data is None else data, routing.choices)
    except msgspec.MsgspecError as error:
        raise ValueError(f"what it said is no choice: {error}") from None
    return choice
