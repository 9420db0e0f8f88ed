"""What a server offers, as tools: its tools, its prompts, and its resources."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from mcp import Client
from mcp.types import Tool

from retinue.core.outcome import Effect
from retinue.core.schema import wrong_schema
from retinue.errors import ToolFailed
from retinue.ports.models import ToolSpec
from retinue.ports.tools import ToolContext
from retinue.tools.mcp.content import part_of, result_of
from retinue.tools.mcp.pages import MOST, listed
from retinue.tools.mcp.prompts import prompt_tools
from retinue.tools.mcp.reasons import short
from retinue.tools.mcp.resources import resource_tools
from retinue.tools.mcp.tool import Server, ServerTool, name_of

LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_ERROR = 200, 10_000, 10_000
SHOWN = 5
AT_ONCE = 50


async def offer_of(server: Server, client: Client) -> tuple[list[ServerTool], list[str]]:
    """All of it, and what of it cannot be had and why."""
    can = client.server_capabilities
    found: list[ServerTool] = []
    problems: list[str] = []
    if can.tools is not None:
        tools, whole = await listed(lambda cursor: client.list_tools(cursor=cursor), lambda page: page.tools)
        good, problems = await _checked(tools)
        found += (_tool(server, tool) for tool in good)
        if not whole:
            problems.append(f"it lists more than {MOST:,} tools, and the rest is left out")
    if can.prompts is not None:
        prompts, _ = await listed(lambda cursor: client.list_prompts(cursor=cursor), lambda page: page.prompts)
        found += prompt_tools(server, prompts)
    if can.resources is not None:
        found += resource_tools(server)
    return list(_once(found)), [f"The MCP server {server.declared.name}: {problem}" for problem in problems]


def _once(tools: Iterable[ServerTool]) -> Iterator[ServerTool]:
    """Of several with one name the first: a call could not say which it means."""
    names: set[str] = set()
    for tool in tools:
        if tool.name not in names:
            names.add(tool.name)
            yield tool


async def _checked(tools: Iterable[Tool]) -> tuple[list[Tool], list[str]]:
    """Those that can be called; a model is not shown a schema that no provider takes."""
    good: list[Tool] = []
    wrong: list[str] = []
    for n, tool in enumerate(tools):
        if n % AT_ONCE == 0:
            await asyncio.sleep(0)  # of very many, let others go on in between
        if problem := _wrong(tool):
            wrong.append(f"its tool {short(tool.name, LONGEST_NAME)!r} is left out: {problem}")
        else:
            good.append(tool)
    more = [f"and {len(wrong) - SHOWN} more of its tools are left out"] if len(wrong) > SHOWN else []
    return good, wrong[:SHOWN] + more


def _wrong(tool: Tool) -> str:
    if not tool.name or len(tool.name) > LONGEST_NAME or any(char.isspace() for char in tool.name):
        return f"a name has 1 to {LONGEST_NAME} characters and no blanks"
    if tool.input_schema.get("type", "object") != "object":
        return "its arguments are no object"
    problem = wrong_schema(tool.input_schema)
    return f"its schema is wrong: {problem}" if problem else ""


def _tool(server: Server, tool: Tool) -> ServerTool:
    spec = ToolSpec(
        name=name_of(server.declared, tool.name),
        description=(tool.description or tool.title or "")[:LONGEST_DESCRIPTION],
        schema={"type": "object", "properties": {}, **tool.input_schema},
    )

    async def run(arguments: Mapping[str, object], context: ToolContext) -> object:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            context.progress(message or "", done=progress, of=total)

        result = await server.ask(
            lambda client: client.call_tool(tool.name, dict(arguments), progress_callback=told),
        )
        if result.is_error:
            text = "\n".join(part for part in map(part_of, result.content) if isinstance(part, str))
            raise ToolFailed(server.masks.hide(text)[:LONGEST_ERROR] or f"{spec.name} failed and does not say why")
        return await result_of(result, spec.name, context)

    return ServerTool(spec=spec, server=server.declared, effect=_effect(tool), run=run)


def _effect(tool: Tool) -> Effect:
    """As the server declares it; what it does not declare may change something."""
    hints = tool.annotations
    if hints is not None and hints.read_only_hint:
        return Effect.READ
    return Effect.IDEMPOTENT if hints is not None and hints.idempotent_hint else Effect.WRITE
