"""llama.cpp in this process, through the server object of `xllamacpp`: loaded once for each file, asked in turn.

What that object does by itself, and what is done about it here:
- It opens a port. It gets a socket of its own instead, which is taken away at once, and a key besides.
- Errors are chunks like others, and what a callback raises is lost. Each chunk is looked at, and ours raises nothing.
- Ended right after its beginning it never ends. So it is asked something small first.
- It calls back between batches of a prompt only: with small ones an answer that nobody wants any more ends soon.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import secrets
import sys
import tempfile
import threading
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from retinue.models.gguf import context_of

Json = Mapping[str, Any]

CONTEXT = 8192
"""The longest conversation, in tokens, also of models that were trained on longer ones: memory is taken for it."""
BATCH = 64
CACHE_MIB = 256
"""For beginnings of prompts that were read before."""
QUIET = 0
LONGEST_SOCKET = 100
"""Operating systems take no longer path for one."""


@functools.cache
def llama_of(path: Path) -> Llama:
    """The one of a file: whoever asks for the same file shares it."""
    return Llama(path)


def context_here(path: Path) -> int:
    """How many tokens a conversation can have with the model of a file. Raises `BadFile`."""
    return min(context_of(path) or CONTEXT, CONTEXT)


class Rejected(ValueError):
    """The library does not take the question."""


class Failed(RuntimeError):
    """The library could not load the file, or not answer."""


class Llama:
    """A model file, and what runs it from the first question on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._server: Any = None
        self._loading = threading.Lock()
        self._turns = Turns()

    async def chunks(self, question: Json, timeout: float | None = None) -> AsyncGenerator[Json, None]:
        """What it says, chunk by chunk, as the library gives it. Closing this stops it at its source.

        Raises `Rejected`, `Failed`, or `TimeoutError` when nothing came for so long. Waiting in line does not count.
        """
        server = self._server or await asyncio.to_thread(self._load)
        await self._turns.take()
        asking = _Asking(server, question, self._turns)
        try:
            while (chunk := await asking.next(timeout)) is not None:
                yield chunk
            if asking.error:
                raise asking.error
        finally:
            asking.stop()

    def _load(self) -> Any:
        with self._loading:
            if self._server is None:
                self._server = _loaded(self._path)
                atexit.register(self._end)
            return self._server

    def _end(self) -> None:
        """While the interpreter still stands: what runs on behind its back when it falls ends the process badly."""
        self._server = None


def _loaded(path: Path) -> Any:
    import xllamacpp  # an extra

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context_here(path)
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    params.cache_ram_mib = CACHE_MIB
    # Its threads wait for each other by spinning: where others need the cores too, more of them are slower, not faster.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, _cores() // 2)
    params.n_threads_http = 1
    params.warmup = False
    params.verbosity = QUIET
    params.api_keys = [secrets.token_urlsafe(32)]
    params.ui = params.endpoint_slots = False
    params.endpoint_metrics = True
    params.port = 0
    with tempfile.TemporaryDirectory(prefix="retinue-") as folder:
        socket = str(Path(folder) / "llama.sock")
        if sys.platform != "win32" and len(socket) < LONGEST_SOCKET:
            params.hostnames = [socket]
        try:
            server = xllamacpp.Server(params)
        except RuntimeError:
            raise Failed(f"llama.cpp cannot load {path}") from None
    server.handle_metrics()
    return server


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


class _Asking:
    """One question, in a thread of its own, until it is answered or stopped. Its turn ends with the thread."""

    def __init__(self, server: Any, question: Json, turns: Turns) -> None:
        self.error: Exception | None = None
        self._chunks: asyncio.Queue[Json | None] = asyncio.Queue()
        self._server, self._question, self._turns = server, question, turns
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        try:
            threading.Thread(target=self._ask, name="retinue-llama").start()
        except RuntimeError as error:  # there are too many threads already
            turns.give_back()
            raise Failed(str(error)) from None

    async def next(self, timeout: float | None) -> Json | None:
        async with asyncio.timeout(timeout):
            return await self._chunks.get()

    def stop(self) -> None:
        self._stopped = True

    def _ask(self) -> None:
        try:
            self._server.handle_chat_completions(self._question, self._hear)
        except ValueError as error:
            self.error = Rejected(_first_line(error))
        except RuntimeError as error:
            self.error = Failed(_first_line(error))
        finally:
            self._turns.give_back()
            self._tell(None)

    def _hear(self, chunk: Json) -> bool:
        """Called for each chunk, from outside of Python; true says stop. Nobody must wait for this when all ends."""
        if self._stopped or not threading.main_thread().is_alive():
            return True
        return not self._tell(chunk)

    def _tell(self, chunk: Json | None) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
        except RuntimeError:  # the loop is closed: nobody listens
            return False
        return True


class Turns:
    """One at a time, in the order of coming; also for those who come from several event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def take(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = loop.create_future()
            self._waiting.append((loop, mine))
        try:
            await mine
        except asyncio.CancelledError:
            with self._lock:
                waits = (loop, mine) in self._waiting
                if waits:
                    self._waiting.remove((loop, mine))
            if not waits and not mine.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """From any thread."""
        with self._lock:
            while self._waiting:
                loop, theirs = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(self._give, theirs)
                except RuntimeError:  # that loop is closed
                    continue
                return
            self._taken = False

    def _give(self, to: asyncio.Future[None]) -> None:
        if to.done():  # it went away in the meantime
            self.give_back()
        else:
            to.set_result(None)
