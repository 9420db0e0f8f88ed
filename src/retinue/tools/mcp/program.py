"""A server that is a program: started here, talked to over its stdin and stdout, and always ended.

The SDK can do this too, but a message without an end would fill the memory there, and block everybody on the way.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from retinue.core.mcp import McpServer
from retinue.tools.mcp.watch import Watch

CHUNK = 64 * 1024
LONGEST_MESSAGE = 32 * 1024 * 1024
LONGEST_SAID = 8 * 1024
UNREAD = 1_000
"""Messages that wait for a program which reads none; a call that is given up must not wait for it."""
GRACE = 2.0
"""Seconds between asking it to end and telling it to, and then between that and killing it."""
LOOK = 0.01
MORE_ENVIRONMENT = ("LANG", "LC_ALL", "TMPDIR", "TZ")

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class _TooLong(Exception):
    """A message that is longer than is taken."""


@asynccontextmanager
async def program(server: McpServer, folder: Path, watch: Watch) -> AsyncGenerator[Streams]:
    """The program, running, as the two streams of a session."""
    with anyio.CancelScope(shield=True):  # a program that has been started is known, and can be ended
        process = await _start(server, folder)
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](UNREAD)
    async with incoming, received, outgoing, to_send, anyio.create_task_group() as group:
        group.start_soon(_read, process, incoming, watch)
        group.start_soon(_write, process, to_send)
        group.start_soon(_hear, process, watch)
        try:
            yield received, outgoing
        finally:
            received.close()
            with anyio.CancelScope(shield=True):
                await _stop(process)
            group.cancel_scope.cancel()


async def _start(server: McpServer, folder: Path) -> Process:
    environment = environment_of(server)
    there = folder / (server.cwd or "")
    assert server.command is not None
    return await asyncio.create_subprocess_exec(
        _executable(server.command, there, environment),
        *server.args,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=environment,
        cwd=there,
        start_new_session=True,  # so that what it starts can be ended with it
    )


def environment_of(server: McpServer) -> dict[str, str]:
    """What a program cannot do without, and what is declared for it: nothing else of this process is its business."""
    more = {name: os.environ[name] for name in MORE_ENVIRONMENT if name in os.environ}
    return get_default_environment() | more | dict(server.env)


def _executable(command: str, folder: Path, environment: dict[str, str]) -> str:
    """A path is from the folder that the program is started in."""
    path = str((folder / command).absolute()) if os.path.dirname(command) else command
    found = shutil.which(path, path=environment.get("PATH"))
    if found is None:
        raise RuntimeError(f"there is no program {command}")
    return found


async def _read(process: Process, incoming: Incoming, watch: Watch) -> None:
    """Its messages. When the session wants none any more, what comes is dropped, so that it can end."""
    assert process.stdout is not None
    why, wanted = "", True
    async with incoming:
        try:
            async for line in _lines(process.stdout, LONGEST_MESSAGE):
                try:
                    message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                except ValueError:
                    watch.strange(line[:LONGEST_SAID].decode(errors="replace"))
                    continue
                if wanted:
                    try:
                        await incoming.send(message)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        wanted = False
        except _TooLong:
            why = f"it sent a message of more than {LONGEST_MESSAGE // 2**20} MiB"
        except OSError as error:
            why = str(error)
        if wanted:
            watch.over(why or await _end_of(process))


async def _end_of(process: Process) -> str:
    if not await _gone(process, GRACE / 2):
        return "it closed its output"
    code = process.returncode or 0
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with code {code}"


async def _write(process: Process, to_send: Outgoing) -> None:
    """What is sent to it. That it reads no more is noticed where it is read from."""
    assert process.stdin is not None
    with suppress(OSError, RuntimeError):
        async for sent in to_send:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()


async def _hear(process: Process, watch: Watch) -> None:
    assert process.stderr is not None
    with suppress(OSError):
        async for line in _lines(process.stderr, LONGEST_SAID, cut=True):
            watch.said(line.decode(errors="replace"))


async def _lines(stream: asyncio.StreamReader, most: int, *, cut: bool = False) -> AsyncIterator[bytes]:
    """Line by line; one that is too long is an end, or with `cut` it is given in pieces."""
    parts: list[bytes] = []
    size = 0
    while chunk := await stream.read(CHUNK):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > most:
            if not cut:
                raise _TooLong
            yield b"".join(parts)
            parts, size = [], 0
    if size:
        yield b"".join(parts)


async def _stop(process: Process) -> None:
    """Close its input; what is still there after a while is told to end, and in the end killed, with its children."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _gone(process, GRACE):
        _signal(process, kill=False)
        if not await _gone(process, GRACE):
            _signal(process, kill=True)
            await _gone(process, GRACE)
    _signal(process, kill=True)  # what it has left behind
    # Children that got away may hold its pipes open; without this the transport would wait for them for ever.
    process._transport.close()  # type: ignore[attr-defined]
    await anyio.lowlevel.checkpoint()


async def _gone(process: Process, seconds: float) -> bool:
    """Whether it ends within a time. Waiting for it would also wait for whoever else holds its pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(LOOK)
    return process.returncode is not None


def _signal(process: Process, *, kill: bool) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL if kill else signal.SIGTERM)
