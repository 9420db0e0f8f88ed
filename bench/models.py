"""One model call beside the floor: the same HTTP call with bare aiohttp, to the same server in a process of its own."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing

import aiohttp

from bench.measure import Figure
from bench.mock_server import mock_server
from retinue.core.messages import Message, Text
from retinue.models.config import ModelsConfig, ProviderConfig
from retinue.models.names import ModelNames
from retinue.models.wire.openai_prompt import prompt
from retinue.ports.models import Model, ModelRequest, ModelResponse

OURS = "the wire adapter"
"""The targets are for it; what others need stands beside it."""
WAYS = {OURS: "openai", "Pydantic AI's classes": "openai-chat"}
"""Who asks, and as which provider."""
QUESTION = ModelRequest(messages=(Message(role="user", parts=(Text(text="hello"),)),))
LONG = ModelRequest(
    messages=tuple(
        Message(role="model" if n % 2 else "user", parts=(Text(text="Some words of an earlier turn. " * 8),))
        for n in range(1001)
    )
)
CHUNKS, PACED, CALLS = 1000, 200, 100
Call = Callable[[], Awaitable[tuple[float, float]]]
"""Makes one call; gives the seconds until its first word and until its end."""


def figures(rounds: int) -> list[Figure]:
    values: dict[tuple[str, str], list[float]] = {}
    with mock_server() as url:
        for _ in range(rounds):
            for row, value in asyncio.run(_round(url)).items():
                values.setdefault(row, []).append(value)
    return [
        Figure(f"{what}: {who}", found, UNITS[what][0], UNITS[what][1] if who == OURS else "")
        for (what, who), found in values.items()
    ]


UNITS = {
    "first token, over the floor": ("ms", "≤ 1"),
    f"each of {CHUNKS:,} chunks at once": ("µs", "≤ 15"),
    "CPU for each chunk, 1 ms apart": ("µs", "≤ 60"),
    "first token of a request with 1,001 messages, over the floor": ("ms", "2–3"),
    f"{CALLS} calls of 20 chunks at once, over the floor": ("ms", "11"),
}


async def _round(url: str) -> dict[tuple[str, str], float]:
    """Every row once, for the floor and for each way, in turn, so that all have the same machine."""
    first, chunk, paced, long, many = UNITS
    found: dict[tuple[str, str], float] = {}
    names = names_at(url)
    async with aiohttp.ClientSession() as session:

        def bare(model: str, request: ModelRequest = QUESTION) -> Call:
            body = prompt(request, model, "openai")
            return lambda: bare_call(session, url, body)

        def asked(way: str, model: str, request: ModelRequest = QUESTION) -> Call:
            return lambda: call(names.resolve(f"{WAYS[way]}:{model}"), request)

        calls = {way: {"short": asked(way, "say-20"), "long": asked(way, "say-1", LONG)} for way in WAYS}
        short = await medians({"": bare("say-20"), **{way: calls[way]["short"] for way in WAYS}}, 200)
        tall = await medians({"": bare("say-1", LONG), **{way: calls[way]["long"] for way in WAYS}}, 40)
        wide = await medians({"": bare(f"say-{CHUNKS}"), **{w: asked(w, f"say-{CHUNKS}") for w in WAYS}}, 20)
        crowd = {"": await at_once(bare("say-20")), **{way: await at_once(calls[way]["short"]) for way in WAYS}}
        found[chunk, "bare aiohttp, which reads none"] = wide[""][1] / CHUNKS * 1e6
        found[paced, "bare aiohttp, which reads none"] = await cpu(bare(f"pace-{PACED}-1")) / PACED * 1e6
        for way in WAYS:
            found[first, way] = (short[way][0] - short[""][0]) * 1e3
            found[chunk, way] = wide[way][1] / CHUNKS * 1e6
            found[paced, way] = await cpu(asked(way, f"pace-{PACED}-1")) / PACED * 1e6
            found[long, way] = (tall[way][0] - tall[""][0]) * 1e3
            found[many, way] = (crowd[way] - crowd[""]) * 1e3
    await names.close()
    return found


def names_at(url: str) -> ModelNames:
    """All ways to the server."""
    there = ProviderConfig(api_key="sk-mock", base_url=url)
    return ModelNames(config=ModelsConfig(providers=dict.fromkeys(WAYS.values(), there)))


async def call(model: Model, request: ModelRequest = QUESTION) -> tuple[float, float]:
    """Ask; seconds until the first piece, and until the answer is whole."""
    began, first, whole = time.perf_counter(), 0.0, False
    async with aclosing(model.ask(request)) as saying:
        async for said in saying:
            first = first or time.perf_counter()
            whole = isinstance(said, ModelResponse)
    assert whole, "it gave no answer"
    return first - began, time.perf_counter() - began


async def bare_call(session: aiohttp.ClientSession, url: str, body: bytes) -> tuple[float, float]:
    """The same without looking at what comes."""
    began, first = time.perf_counter(), 0.0
    headers = {"Content-Type": "application/json"}
    async with session.post(f"{url}/chat/completions", data=body, headers=headers) as response:
        async for _ in response.content.iter_any():
            first = first or time.perf_counter()
    return first - began, time.perf_counter() - began


async def medians(calls: Mapping[str, Call], times: int) -> dict[str, tuple[float, float]]:
    """Median seconds until the first word and until the end, by turns."""
    took: dict[str, list[tuple[float, float]]] = {who: [] for who in calls}
    for _ in range(times + 3):
        for who, make in calls.items():
            took[who].append(await make())
    return {who: (_median(t[3:], 0), _median(t[3:], 1)) for who, t in took.items()}


def _median(took: list[tuple[float, float]], which: int) -> float:
    return statistics.median(one[which] for one in took)


async def at_once(make: Call) -> float:
    """Median seconds of many calls at once; the first time opens their connections."""
    took = []
    for _ in range(6):
        began = time.perf_counter()
        await asyncio.gather(*(make() for _ in range(CALLS)))
        took.append(time.perf_counter() - began)
    return statistics.median(took[1:])


async def cpu(make: Call) -> float:
    """Seconds of this process's CPU for one call."""
    await make()
    took = []
    for _ in range(3):
        began = time.process_time()
        await make()
        took.append(time.process_time() - began)
    return statistics.median(took)
