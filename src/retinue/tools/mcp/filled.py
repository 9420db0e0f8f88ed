"""A server's declaration with its secrets put in, just before it is connected."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from retinue.core.mcp import McpServer
from retinue.core.references import resolve
from retinue.errors import ToolFailed


def filled(server: McpServer, secrets: Mapping[str, str]) -> McpServer:
    """Raises `ToolFailed` when a secret is not there."""
    resolved = resolve(msgspec.to_builtins(server), secrets)
    if resolved.missing:
        names = ", ".join(sorted(set(resolved.missing.values())))
        raise ToolFailed(f"The MCP server {server.name} needs what is not set: {names}")
    return msgspec.convert(resolved.value, McpServer)
