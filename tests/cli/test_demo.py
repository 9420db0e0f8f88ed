"""`retinue demo`: two workers in processes of their own, the first of which is killed in the middle of its answer."""

from __future__ import annotations

import asyncio

import pytest

from tests.models.server import Reply, Server, chunk, saying, sse

from .conftest import Terminal

pytestmark = pytest.mark.slow
HALF = "A lighthouse is a tower that shows ships where the"
WHOLE = f"{HALF} rocks are."


def test_the_answer_comes_in_spite_of_a_kill_and_it_is_said_where_it_is(retinue: Terminal, provider: Server) -> None:
    provider.will(Reply([sse(chunk({"role": "assistant", "content": HALF})), asyncio.Event()]), saying(WHOLE))
    said = retinue("demo", "--model", "openai:any")
    assert (said.code, len(provider.asked)) == (0, 2)
    steps = (
        "A worker process answers",
        HALF,
        "kill -9",
        "took the run over: crash, attempt 2",
        WHOLE,
        "What is stored",
    )
    places = [said.out.index(step, 0 if step != WHOLE else said.out.index("kill -9")) for step in steps]
    assert places == sorted(places)
    (line,) = [line for line in said.out.splitlines() if "threads show" in line]
    shown = retinue(*line.split("retinue ")[1].replace("'", "").split(), "--json").json["messages"]
    assert shown[-1]["parts"][0]["text"] == WHOLE


def test_what_is_done_too_soon_to_be_killed_is_said_to_be(retinue: Terminal, provider: Server) -> None:
    said = retinue("demo", "Hello?", "--model", "openai:any")
    assert (said.code, "ask for something longer" in said.out) == (0, True)
