"""Long runs: prompts are shortened before they no longer fit, the journal keeps every byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

from retinue import Retinue, tool
from retinue.core import events as e
from retinue.core.compaction import CHECK, SUMMARISE, CompactionConfig
from retinue.core.messages import Message, ToolCall, ToolResult
from retinue.errors import ModelUnavailable
from retinue.models.estimate import input_tokens, used
from retinue.ports.models import ModelRequest, Takes
from retinue.settings import Settings
from retinue.testing import Reply, SetClock, call
from tests.agents.acting import finish, guide, told
from tests.agents.pace import NEVER, Paced, said_to, until
from tests.outside import data_of, doomed, ended

SUMMARY = Reply(pieces=["I have read many pages."])
CHECKED = Reply(pieces=["I have read many pages, the last was ", "the last one."])
WINDOW = 100_000


@tool(effect="read")
async def read(page: int, length: int = 50_000) -> str:
    """Reads a page."""
    return f"page {page}:".ljust(length, "x")


class Reader(Paced):
    """Reads so many pages, one in each turn, says how many tokens it was given, and shortens its history when asked."""

    def __init__(
        self,
        clock: SetClock,
        pages: int,
        *,
        length: int = 50_000,
        shortens: Sequence[Reply] = (SUMMARY, CHECKED),
        window: int | None = WINDOW,
        last: Any = None,
    ) -> None:
        super().__init__(clock, takes=Takes(context_tokens=window))
        self.turns: list[Any] = [call("read", page=n, length=length) for n in range(pages)]
        self.last, self.shortens, self.asides = last or finish(), shortens, list[ModelRequest]()

    def _next(self, request: ModelRequest) -> Reply:
        if request.instructions in (SUMMARISE, CHECK):
            self.asides.append(request)
            return self.shortens[0 if request.instructions is SUMMARISE else -1]
        self.requests.append(request)
        turn = len(self.requests)
        line: Any = self.turns[turn - 1] if turn <= len(self.turns) else self.last
        line = line(request) if callable(line) else line
        reply = line if isinstance(line, Reply) else Reply(calls=[line])
        return replace(reply, usage=used(request, 100))


@asynccontextmanager
async def reading(clock: SetClock, model: Reader, url: str = "sqlite://", **config: Any) -> AsyncIterator[Retinue]:
    async with Retinue.open(url, **parts(clock, model, **config)) as app:
        yield app


def parts(clock: SetClock, model: Reader, **config: Any) -> dict[str, Any]:
    settings = Settings(compaction=CompactionConfig(**config))
    agent = guide(tools=[read], limits={"max_turns": 5000})
    return {"clock": clock, "agents": [agent], "models": {"m": model}, "settings": settings}


def paired(messages: Sequence[Message]) -> bool:
    """Whether each answer with calls is followed by their results, in their order, and nothing else has any."""
    asked: list[str] = []
    for message in messages:
        results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if results != asked:
            return False
        asked = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
    return not asked


def first_result(request: ModelRequest) -> ToolResult:
    return next(part for message in request.messages for part in message.parts if isinstance(part, ToolResult))


async def test_L33_a_long_prompt_shrinks_and_the_run_goes_on(clock: SetClock) -> None:
    model = Reader(clock, 80)
    async with reading(clock, model) as app:
        run = await app.submit("agent:guide", "read it all")
        assert (await ended(app, run)).reason == "goal"
        assert len(model.requests) == 81
        sizes = [input_tokens(request) for request in model.requests]
        assert max(sizes) < WINDOW * 0.7
        assert any(after < before / 2 for before, after in pairwise(sizes))
        assert all(paired(request.messages) for request in model.requests)
        assert {said_to(request)[0] for request in model.requests} == {"read it all"}
        assert len({request.instructions for request in model.requests}) == 1
        pages = [done.result for done in await data_of(run, e.ToolFinished)][:-1]
        assert pages == [f"page {n}:".ljust(50_000, "x") for n in range(80)]


async def test_results_go_before_anything_is_summarised_and_can_be_read_again(clock: SetClock) -> None:
    model = Reader(clock, 6)
    model.turns.append(lambda request: call("read_result", call_id=first_result(request).call_id, offset=40_000))
    async with reading(clock, model, results=20_000) as app:
        run = await app.submit("agent:guide", "read it all")
        await ended(app, run)
        (moved, *_) = await data_of(run, e.HistoryCompacted)
        assert (moved.summary, moved.tokens_after < moved.tokens_before) == ("", True)
        assert "read_result" not in [tool.name for tool in model.requests[0].tools]
        shortened = next(request for request in model.requests if "read_result" in [t.name for t in request.tools])
        first = first_result(shortened)
        assert first.call_id == moved.moved[0]
        assert str(first.result).startswith("page 0:")
        assert str(first.result).endswith(f'[read_result(call_id="{first.call_id}") gives the whole of it]')
        assert len(str(first.result)) < 2_200
        assert told(model.requests[7]) == ["x" * 10_000]


async def test_a_summary_is_checked_and_stands_for_what_was_said(clock: SetClock) -> None:
    model = Reader(clock, 40, length=4_000)
    async with reading(clock, model, threshold=0.2, keep=0.3) as app:
        run = await app.submit("agent:guide", "read it all")
        assert (await ended(app, run)).reason == "goal"
        first, check = model.asides[:2]
        assert (first.instructions, check.instructions) == (SUMMARISE, CHECK)
        assert said_to(check)[0].startswith("THE SOURCE\nTHE TASK\nread it all\n\nMODEL\ncalls read with")
        assert said_to(check)[0].endswith("THE SUMMARY\nI have read many pages.")
        summary = (await data_of(run, e.HistoryCompacted))[0]
        assert (summary.ok, summary.summary) == (True, "I have read many pages, the last was the last one.")
        assert (summary.usage.calls, summary.upto > 1) == (2, True)
        after = next(request for request in model.requests if len(said_to(request)) > 1)
        assert said_to(after)[:2] == ["read it all", f"What happened so far, in short:\n{summary.summary}"]


async def test_a_later_summary_takes_the_earlier_one_over(clock: SetClock) -> None:
    model = Reader(clock, 80, length=4_000)
    async with reading(clock, model, threshold=0.2) as app:
        run = await app.submit("agent:guide", "read it all")
        await ended(app, run)
        uptos = [one.upto for one in await data_of(run, e.HistoryCompacted)]
        assert len(uptos) > 1
        assert uptos == sorted(uptos)
        assert said_to(model.asides[2])[0].startswith(
            "THE TASK\nread it all\n\n"
            "SUMMARY OF WHAT WENT BEFORE\nI have read many pages, the last was the last one.\n\nMODEL\ncalls read"
        )


async def test_L34_an_empty_summary_is_recorded_and_not_tried_again_at_once(clock: SetClock) -> None:
    model = Reader(clock, 60, length=4_000, shortens=[Reply(pieces=["  "])])
    async with reading(clock, model, threshold=0.3, results=1_000_000) as app:
        run = await app.submit("agent:guide", "read it all")
        assert (await ended(app, run)).reason == "goal"
        failed = await data_of(run, e.HistoryCompacted)
        assert {(one.ok, one.problem) for one in failed} == {(False, "the summary was empty")}
        sizes = [one.tokens_before for one in failed]
        assert len(sizes) > 1
        assert all(after >= before * 1.1 for before, after in pairwise(sizes))
        assert (await ended(app, run)).usage.calls == 61 + len(failed)


async def test_a_summary_that_is_longer_is_none(clock: SetClock) -> None:
    model = Reader(clock, 12, length=4_000, shortens=[Reply(pieces=["long " * 20_000])])
    async with reading(clock, model, threshold=0.1) as app:
        run = await app.submit("agent:guide", "read it all")
        assert (await ended(app, run)).reason == "goal"
        (failed, *_) = await data_of(run, e.HistoryCompacted)
        assert failed.problem == "the summary was not shorter than what it stands for"


async def test_a_model_that_cannot_summarise_now_does_not_end_the_run(clock: SetClock) -> None:
    down = Reply(error=ModelUnavailable(model="m", problem="it is down", retry_after=1000))
    async with reading(clock, Reader(clock, 12, length=4_000, shortens=[down]), threshold=0.1) as app:
        run = await app.submit("agent:guide", "read it all")
        assert (await ended(app, run)).reason == "goal"
        assert "it is down" in (await data_of(run, e.HistoryCompacted))[0].problem


async def test_a_summary_that_never_comes_ends_with_the_time_of_the_run(clock: SetClock) -> None:
    model = Reader(clock, 10, length=4_000, shortens=[NEVER])
    async with reading(clock, model, threshold=0.1) as app:
        run = await app.submit("agent:guide", "read it all", max_minutes=0.5)
        await until(lambda: len(model.asides) == 1)
        clock.advance(30)
        outcome = await ended(app, run)
        assert (outcome.reason, outcome.recovered) == ("timeout", True)
        assert (await data_of(run, e.HistoryCompacted))[0].problem == "it was interrupted"


async def test_one_huge_result_is_shortened_before_the_model_is_asked(clock: SetClock) -> None:
    model = Reader(clock, 1, length=1_000_000)
    async with reading(clock, model) as app:
        run = await app.submit("agent:guide", "read it all")
        assert (await ended(app, run)).reason == "goal"
        assert input_tokens(model.requests[1]) < 2_000
        (page, _) = await data_of(run, e.ToolFinished)
        assert len(page.result) == 1_000_000


async def test_a_summary_is_not_made_again_after_a_crash(file_url: str, clock: SetClock) -> None:
    model = Reader(clock, 20, length=4_000, last=NEVER)
    async with doomed(file_url, **parts(clock, model, threshold=0.1)) as app:
        run = await app.submit("agent:guide", "read it all")
        await until(lambda: len(model.requests) == 21)
    before = len(model.asides)
    model.last = finish()
    async with reading(clock, model, file_url, threshold=0.1) as app:
        assert (await ended(app, app.get(run.id))).reason == "goal"
        assert len(model.asides) == before
        assert model.requests[-1].messages == model.requests[-2].messages


async def test_without_a_window_nothing_is_shortened(clock: SetClock) -> None:
    model = Reader(clock, 20, window=None)
    async with reading(clock, model) as app:
        run = await app.submit("agent:guide", "read it all")
        await ended(app, run)
        assert await data_of(run, e.HistoryCompacted) == []
