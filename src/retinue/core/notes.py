"""What a run itself says to its model: reminders, limits, and what is not told by anybody else."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from retinue.core.agent import AgentDefinition
from retinue.core.messages import ToolResult
from retinue.core.outcome import Reason
from retinue.core.tool import FINISH

SHOWN, SHOWN_IN_ALL = 2_000, 12_000
"""Characters of pending results in the message of a grace turn."""

LIMITS = {
    Reason.MAX_TURNS: "You have used all the turns that you were given.",
    Reason.TIMEOUT: "The time for this task is over.",
    Reason.NO_COMPLETION: f"You have answered without calling a tool, and {FINISH} was not called.",
    Reason.BUDGET: "The budget for this task is spent.",
    Reason.LOOP: "You have made the same call with the same result again and again.",
}


def nudge(agent: AgentDefinition) -> str:
    """After an answer that calls nothing."""
    if agent.finish == "text":
        return "Your answer was empty. Say your answer."
    name = agent.completion.name
    return (
        f"Nobody reads what you say besides: call a tool to go on, or {FINISH} with your answer as `{name}` "
        "when the task is done."
    )


def repeating(times: int) -> str:
    return (
        f"You have made the same call with the same arguments {times} times, and the result was the same each time. "
        "It will not change: try something else, or finish with what you have."
    )


def left(number: int, unit: str) -> str:
    return f"Only {max(number, 0)} {unit}{'' if number == 1 else 's'} left. Come to an end in time."


def money_left(usd: float) -> str:
    return f"Only {max(usd, 0.0):.4f} USD of the budget are left. Come to an end in time."


def grace(agent: AgentDefinition, reason: Reason, limit: str, pending: Iterable[tuple[str, ToolResult]]) -> str:
    """The message of the grace turn: which limit was hit, and the results that the model has not answered to yet."""
    how = f"Call {FINISH} now with the best answer that you can give" if agent.finish == "tool" else "Answer now"
    said = [f"{LIMITS[reason]} ({limit}) This is your last turn. {how}; no other tool is there any more."]
    if results := _results(pending):
        said.append(f"These results came last:\n{results}")
    return "\n\n".join(said)


def _results(pending: Iterable[tuple[str, ToolResult]]) -> str:
    lines, room = [], SHOWN_IN_ALL
    for tool, result in pending:
        text = shortened(as_text(result.result), max(0, min(SHOWN, room)))
        room -= len(text)
        lines.append(f"- {tool}: {text}")
    return "\n".join(lines)


def as_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def shortened(text: str, most: int) -> str:
    """The first fifth and the last four fifths of what there is room for."""
    if len(text) <= most:
        return text
    head = most // 5
    return f"{text[:head]}\n[… {len(text) - most} characters left out …]\n{text[len(text) - (most - head) :]}"


def refused(why: str) -> str:
    """A person, or a rule, does not allow a call."""
    return f"{why} It was not done. Find another way, or finish with what you have."


def unknown(tool: str) -> str:
    """Nobody can tell whether a call took effect."""
    return (
        f"The call of {tool} was interrupted, and nobody can tell whether it took effect. It was not repeated. "
        "Look for its effect before you call it again."
    )
