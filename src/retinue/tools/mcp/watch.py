"""What is noticed of one server while it is connected."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from retinue.tools.mcp.masks import Masks
from retinue.tools.mcp.reasons import short

log = logging.getLogger("retinue")
LAST_LINES, LONGEST_LINE = 5, 500
MOST_STRANGE = 5
"""Lines that are no messages, of which so many are logged and the rest is only counted."""


class Watch:
    """Logs what a server says beside the protocol, and remembers what may explain its end."""

    def __init__(self, name: str, masks: Masks, end: Callable[[str], None]) -> None:
        self._name, self._masks, self._end = name, masks, end
        self._said: deque[str] = deque(maxlen=LAST_LINES)
        self._strange, self._first_strange = 0, ""
        self.refusal = ""
        """The status that an HTTP server refused the last request with."""
        self.forgotten = False
        """Whether it refused the last one because it no longer knows the session. It has done nothing then."""

    def said(self, line: str) -> None:
        """A line of its stderr."""
        text = self._shown(line)
        if text:
            self._said.append(text)
            log.info("MCP server %s: %s", self._name, text)

    def strange(self, line: str) -> None:
        """A line of its stdout that is no message."""
        text = self._shown(line)
        if not text:
            return
        self._strange += 1
        self._first_strange = self._first_strange or text
        if self._strange <= MOST_STRANGE:
            log.warning("MCP server %s printed what is no MCP message: %s", self._name, text)

    def over(self, why: str) -> None:
        """It has ended, or is of no use any more."""
        self._end(f"{why}{self.remarks()}")

    def remarks(self) -> str:
        """What was noticed and may be the reason, as an addition to a sentence."""
        found = [self.refused()]
        if self._strange:
            lines = "a line that is" if self._strange == 1 else f"{self._strange} lines that are"
            found.append(f"; it printed {lines} no MCP message: {short(self._first_strange, 200)}")
        if self._said:
            found.append(f"; it said: {short(' | '.join(self._said))}")
        return "".join(found)

    def refused(self) -> str:
        return f"; it answered {self.refusal}" if self.refusal else ""

    def _shown(self, line: str) -> str:
        return short(self._masks.hide(line), LONGEST_LINE)
