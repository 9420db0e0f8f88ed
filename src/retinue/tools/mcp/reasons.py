"""Why a server cannot be had, or failed, in words."""

from __future__ import annotations

import re

from retinue.errors import ToolFailed

LONGEST = 1_000
_blank = re.compile(r"\s+")


class BrokenOff(ToolFailed):
    """{message}"""  # the server went away during a call: what it did of it is not known


def reason_of(error: BaseException) -> str:
    """The first error in a group, without its traceback."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    kind, text = type(error).__name__, short(str(error))
    if kind in ("ConnectError", "ConnectTimeout", "ReadError", "RemoteProtocolError", "WriteError"):
        return f"it cannot be reached ({text or kind})"
    if kind in ("MCPError", "ToolFailed", "OAuthFlowError", "OAuthTokenError", "RuntimeError"):
        return text or kind
    return f"{kind}: {text}" if text else kind


def short(text: str, most: int = LONGEST) -> str:
    """A text on one line that is not too long."""
    line = _blank.sub(" ", text).strip()
    return line if len(line) <= most else f"{line[:most]}…"
