"""What the SDK logs, without secrets, and without what servers sent."""

from __future__ import annotations

import logging

from retinue.tools.mcp.masks import Masks

log = logging.getLogger("retinue")
HTTP = ("httpx2",)
SDK = (
    "client",
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.client.caching",
    "mcp.client.client",
    "mcp.client.session_group",
    "mcp.client.sse",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.client.subscriptions",
    "mcp.shared.direct_dispatcher",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
    "mcp.shared.tool_name_validation",
)
"""Loggers that a client uses, by name: a filter is asked only for what is logged by its own."""


class SdkLogs(logging.Filter):
    """What it says is a matter of detail: what has to be known of a server is told to who needs it. Its tracebacks hold
    messages of servers, whole; of an error only the kind is kept. Of HTTP, which is not ours alone, only secrets go."""

    def __init__(self, masks: Masks) -> None:
        super().__init__()
        self._masks = masks
        for name in (*SDK, *HTTP):
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        text = self._masks.hide(record.getMessage())
        if record.name in HTTP:
            record.msg, record.args = text, None
            return True
        kind = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] else ""
        log.debug("MCP: %s%s", text, kind)
        return False

    def close(self) -> None:
        for name in (*SDK, *HTTP):
            logging.getLogger(name).removeFilter(self)
