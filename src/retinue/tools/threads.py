"""Functions that block, in threads of their own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, TypeVar

from retinue.errors import ToolFailed, Unwind
from retinue.ports.tools import ToolContext

log = logging.getLogger("retinue")
T = TypeVar("T")
MOST = 32
MOST_ADRIFT = 64


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a function ended, carried out of its thread."""

    result: object = None
    error: BaseException | None = None


class Threads:
    """A thread for each call, `most` at a time.

    Nothing stops a thread. Who no longer waits for one lets it drift: it takes no place from others, and what it
    gives in the end is dropped. With too many adrift no new one is begun: each holds memory, and will for ever.
    """

    def __init__(self, most: int = MOST, most_adrift: int = MOST_ADRIFT) -> None:
        self._places = asyncio.Semaphore(most)
        self._most_adrift = most_adrift
        self._adrift = 0

    async def run(self, name: str, work: Callable[[], object]) -> object:
        """What `work` gives or raises. Cancelling lets go of it at once."""
        if self._adrift >= self._most_adrift:
            raise ToolFailed(f"{self._adrift} earlier calls never came to an end, so no new one is begun")
        async with self._places:
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[_Ended] = loop.create_future()
            context = contextvars.copy_context()

            def do() -> None:
                outcome = context.run(_outcome_of, work)
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left who would want it
                    loop.call_soon_threadsafe(self._take, name, ended, outcome)

            Thread(target=do, name=f"tool {name}", daemon=True).start()
            try:
                outcome = await ended
            except asyncio.CancelledError:
                self._adrift += ended.cancelled()
                raise
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    def _take(self, name: str, ended: asyncio.Future[_Ended], outcome: _Ended) -> None:
        if not ended.cancelled():
            ended.set_result(outcome)
            return
        self._adrift -= 1
        how = "with an error" if outcome.error else "with a result"
        log.warning("tool %s ended %s after its call was given up; that counts no longer", name, how)


def _outcome_of(work: Callable[[], object]) -> _Ended:
    try:
        return _Ended(work())
    except (Exception, Unwind) as error:  # a tool's own: it is told where it was called
        return _Ended(error=error)
    except BaseException as error:  # it is about this thread, and would end the whole process there
        return _Ended(error=ended_itself(error))


def ended_itself(error: BaseException) -> ToolFailed:
    """What is told of code that meant to end more than its own call."""
    return ToolFailed(f"it ended itself with {type(error).__name__}({error})")


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
