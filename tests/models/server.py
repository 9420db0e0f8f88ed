"""A model server on loopback that says what it is told, stalls, errs and breaks off.

What it says unless told otherwise is OpenAI's chat completions; other formats are in `servers`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = Mapping[str, Any]
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def chunk(delta: Json | None = None, finish: str | None = None, **more: object) -> dict[str, Any]:
    """A chunk as OpenAI documents it."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1893456000, "model": "served-1"}
    return {**head, "choices": choices, **more}


def calling(*calls: Json) -> dict[str, Any]:
    return chunk({"tool_calls": list(calls)})


def sse(*events: Json | str) -> bytes:
    lines = (event if isinstance(event, str) else json.dumps(event, ensure_ascii=False) for event in events)
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def answer(*deltas: Json, finish: str = "stop", usage: Json | None = USAGE) -> bytes:
    """A whole answer of these deltas."""
    first = chunk({"role": "assistant", "content": ""})
    counted = [chunk(usage=usage)] if usage else []
    return sse(first, *(chunk(delta) for delta in deltas), chunk({}, finish), *counted, "[DONE]")


def saying(*texts: str, **more: Any) -> bytes:
    return answer(*({"content": text} for text in texts), **more)


def failing(status: int, error: object, **headers: str) -> Reply:
    body = error if isinstance(error, bytes) else json.dumps(error).encode()
    return Reply([body], status=status, content_type="application/json", headers=headers)


@dataclass(frozen=True)
class Reply:
    """What is answered to one request: bytes are written as they are, events waited for."""

    body: Sequence[bytes | asyncio.Event]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs_up: bool = False
    """The connection is cut where the body ends, instead of ending the body."""
    before: asyncio.Event | None = None
    """Nothing at all is said until this happens."""


@dataclass
class Server:
    """Answers each request with the next reply, the last one again and again."""

    url: str = ""
    """Where OpenAI's format is."""
    root: str = ""
    replies: list[Reply] = field(default_factory=lambda: [Reply([saying("Hello", " there")])])
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody hung up before the answer was complete."""

    def will(self, *replies: Reply | bytes) -> None:
        self.replies = [reply if isinstance(reply, Reply) else Reply([reply]) for reply in replies]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        self.headers.append(request.headers)
        self.paths.append(request.path_qs)
        self.connections.add(request.transport)
        self.came.set()
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        try:
            return await self._answer(request, reply)
        except (asyncio.CancelledError, ConnectionResetError):
            self.left.set()
            raise

    async def _answer(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        if reply.before:
            await reply.before.wait()
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        response.content_type = reply.content_type
        await response.prepare(request)
        for part in reply.body:
            if isinstance(part, bytes):
                await response.write(part)
            else:
                await part.wait()
        if reply.hangs_up:
            assert request.transport
            request.transport.close()
        else:
            await response.write_eof()
        return response


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.root = f"http://127.0.0.1:{runner.addresses[0][1]}"
    server.url = f"{server.root}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()
