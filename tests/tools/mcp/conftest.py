"""Servers in processes of their own, and a pool that is always closed."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
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


def sdk(*how: str, name: str = "sdk", **keys: object) -> McpServer:
    """A server made with the SDK."""
    return McpServer.parse(name, {"command": sys.executable, "args": [str(SDK), *how], **keys})


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


@pytest.fixture(scope="session")
def everything_url(everything: McpServer) -> Iterator[str]:
    """The same over streamable HTTP."""
    assert everything.command is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [everything.command, *everything.args, "streamableHttp"]
    environment = {**os.environ, "PORT": str(port)}
    with Popen(command, env=environment, stdout=DEVNULL, stderr=PIPE) as process:
        assert process.stderr is not None
        assert b"listening" in process.stderr.readline()
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()
