"""What a function in a thread may use of its tool's context."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from retinue.errors import ToolFailed
from retinue.ports.tools import ToolContext

T = TypeVar("T")


@dataclass(slots=True)
class ThreadContext:
    """A tool's context for a function in a thread. It acts on the loop, while somebody waits for the call."""

    context: ToolContext
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    over: bool = False

    @property
    def run_id(self) -> str:
        return self.context.run_id

    @property
    def call_id(self) -> str:
        return self.context.call_id

    @property
    def idempotency_key(self) -> str:
        return self.context.idempotency_key

    @property
    def deadline(self) -> int | None:
        return self.context.deadline

    def progress(self, message: str = "", *, done: float | None = None, of: float | None = None) -> None:
        def tell() -> None:
            if not self.over:
                self.context.progress(message, done=done, of=of)

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(tell)

    async def ask(self, question: str, schema: Mapping[str, object] | None = None) -> object:
        return await self._on_loop(lambda: self.context.ask(question, schema))

    async def artifact(self, data: bytes, media_type: str, name: str = "") -> str:
        return await self._on_loop(lambda: self.context.artifact(data, media_type, name))

    async def _on_loop(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self.over:
            raise ToolFailed("its call was given up")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(act(), self.loop))
