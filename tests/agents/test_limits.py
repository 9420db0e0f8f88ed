"""Budgets, calls that go in circles, and what an agent is told before it is too late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retinue import FunctionContext, Retinue, tool
from retinue.core import events as e
from retinue.core.outcome import Usage
from retinue.ports.models import ModelRequest
from retinue.ports.store import RunRow
from retinue.testing import Reply, SetClock, call
from tests.agents.acting import acting, finish
from tests.agents.pace import Paced, pass_slowly, said_to, until
from tests.outside import data_of, ended, outside, types_of


@tool(effect="read")
async def look(what: str = "") -> str:
    """Looks."""
    return f"saw {what}"


@tool(effect="read")
async def stare(at: str) -> str:
    """Sees nothing, wherever it looks."""
    return "nothing"


@tool(effect="read")
async def count() -> int:
    """Counts its calls."""
    outside.done.append(1)
    return len(outside.done)


class Paid(Paced):
    """A model that takes so many dollars for a request, and so many for each token of its answer."""

    base, each, tokens = 0.25, 0.0, 1000

    def at_most(self, request: ModelRequest) -> Usage:
        tokens = request.settings.max_tokens or self.tokens
        return Usage(calls=1, input_tokens=10, output_tokens=tokens, cost_usd=self.base + tokens * self.each)

    def _next(self, request: ModelRequest) -> Reply:
        usage = Usage(calls=1, input_tokens=10, output_tokens=10, cost_usd=self.base + 10 * self.each)
        return replace(super()._next(request), usage=usage)


async def row_of(app: Retinue, run_id: str) -> RunRow:
    row = await app.services.store.run(run_id)
    assert row
    return row


async def test_L41_the_call_that_would_pass_the_budget_is_not_made(clock: SetClock) -> None:
    model = Paid(clock, call("look"), call("look", what="more"), finish("so far"))
    async with acting(clock, model, tools=[look], limits={"max_cost_usd": 0.8}) as app:
        run = await app.submit("agent:guide", "go")
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason, outcome.recovered) == ("completed", "budget", True)
        assert (model.asked, outcome.usage.cost_usd) == (3, 0.75)  # the third from what was kept back
        assert [tool.name for tool in model.requests[2].tools] == ["complete_task"]
        assert "The budget for this task is spent. (max_cost_usd)" in said_to(model.requests[2])[-1]
        row = await row_of(app, run.id)
        assert (row.purse_spent, row.purse_held, row.reserved) == (750_000, 0, None)


async def test_L41_without_enough_for_a_last_word_there_is_none(clock: SetClock) -> None:
    model = Paid(clock, call("look"))
    async with acting(clock, model, tools=[look], limits={"max_cost_usd": 0.2}) as app:
        outcome = await ended(app, await app.submit("agent:guide", "go"))
        assert (outcome.status, outcome.reason, model.asked) == ("failed", "budget", 0)


async def test_a_budget_of_whoever_asks_counts_like_ones_own(clock: SetClock) -> None:
    model = Paid(clock, call("look"), call("look", what="more"), finish("so far"))
    async with acting(clock, model, tools=[look], limits={"max_cost_usd": 100.0}) as app:
        outcome = await ended(app, await app.submit("agent:guide", "go", max_cost_usd=0.8))
        assert (outcome.reason, outcome.recovered, model.asked) == ("budget", True, 3)


async def two_guides(ctx: FunctionContext, input: Any) -> Any:
    return [await ctx.child("agent:guide", "one"), await ctx.child("agent:guide", "two")]


async def test_a_purse_is_one_for_all_that_run_below_it(clock: SetClock) -> None:
    model = Paid(clock, call("look"), finish("one"), call("look"), finish("two"))
    async with acting(clock, model, tools=[look]) as app:
        run = await app.submit(two_guides, max_cost_usd=1.0)
        assert (await ended(app, run)).output == ["one", "two"]
        ends = [str(row.reason) for row in await app.service.tree(run.id) if row.parent_id]
        assert sorted(ends) == ["budget", "goal"]  # the second had a quarter left, and needed half
        assert (await row_of(app, run.id)).purse_spent == 1_000_000


async def test_an_answer_is_no_longer_than_the_budget_pays_for(clock: SetClock) -> None:
    model = Paid(clock, call("look"), finish())
    model.base, model.each, model.tokens = 0.01, 0.00001, 100_000  # a dollar for the longest answer
    async with acting(clock, model, tools=[look], settings={"temperature": 0.5}, limits={"max_cost_usd": 0.5}) as app:
        run = await app.submit("agent:guide", "go")
        assert (await ended(app, run)).reason == "goal"
        longest = [request.settings.max_tokens for request in model.requests]
        assert longest == [23_999, 23_494]  # half of what is left, without the price of the question
        assert [turn.settings for turn in await data_of(run, e.TurnStarted)] == [
            {"temperature": 0.5, "max_tokens": tokens} for tokens in longest
        ]


async def test_what_broke_off_is_paid_for(clock: SetClock) -> None:
    async def at_second(n: int) -> None:
        await outside.wait_at_door(n) if n else None

    model = Paid(clock, Reply(pieces=["12345678", "9"], before=at_second), finish())
    model.each = 0.001
    async with acting(clock, model, retry=None, limits={"max_cost_usd": 100.0, "idle_timeout": 5}) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        await pass_slowly(clock, 5)
        clock.advance(1)
        outcome = await ended(app, run)
        (retried,) = await data_of(run, e.ModelRetried)
        assert retried.usage.cost_usd == pytest.approx(0.252)
        assert outcome.usage.cost_usd == pytest.approx(0.252 + 0.26)
        assert (await row_of(app, run.id)).purse_spent == 512_000


async def test_what_was_cancelled_has_its_price(clock: SetClock) -> None:
    model = Paid(clock, Reply(pieces=["12345678"], before=outside.wait_at_door))
    async with acting(clock, model) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        await run.cancel()
        assert (await ended(app, run)).usage.cost_usd == 0.25


async def test_L40_the_third_time_the_model_is_told_and_the_fifth_is_the_end(clock: SetClock) -> None:
    model = Paced(clock, *[call("look")] * 5, finish("I give up"))
    async with acting(clock, model, tools=[look]) as app:
        run = await app.submit("agent:guide", "go")
        outcome = await ended(app, run)
        assert (outcome.reason, outcome.recovered, outcome.output) == ("loop", True, "I give up")
        assert [len(said_to(request)) for request in model.requests] == [1, 1, 1, 2, 2, 3]
        assert "with the same result again and again" in said_to(model.requests[5])[-1]
        assert "3 times, and the result was the same" in said_to(model.requests[3])[-1]


@pytest.mark.parametrize(
    "calls", [[call("count")] * 7, [call("stare", at=str(n)) for n in range(7)]], ids=["result", "arguments"]
)
async def test_what_is_not_the_same_is_no_loop(clock: SetClock, calls: list[Any]) -> None:
    async with acting(clock, Paced(clock, *calls, finish()), tools=[stare, count]) as app:
        assert (await ended(app, await app.submit("agent:guide", "go"))).reason == "goal"


async def test_calls_in_between_make_it_no_less_a_loop(clock: SetClock) -> None:
    lines = [line for n in range(5) for line in (call("look"), call("count"))]
    async with acting(clock, Paced(clock, *lines, finish()), tools=[look, count]) as app:
        assert (await ended(app, await app.submit("agent:guide", "go"))).reason == "loop"


async def test_answers_that_are_refused_for_different_reasons_are_no_loop(clock: SetClock) -> None:
    wrong = [call("complete_task", result=n) for n in range(6)]
    async with acting(clock, Paced(clock, *wrong, finish())) as app:
        assert (await ended(app, await app.submit("agent:guide", "go"))).reason == "goal"


async def test_the_same_wrong_answer_again_and_again_is_a_loop(clock: SetClock) -> None:
    async with acting(clock, Paced(clock, call("complete_task", result=1))) as app:
        outcome = await ended(app, await app.submit("agent:guide", "go"))
        assert (outcome.status, outcome.reason) == ("failed", "loop")


async def test_a_loop_is_one_also_when_the_run_was_interrupted(file_url: str, clock: SetClock) -> None:
    async with acting(clock, Paced(clock, *[call("look")] * 4, call("wait")), file_url, tools=[look, wait]) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        await until(lambda: run.id in app.worker.attempts)
    outside.door.set()
    async with acting(clock, Paced(clock, call("look"), finish()), file_url, tools=[look, wait]) as app:
        assert (await ended(app, app.get(run.id))).reason == "loop"


@tool(effect="read")
async def wait() -> str:
    """Waits at the door."""
    return str(await outside.wait_at_door())


@pytest.mark.parametrize(
    ("limits", "warning"),
    [
        ({"max_turns": 5}, "Only 1 turn left."),
        ({"max_tokens": 50}, "Only 10 tokens left."),
        ({"max_cost_usd": 1.3}, "Only 0.2600 USD of the budget are left."),
    ],
)
async def test_at_four_fifths_the_model_is_told_once_what_is_left(
    clock: SetClock, limits: dict[str, Any], warning: str
) -> None:
    usage = Usage(calls=1, input_tokens=5, output_tokens=5, cost_usd=0.26)
    model = Paced(clock, *[Reply(calls=[call("count")], usage=usage)] * 4, finish())
    async with acting(clock, model, tools=[count], limits=limits) as app:
        run = await app.submit("agent:guide", "go")
        await ended(app, run)
        assert warning in said_to(model.requests[4])[-1]
        assert not any(warning in text for request in model.requests[:4] for text in said_to(request))
        assert [warned.message for warned in await data_of(run, e.Warned)] == [f"{warning} Come to an end in time."]


async def test_calls_are_a_limit_too(clock: SetClock) -> None:
    model = Paced(clock, [call("count"), call("count")], finish("two"))
    async with acting(clock, model, tools=[count], limits={"max_tool_calls": 2}) as app:
        run = await app.submit("agent:guide", "go")
        outcome = await ended(app, run)
        assert (outcome.reason, outcome.output) == ("max_turns", "two")
        assert "limit.reached" in await types_of(run)


async def test_of_many_pending_results_a_last_word_holds_no_more_than_it_can(clock: SetClock) -> None:
    @tool(effect="read")
    async def read() -> str:
        """Reads much."""
        return "x" * 50_000

    model = Paced(clock, [call("read") for _ in range(9)], finish())
    async with acting(clock, model, tools=[read], limits={"max_turns": 1}) as app:
        assert (await ended(app, await app.submit("agent:guide", "go"))).recovered
        assert len(said_to(model.requests[1])[-1]) < 14_000
