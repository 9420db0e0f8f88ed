"""`cache`: an agent that is asked the same again may give the answer that it gave, for as long as it declares."""

from __future__ import annotations

from retinue.core.agent import AgentDefinition
from retinue.core.digest import digest_of
from retinue.core.outcome import Outcome
from retinue.engine.context import RunContext


async def answered_before(ctx: RunContext, agent: AgentDefinition, model: str) -> Outcome | None:
    """The answer of an earlier run. One that goes on from another run is to find a new one."""
    if agent.cache is None or ctx.run.source_run_id is not None:
        return None
    ctx.answer_key = await _key(ctx, model)
    return None if ctx.state.begun else await ctx.answered_before(ctx.answer_key, agent.cache)


async def _key(ctx: RunContext, model: str) -> str:
    """The same for the same question: to the same definition with the same code, on a branch that says the same."""
    branch = [[message.participant, message.parts] for message in await ctx.history()]
    return digest_of([ctx.state.definition, model, ctx.input, ctx.client_tools, branch])
