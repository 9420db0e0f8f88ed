"""The floor: the same HTTP calls with bare aiohttp, and one synced commit for each message."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import aiohttp

from bench.mock_server import receipts
from bench.models import LONG, QUESTION, bare_call
from bench.runs import EVENT_COLUMNS
from retinue.core.messages import Message, Text, ToolCall, ToolResult
from retinue.models.wire.openai_prompt import prompt
from retinue.ports.clock import SystemClock
from retinue.ports.models import ModelRequest, ToolSpec
from retinue.store import schema
from retinue.store.sql import dialect_of

NAME = "bare aiohttp and SQLite"
MODEL = "say-5"
LOOK = ToolSpec(name="look", description="Gives another number each time.")
REPLY = """
import aiohttp, asyncio, json, sys

async def main():
    body = {"model": "say-5", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    async with aiohttp.ClientSession() as session, session.post(sys.argv[1], json=body) as response:
        print(len(await response.read()))

asyncio.run(main())
"""


class Notebook:
    """A SQLite file with our schema, written to on a thread of its own."""

    def __init__(self, url: str) -> None:
        self._dialect, self._thread = dialect_of(url), ThreadPoolExecutor(1)
        self._connection = self._thread.submit(self._open).result()
        self._written = 0

    def _open(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._dialect.connect()
        schema.prepare(self._dialect, connection)
        return connection

    async def write(self) -> None:
        """One message, on disk when this returns."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._commit)

    def _commit(self) -> None:
        self._written += 1
        run_id = "run_" + "0" * 26
        row = (run_id, self._written, run_id, self._written, 1, SystemClock().now_ms(), "model.responded", '{"turn":1}')
        tx = self._dialect.begin(self._connection, 0, database_time=False)
        tx.insert("events", EVENT_COLUMNS, [row])
        self._dialect.commit(self._connection)

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.submit(self._connection.close).result()
        self._thread.shutdown()


async def submit_to_request(url: str, server: str, count: int, request: ModelRequest = QUESTION) -> float:
    """Milliseconds from the question until the server has the whole request, the median."""
    took, body = [], prompt(request, MODEL, "openai")
    with Notebook(url) as notebook:
        async with aiohttp.ClientSession() as session:
            for _ in range(count):
                receipts(server)
                began = time.monotonic()
                await notebook.write()
                await bare_call(session, server, body)
                took.append((receipts(server)[0] - began) * 1000)
    return statistics.median(took)


async def on_a_long_branch(url: str, server: str, count: int) -> float:
    """The same with a thousand messages, which are there already as they are sent."""
    return await submit_to_request(url, server, count, LONG)


async def submit_to_word(url: str, server: str, count: int) -> float:
    """Milliseconds from the question until the first word is here, the median."""
    took, body = [], prompt(QUESTION, MODEL, "openai")
    with Notebook(url) as notebook:
        async with aiohttp.ClientSession() as session:
            for _ in range(count):
                began = time.perf_counter()
                await notebook.write()
                before = time.perf_counter() - began
                first, _whole = await bare_call(session, server, body)
                took.append((before + first) * 1000)
    return statistics.median(took)


async def at_once(url: str, server: str, runs: int, concurrency: int) -> float:
    """Questions and answers a second, each of both on disk, so many under way at once."""
    body = prompt(QUESTION, MODEL, "openai")
    place = asyncio.Semaphore(concurrency)
    connector = aiohttp.TCPConnector(limit=concurrency)
    with Notebook(url) as notebook:
        async with aiohttp.ClientSession(connector=connector) as session:

            async def one() -> None:
                async with place:
                    await notebook.write()
                    await bare_call(session, server, body)
                    await notebook.write()

            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(runs):
                    tasks.create_task(one())
            return runs / (time.perf_counter() - began)


async def tool_turns(url: str, server: str, turns: int) -> float:
    """Seconds for each turn of a conversation with a tool: the same requests, and one commit for each message."""
    took = []
    with Notebook(url) as notebook:
        async with aiohttp.ClientSession() as session:
            for _ in range(12):
                bodies = [prompt(_after(n), f"calls-{turns}", "openai") for n in range(turns + 1)]
                began = time.perf_counter()
                for body in bodies:
                    await notebook.write()
                    await bare_call(session, server, body)
                    await notebook.write()
                took.append((time.perf_counter() - began) / (turns + 1))
    return statistics.median(took[2:])


async def runs_of_turns(url: str, server: str, runs: int, concurrency: int) -> float:
    """Runs of three turns a second, so many under way at once, with one commit for each message."""
    bodies = [prompt(_after(n), "calls-2", "openai") for n in range(3)]
    questions = iter(range(runs))
    connector = aiohttp.TCPConnector(limit=concurrency)
    with Notebook(url) as notebook:
        async with aiohttp.ClientSession(connector=connector) as session:

            async def one_after_another() -> None:
                for _ in questions:
                    for body in bodies:
                        await notebook.write()
                        await bare_call(session, server, body)
                        await notebook.write()

            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(concurrency):
                    tasks.create_task(one_after_another())
            return runs / (time.perf_counter() - began)


def _after(calls: int) -> ModelRequest:
    """What is asked when so many calls have been made."""
    said: list[Message] = [Message(role="user", parts=(Text(text="question"),))]
    for n in range(calls):
        call = ToolCall(call_id=f"call_{n}", tool="look", arguments={})
        said += [
            Message(role="model", parts=(call,)),
            Message(role="tool", parts=(ToolResult(call_id=call.call_id, ok=True, result=n),)),
        ]
    return ModelRequest(messages=tuple(said), instructions="You work.", tools=(LOOK,))


def first_reply(server: str) -> float:
    """Seconds of a whole process that imports aiohttp, asks and prints."""
    command = [sys.executable, "-c", REPLY, f"{server}/chat/completions"]
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began
