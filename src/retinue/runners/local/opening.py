"""What an agent's model is told before anything was said in the run: instructions, few-shot turns, the branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from retinue.core import events as e
from retinue.core.agent import AgentDefinition
from retinue.core.messages import AnyPart, File, Message, Text
from retinue.core.opening import opening_of
from retinue.core.template import values_of
from retinue.engine.context import RunContext
from retinue.engine.prompt import Prompt
from retinue.ports.models import Model

BEGIN = Message(role="user", parts=(Text(text="Begin."),))
"""For an agent whose instructions say it all: providers want somebody to speak first."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a run begins with. `query`, if there is one, is said in the place of the input."""

    instructions: str
    head: Prompt
    query: AnyPart | None


async def opened(ctx: RunContext, agent: AgentDefinition, model: Model, briefing: str) -> Opened:
    """The instructions, and what comes before all that the run says. Raises `NamesMissing` or `BadTemplate`."""
    values = values_of(ctx.input, _given(ctx, agent, model))
    warn(ctx, "template", [f"the input's {name} stands for ours in the templates" for name in values.shadowed])
    opening = opening_of(agent, values.values, ctx.input)
    told = [opening.instructions, _date(ctx, agent), briefing]
    head = await ctx.branch(model.takes, transcripts=agent.memory == "transcripts")
    asked = opening.query if agent.query is not None else None
    head.messages = [*opening.messages, *_asking(head.messages, asked)]
    if not head.messages and not ctx.state.messages:
        head.messages = [BEGIN]
    return Opened("\n\n".join(part for part in told if part), head, asked)


def _given(ctx: RunContext, agent: AgentDefinition, model: Model) -> dict[str, object]:
    """What templates get besides the input. The time is when the run was asked for: it stays as it is when the run is
    resumed, and so does what is made of it."""
    asked = datetime.fromtimestamp(ctx.run.created_at / 1000, UTC)
    return {
        "today": asked.date().isoformat(),
        "now": asked.isoformat(timespec="seconds"),
        "model": model.name,
        "agent": agent.name,
        "run_id": ctx.run.id,
    }


def _date(ctx: RunContext, agent: AgentDefinition) -> str:
    if "date" not in agent.context:
        return ""
    today = datetime.fromtimestamp(ctx.clock.now_ms() / 1000, UTC)
    return f"Today is {today:%A}, {today.date().isoformat()}."


def _asking(branch: Sequence[Message], query: AnyPart | None) -> list[Message]:
    """The branch, with what the definition makes of the newest turn in its place."""
    if query is None or not branch or branch[-1].role != "user":
        return list(branch)
    return [*branch[:-1], saying(query, branch[-1])]


def saying(query: AnyPart, message: Message) -> Message:
    """The message with the query in the place of what it says; its files stay."""
    return replace(message, parts=(query, *(part for part in message.parts if isinstance(part, File))))


def warn(ctx: RunContext, code: str, problems: Sequence[str]) -> None:
    """Once in a run, however often it is resumed."""
    ctx.note(*(e.Warned(code=code, message=text) for text in problems if (code, text) not in ctx.state.warned))
