"""Servers on loopback that answer as told, and names that mean what a test says."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer

from retinue.files.config import FetchConfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Web:
    """A server: what it has at which path, and which paths it was asked for."""

    at: dict[str, Handler | web.Response] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""
    port: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        found = self.at.get(request.path)
        if found is None:
            return web.Response(status=404)
        if isinstance(found, web.Response):
            return web.Response(status=found.status, body=found.body, headers=found.headers)
        return await found(request)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def allowed(self, **limits: float) -> FetchConfig:
        """The settings under which it may be fetched from."""
        return FetchConfig(allow_private=(self.place,), **limits)  # type: ignore[arg-type]


@asynccontextmanager
async def web_server() -> AsyncIterator[Web]:
    said = Web()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", said.answer)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0)
    said.port = server.port or 0
    said.url = f"http://{said.place}"
    try:
        yield said
    finally:
        await server.close()


@asynccontextmanager
async def raw_server(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """A server that need not speak HTTP: its address and port."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


class Names(AbstractResolver):
    """Names and their addresses; a name with several answers gives the next one each time."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._names = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self._names.get(host)
        if not answers:
            raise OSError(None, "no such name")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        return


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)
