"""Connections: kept while they are good, cut when nobody listens any more."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from retinue.errors import ModelError
from retinue.ports.models import Piece
from tests.models.server import Reply, Server, chunk, failing, saying, sse
from tests.models.wire.conftest import KEY, Wire, asks, told

START = sse(chunk({"content": "some words"}))


async def test_what_the_provider_wants_in_a_header_is_there(server: Server, wire: Wire) -> None:
    await wire.ask()
    (headers,) = server.headers
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Content-Type"] == "application/json"
    assert "gzip" not in headers.get("Accept-Encoding", "")


async def test_one_connection_serves_one_call_after_the_other(server: Server, wire: Wire) -> None:
    model = wire.chat()
    for _ in range(5):
        await told(model, asks("hello"))
        await asyncio.sleep(0)
    assert len(server.connections) == 1


async def test_a_connection_is_kept_when_its_last_bytes_come_late(server: Server, wire: Wire) -> None:
    """The answer is there with its last word, whatever the server still has to say."""
    end = asyncio.Event()
    server.will(Reply([saying("Hello"), end]), saying("again"))
    model = wire.chat()
    await told(model, asks("hello"))
    end.set()
    (client,) = wire.clients
    await client.settled()
    await told(model, asks("hello"))
    assert len(server.connections) == 1


async def test_an_error_does_not_cost_the_connection(server: Server, wire: Wire) -> None:
    server.will(failing(400, {"error": "no"}), saying("yes"))
    model = wire.chat()
    with pytest.raises(ModelError):
        await told(model, asks("hello"))
    await told(model, asks("hello"))
    assert len(server.connections) == 1


async def test_closing_the_answer_stops_it_at_the_server(server: Server, wire: Wire) -> None:
    server.will(Reply([START, asyncio.Event()]))
    async with aclosing(wire.chat().ask(asks("hello"))) as said:
        assert await anext(said) == Piece("some words")
    await server.left.wait()


@pytest.mark.parametrize("reply", [Reply([START, asyncio.Event()]), Reply([], before=asyncio.Event())])
async def test_cancelling_the_reader_stops_the_server(server: Server, wire: Wire, reply: Reply) -> None:
    server.will(reply)
    asking = asyncio.create_task(told(wire.chat(), asks("hello")))
    await server.came.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await server.left.wait()


async def test_a_kept_connection_that_the_server_closed_meanwhile_is_no_error(server: Server, wire: Wire) -> None:
    """It closes just when the next request is on its way: nobody has read that, so it is sent again."""
    heard = 0

    async def once_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        while head := await reader.readuntil(b"\r\n\r\n"):
            heard += 1
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            if heard == 2:
                break
            body = saying("Hello")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(once_each, "127.0.0.1", 0) as listening:
        model = wire.chat(url=f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1")
        await told(model, asks("hello"))
        await told(model, asks("hello"))
        assert heard == 3
        await wire.clients.pop().close()


async def test_a_proxy_is_asked_for_the_way(server: Server, wire: Wire) -> None:
    heads = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        body = saying("Hello")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as listening:
        address = f"http://me:word@127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        await wire.ask(url="http://model.example/v1", proxy=address)
    assert heads[0].startswith(b"POST http://model.example/v1/chat/completions HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic bWU6d29yZA==\r\n" in heads[0]


async def test_a_hundred_calls_at_once(server: Server, wire: Wire) -> None:
    model = wire.chat()
    answers = await asyncio.gather(*(told(model, asks(str(n))) for n in range(100)))
    assert {response.parts[0].text for _, response in answers} == {"Hello there"}  # type: ignore[union-attr]


async def test_closing_lets_go_of_everything(server: Server, wire: Wire) -> None:
    server.will(Reply([saying("Hello"), asyncio.Event()]))
    await wire.ask()
    (client,) = wire.clients
    await client.close()
    await server.left.wait()
    await client.close()
