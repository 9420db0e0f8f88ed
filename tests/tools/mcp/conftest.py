"""Servers in processes of their own, and a pool that is always closed."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

import pytest

from retinue.core.mcp import McpServer
from retinue.testing.clock import SetClock
from retinue.tools.mcp.pool import McpPool
from tests.tools.mcp.everything import NODE, installed

PLAIN = Path(__file__).parent / "servers" / "plain.py"
SDK = Path(__file__).parent / "servers" / "sdk.py"
Pools = Callable[..., McpPool]


def plain(*how: str, name: str = "plain", **keys: object) -> McpServer:
    """A server written by hand, which does whatever it is told to."""
    return McpServer.parse(name, {"command": sys.executable, "args": [str(PLAIN), *how], **keys})


def website(address: str, **keys: object) -> McpServer:
    """A server made with the SDK, which is running there."""
    return McpServer.parse("web", {"url": f"{address}/mcp", **keys})


def sdk() -> McpServer:
    """A server made with the SDK, over stdio."""
    return McpServer.parse("sdk", {"command": sys.executable, "args": [str(SDK)]})


@contextmanager
def serving(*kinds: str) -> Iterator[dict[str, str]]:
    """Servers made with the SDK, all in one process, by kind."""
    with Popen([sys.executable, str(SDK), *kinds], stdout=PIPE, stderr=DEVNULL) as process:
        assert process.stdout is not None
        yield dict(json.loads(process.stdout.readline()) for _ in kinds)
        process.kill()


@pytest.fixture(scope="session")
def websites() -> Iterator[dict[str, str]]:
    with serving("streamed", "json", "header", "broken", "oauth", "oauth-refresh") as addresses:
        yield addresses


@pytest.fixture(scope="session")
def everything() -> McpServer:
    return McpServer(name="everything", command=str(NODE), args=(str(installed()),))


@pytest.fixture
async def pools(clock: SetClock) -> AsyncIterator[Pools]:
    """Makes pools on the hand-set clock."""
    made: list[McpPool] = []

    def pool(*servers: McpServer, secrets: dict[str, str] | None = None, folder: Path | None = None) -> McpPool:
        made.append(McpPool({server.name: server for server in servers}, secrets, clock, folder))
        return made[-1]

    yield pool
    for one in made:
        await one.close()


@contextmanager
def everything_at(everything: McpServer, port: int = 0) -> Iterator[str]:
    """The same over streamable HTTP."""
    assert everything.command is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = port or free.getsockname()[1]
    command = [everything.command, *everything.args, "streamableHttp"]
    environment = {**os.environ, "PORT": str(port)}
    with Popen(command, env=environment, stdout=DEVNULL, stderr=PIPE) as process:
        assert process.stderr is not None
        assert b"listening" in process.stderr.readline()
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


@pytest.fixture(scope="session")
def everything_url(everything: McpServer) -> Iterator[str]:
    with everything_at(everything) as url:
        yield url
