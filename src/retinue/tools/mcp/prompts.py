"""A server's prompts, each a tool that gives the prompt's text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcp.types import Prompt, PromptMessage

from retinue.core.outcome import Effect
from retinue.ports.models import ToolSpec
from retinue.ports.tools import ToolContext
from retinue.tools.mcp.content import Part, given, part_of
from retinue.tools.mcp.tool import Server, ServerTool, name_of

PROMPT = "prompt:"
LONGEST_DESCRIPTION = 2_000


def prompt_tools(server: Server, prompts: Iterable[Prompt]) -> list[ServerTool]:
    return [_tool(server, prompt) for prompt in prompts if prompt.name and not any(map(str.isspace, prompt.name))]


def _tool(server: Server, prompt: Prompt) -> ServerTool:
    about = prompt.description or prompt.title or prompt.name
    spec = ToolSpec(
        name=name_of(server.declared, f"{PROMPT}{prompt.name}"),
        description=f"Get a prepared prompt: {about}"[:LONGEST_DESCRIPTION],
        schema=_schema(prompt),
    )

    async def run(arguments: Mapping[str, object], context: ToolContext) -> object:
        texts = {name: str(value) for name, value in arguments.items()}
        got = await server.ask(lambda client: client.get_prompt(prompt.name, texts))
        return await given(_parts(got.messages), spec.name, context)

    return ServerTool(spec=spec, server=server.declared, effect=Effect.READ, run=run)


def _schema(prompt: Prompt) -> dict[str, object]:
    arguments = prompt.arguments or []
    return {
        "type": "object",
        "properties": {
            one.name: {"type": "string", **({"description": one.description} if one.description else {})}
            for one in arguments
        },
        "required": [one.name for one in arguments if one.required],
        "additionalProperties": False,
    }


def _parts(messages: list[PromptMessage]) -> Iterable[Part]:
    """Its messages. Who speaks is said where it is not simply the user throughout."""
    named = any(message.role != "user" for message in messages)
    for message in messages:
        part = part_of(message.content)
        if not named:
            yield part
        elif isinstance(part, str):
            yield f"{message.role}: {part}"
        else:
            yield f"{message.role}:"
            yield part
