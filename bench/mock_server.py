"""A model server that costs next to nothing, in a process of its own. It speaks OpenAI's chat completions.

`python -m bench.mock_server` prints its address when it is ready. The name of the model says what it does:

    say-N        an answer of N chunks, all at once
    pace-N-MS    an answer of N chunks, MS milliseconds apart
    calls-N      calls the first tool of the request until N results are in it, then says “done”

`GET /receipts` gives the times (of the machine's monotonic clock) at which requests were there whole, since last asked.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_length = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
_model = re.compile(rb'"model": ?"([^"]*)"')
_tool = re.compile(rb'"function": ?\{"name": ?"([^"]*)"')
_result = re.compile(rb'"role": ?"tool"')

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


class Receipts:
    """When requests arrived."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def take(self) -> bytes:
        times, self.times = self.times, []
        return json.dumps(times).encode()


class Connection(asyncio.Protocol):
    """Reads requests, one after the other, and answers each."""

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts
        self._got = bytearray()
        self._transport: asyncio.Transport | None = None
        self._pacing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._pacing:
            self._pacing.cancel()

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._got[:end])
        found = _length.search(head)
        whole = end + 4 + (int(found[1]) if found else 0)
        if len(self._got) < whole:
            return
        body = bytes(self._got[end + 4 : whole])
        del self._got[:whole]
        if head.startswith(b"GET /receipts "):
            self._write(_plain(self._receipts.take()))
        else:
            self._receipts.times.append(time.monotonic())
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        model = _model.search(body)
        kind, *numbers = (model[1].decode() if model else "say-1").split("-")
        if kind == "pace":
            self._pace(int(numbers[0]), int(numbers[1]) / 1000)
        elif kind == "calls" and len(_result.findall(body)) < int(numbers[0]):
            tool = _tool.search(body)
            self._write(HEAD + _calling((tool[1] if tool else b"none").decode(), len(_result.findall(body))))
        else:
            self._write(HEAD + saying(int(numbers[0]) if kind == "say" else 1))

    def _pace(self, count: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        chunks = iter(_chunks(count))
        due = loop.time()

        def next_chunk() -> None:
            nonlocal due
            chunk = next(chunks, None)
            if chunk is None:
                self._write(_tail(count))
                return
            self._write(chunk)
            due += seconds
            self._pacing = loop.call_at(due, next_chunk)

        self._write(HEAD + _chunk({"role": "assistant", "content": ""}))
        next_chunk()

    def _write(self, data: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.write(data)


def _plain(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _chunk(delta: dict[str, object], finish: str | None = None, usage: dict[str, int] | None = None) -> bytes:
    """One event, as a chunk of its own, which is how servers send them."""
    choices = [] if usage else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    said = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1893456000,
        "model": "mock",
        "system_fingerprint": "fp_1",
        "choices": choices,
        "usage": usage,
    }
    return _framed(json.dumps(said, separators=(",", ":")).encode())


def _framed(data: bytes) -> bytes:
    event = b"data: %b\n\n" % data
    return b"%x\r\n%b\r\n" % (len(event), event)


@cache
def _chunks(count: int) -> tuple[bytes, ...]:
    return tuple(_chunk({"content": f" word{n}"}) for n in range(count))


@cache
def _tail(count: int) -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": count, "total_tokens": 10 + count}
    return _chunk({}, "stop") + _chunk({}, usage=usage) + _framed(b"[DONE]") + LAST


@cache
def saying(count: int) -> bytes:
    """The body of an answer of so many chunks."""
    return _chunk({"role": "assistant", "content": ""}) + b"".join(_chunks(count)) + _tail(count)


def _calling(tool: str, number: int) -> bytes:
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    said = _chunk({"role": "assistant", "content": None, "tool_calls": [call]}) + _chunk({}, "tool_calls")
    return said + _chunk({}, usage=usage) + _framed(b"[DONE]") + LAST


async def serve() -> None:
    receipts = Receipts()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(receipts), "127.0.0.1", 0, backlog=1000)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


@contextmanager
def mock_server() -> Iterator[str]:
    """The address of one that runs as long as the block does."""
    command = [sys.executable, "-m", "bench.mock_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate()


def receipts(url: str) -> list[float]:
    """When the requests since the last time were there."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/receipts") as response:
        times: list[float] = json.load(response)
        return times


if __name__ == "__main__":
    asyncio.run(serve())
