"""Calls of a toolbox by the name of a tool."""

from __future__ import annotations

from retinue.ports.tools import Tool
from retinue.tools.toolbox import Connected
from tests.tools.context import Context


def tool_of(box: Connected, name: str) -> Tool:
    return {tool.name: tool for tool in box.tools}[name]


async def call(box: Connected, name: str, /, context: Context | None = None, **arguments: object) -> object:
    return await tool_of(box, name).call(arguments, context or Context())
