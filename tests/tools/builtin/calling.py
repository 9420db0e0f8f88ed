"""Calling tools without a run around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from retinue.errors import ToolFailed
from retinue.ports.tools import Tool, ToolContext


@dataclass
class Calling:
    """What a tool is told beside its arguments."""

    idempotency_key: str
    run_id: str = "run_1"
    call_id: str = "call-1"
    deadline: int | None = None

    def progress(self, message: str = "", *, done: float | None = None, of: float | None = None) -> None:
        return

    async def ask(self, question: str, schema: Mapping[str, object] | None = None) -> object:
        return None

    async def artifact(self, data: bytes, media_type: str, name: str = "") -> str:
        return ""


class Tools:
    """Some tools by name; each call has a key of its own, unless one is said."""

    def __init__(self, *tools: Tool) -> None:
        self.by_name = {tool.name: tool for tool in tools}
        self._calls = 0

    async def call(self, name: str, key: str = "", /, **arguments: Any) -> Any:
        self._calls += 1
        context: ToolContext = Calling(key or f"call-{self._calls}")
        return await self.by_name[name].call(arguments, context)

    async def refused(self, name: str, key: str = "", /, **arguments: Any) -> str:
        """What the model is told."""
        with pytest.raises(ToolFailed) as caught:
            await self.call(name, key, **arguments)
        return str(caught.value)
