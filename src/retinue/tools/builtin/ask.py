"""`ask_user`: a question to the people behind a run. The run waits for the answer, for days if need be."""

from __future__ import annotations

from typing import Annotated

import msgspec

from retinue.errors import ToolFailed
from retinue.ports.tools import ToolContext
from retinue.tools.builtin.tool import Arguments, BuiltIn, built_in


class AskUser(Arguments, frozen=True):
    question: Annotated[str, msgspec.Meta(description="What you want to know, with all that one needs to answer it.")]
    choices: Annotated[
        tuple[str, ...], msgspec.Meta(description="The answers to choose from; leave it out for any answer.")
    ] = ()


def ask_tool() -> BuiltIn[AskUser]:
    async def ask(said: AskUser, context: ToolContext) -> object:
        if not said.question.strip():
            raise ToolFailed("the question is empty")
        schema: dict[str, object] = {"type": "string"}
        if said.choices:
            schema["enum"] = list(dict.fromkeys(said.choices))
        return await context.ask(said.question, schema)

    return built_in(
        "ask_user",
        "Ask the person whom you work for, and wait for the answer. Ask only what you cannot find out yourself.",
        AskUser,
        ask,
    )
