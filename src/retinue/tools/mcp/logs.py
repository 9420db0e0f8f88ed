"""What the SDK logs, without secrets, and without what servers sent."""

from __future__ import annotations

import logging

from retinue.tools.mcp.masks import Masks

LOGGERS = (
    "client",
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.client.caching",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.client.subscriptions",
    "mcp.shared.jsonrpc_dispatcher",
)
"""Those that the SDK uses for a client, by name."""


class SdkLogs(logging.Filter):
    """Tracebacks hold messages of servers, whole: of an error only its kind is kept."""

    def __init__(self, masks: Masks) -> None:
        super().__init__()
        self._masks = masks
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        kind = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] else ""
        record.msg, record.args = self._masks.hide(record.getMessage()) + kind, None
        record.exc_info = record.exc_text = None
        return True

    def close(self) -> None:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)
