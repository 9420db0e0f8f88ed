"""Functions that block, in threads of their own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from retinue.errors import ToolFailed, Unwind

log = logging.getLogger("retinue")
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

    async def run(self, what: str, work: Callable[[], object]) -> object:
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
                    loop.call_soon_threadsafe(self._take, what, ended, outcome)

            Thread(target=do, name=what, daemon=True).start()
            try:
                outcome = await ended
            except asyncio.CancelledError:
                self._adrift += ended.cancelled()
                raise
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    def _take(self, what: str, ended: asyncio.Future[_Ended], outcome: _Ended) -> None:
        if not ended.cancelled():
            ended.set_result(outcome)
            return
        self._adrift -= 1
        how = "with an error" if outcome.error else "with a result"
        log.warning("%s ended %s after its call was given up; that counts no longer", what, how)


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
