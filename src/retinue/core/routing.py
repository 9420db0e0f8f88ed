"""`model: auto`: a model chooses which model answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from retinue.core.declared import Written

AUTO, INHERIT = "auto", "inherit"
LONGEST_TASK = 8_000


class RoutingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[routing]`: who chooses, and among whom."""

    model: Written
    """Who chooses."""
    choices: dict[str, Written] = {}
    """Models, each with a word on what it is for."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What the one who chooses says."""

    model: str
    why: str = ""


def schema_of(choices: Mapping[str, str]) -> dict[str, object]:
    """The form that a choice has."""
    return {
        "type": "object",
        "properties": {"model": {"type": "string", "enum": list(choices)}, "why": {"type": "string"}},
        "required": ["model", "why"],
        "additionalProperties": False,
    }


def question(choices: Mapping[str, str], agent: str, task: str) -> str:
    listed = "\n".join(f"- {model}: {purpose}" for model, purpose in choices.items())
    return (
        f"Which of these models is to do the task below? It is for an agent: {agent}\n\n{listed}\n\n"
        "Take the cheapest that will do it well, and say why in a sentence. Do not do the task.\n\n"
        f"THE TASK\n{task[:LONGEST_TASK]}"
    )


def choice_of(said: object, choices: Mapping[str, str]) -> Choice:
    """Raises `ValueError` for what is none of them."""
    choice = msgspec.convert(said, Choice) if not isinstance(said, str) else msgspec.json.decode(said, type=Choice)
    if choice.model not in choices:
        raise ValueError(f"it chose {choice.model[:100]!r}, which is none of {', '.join(choices)}")
    return choice
