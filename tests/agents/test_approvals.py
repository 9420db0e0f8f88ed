"""Calls that a person is asked about, and questions of tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue import Retinue, Run, tool
from retinue.core import events as e
from retinue.errors import BadInput
from retinue.ports.store import TicketRow
from retinue.ports.tools import ToolContext
from retinue.testing import SetClock, call, drain
from tests.agents.acting import Actor, Commits, acting, finish, results_in, told
from tests.outside import data_of, ended, outside, pass_time

DAY = 86_400
ASK = [{"tool": "pay", "action": "ask"}]


@tool
async def pay(eur: int, to: str = "Ada") -> str:
    """Pay somebody.

    At once."""
    return str(await outside.act(f"{eur} to {to}"))


@tool(effect="read")
async def look() -> str:
    return str(await outside.act("looked"))


async def asked(app: Retinue, run: Run) -> list[TicketRow]:
    """Let the run come to rest; what people are asked then."""
    await drain(app)
    return await run.tickets()


async def test_L17_a_refusal_and_its_message_reach_the_model_and_the_run_goes_on(clock: SetClock) -> None:
    actor = Actor(call("pay", eur=500), finish("then not"))
    async with acting(clock, actor, tools=[pay], policy=ASK) as app:
        run = await app.submit("agent:guide", "Go")
        (ticket,) = await asked(app, run)
        await app.deny(ticket.id, message="too much")
        outcome = await ended(app, run)
    assert told(actor.requests[1]) == [
        "A person refused it: too much. It was not done. Find another way, or finish with what you have."
    ]
    assert (outcome.reason, outcome.output, outside.done) == ("goal", "then not", [])


async def test_L18_after_a_refusal_the_second_call_is_still_asked_for(clock: SetClock) -> None:
    actor = Actor([call("pay", eur=1), call("pay", eur=2)], finish())
    async with acting(clock, actor, tools=[pay], policy=ASK) as app:
        run = await app.submit("agent:guide", "Go")
        first, second = await asked(app, run)
        await app.deny(first.id)
        assert [ticket.id for ticket in await asked(app, run)] == [second.id]
        await app.approve(second.id)
        await ended(app, run)
    assert outside.done == ["2 to Ada"]
    assert [result.ok for result in results_in(actor.requests[1])] == [False, True]


async def test_all_tickets_of_a_turn_open_in_one_commit_after_all_calls_were_checked(clock: SetClock) -> None:
    commits = Commits()
    actor = Actor([call("pay", eur=1), call("pay", eur="x"), call("pay", eur=3)], finish())
    async with acting(clock, actor, checkpoint=commits, tools=[pay], policy=ASK) as app:
        run = await app.submit("agent:guide", "Go")
        assert len(await asked(app, run)) == 2
    assert commits.types[-2:] == [
        ["model.responded", "tool.refused", "ticket.opened", "ticket.opened"],
        ["run.waiting"],
    ]


async def test_an_undecided_ticket_holds_up_only_what_must_come_after_it(clock: SetClock) -> None:
    rules = [{"tool": "look", "action": "ask", "arguments": {}}]
    actor = Actor([call("peek"), call("look"), call("peek"), call("pay", eur=1)], finish())

    @tool(effect="read")
    async def peek() -> str:
        return str(await outside.act("peeked"))

    async with acting(clock, actor, tools=[peek, look, pay], policy=rules) as app:
        run = await app.submit("agent:guide", "Go")
        (ticket,) = await asked(app, run)
        assert outside.done == ["peeked", "peeked"]
        await app.approve(ticket.id)
        await ended(app, run)
    assert outside.done == ["peeked", "peeked", "looked", "1 to Ada"]


async def test_L19_edited_arguments_are_used_and_both_versions_are_in_the_journal(clock: SetClock) -> None:
    actor = Actor(call("pay", eur=500), finish())
    async with acting(clock, actor, tools=[pay], policy=ASK) as app:
        run = await app.submit("agent:guide", "Go")
        (ticket,) = await asked(app, run)
        await app.approve(ticket.id, arguments={"eur": 5})
        await ended(app, run)
        (opened,), started = await data_of(run, e.TicketOpened), await data_of(run, e.ToolStarted)
    assert (outside.done, told(actor.requests[1])) == (["5 to Ada"], ["5 to Ada"])
    assert (opened.arguments, opened.title, opened.tool) == ({"eur": 500, "to": "Ada"}, "Pay somebody.", "pay")
    assert started[0].arguments == {"eur": 5, "to": "Ada"}


async def test_edited_arguments_that_do_not_fit_are_refused_at_once_and_the_ticket_stays_open(clock: SetClock) -> None:
    async with acting(clock, Actor(call("pay", eur=500), finish()), tools=[pay], policy=ASK) as app:
        run = await app.submit("agent:guide", "Go")
        (ticket,) = await asked(app, run)
        with pytest.raises(BadInput, match=r"eur: .*not of type"):
            await app.approve(ticket.id, arguments={"eur": "five"})
        assert [one.id for one in await asked(app, run)] == [ticket.id]


async def test_L20_the_clock_stands_until_both_are_decided(clock: SetClock) -> None:
    actor = Actor([call("pay", eur=1), call("look"), call("pay", eur=2)], finish())
    rules = [*ASK, {"tool": "look", "action": "ask"}]
    async with acting(clock, actor, tools=[pay, look], policy=rules, limits={"max_minutes": 1}) as app:
        run = await app.submit("agent:guide", "Go")
        first, second, third = await asked(app, run)
        for ticket in (first, second, third):
            await pass_time(app, clock, DAY)
            await app.approve(ticket.id)
        outcome = await ended(app, run)
        (finished,) = await data_of(run, e.RunFinished)
    assert (outcome.reason, finished.active_ms) == ("goal", 0)


async def test_L20_the_clock_stands_also_while_another_call_runs(clock: SetClock) -> None:
    @tool(effect="read")
    async def wait() -> None:
        await outside.wait_at_door()

    actor = Actor([call("wait"), call("look")], finish())
    rules = [{"tool": "look", "action": "ask"}]
    async with acting(clock, actor, tools=[wait, look], policy=rules, limits={"max_minutes": 1}) as app:
        run = await app.submit("agent:guide", "Go")
        await outside.at_door.wait()
        clock.advance(90)
        outside.door.set()
        (ticket,) = await asked(app, run)
        await app.approve(ticket.id)
        assert (await ended(app, run)).reason == "goal"


async def test_L21_an_approval_after_a_restart_and_a_day_goes_on_where_it_was(clock: SetClock, file_url: str) -> None:
    actor = Actor([call("look"), call("pay", eur=7)], finish())
    keys: dict[str, Any] = {"tools": [pay, look], "policy": ASK, "limits": {"max_minutes": 1}}
    async with acting(clock, actor, file_url, **keys) as app:
        run_id = (await app.submit("agent:guide", "Go")).id
        await drain(app)
        first = app.worker.id
    clock.advance(DAY)
    async with acting(clock, actor, file_url, **keys) as app:
        await app.worker.ready()
        assert (app.worker.id != first, outside.done) == (True, ["looked"])
        (ticket,) = await app.tickets()
        await app.approve(ticket.id)
        assert (await ended(app, app.get(run_id))).reason == "goal"
    assert (outside.done, len(actor.requests)) == (["looked", "7 to Ada"], 2)
    assert told(actor.requests[1]) == ["looked", "7 to Ada"]


# For the rest of the run


async def test_an_approval_for_the_run_is_not_asked_for_again(clock: SetClock) -> None:
    actor = Actor(call("pay", eur=1), call("pay", eur=2), finish())
    async with acting(clock, actor, tools=[pay], policy=ASK) as app:
        run = await app.submit("agent:guide", "Go")
        (ticket,) = await asked(app, run)
        await app.approve(ticket.id, remember=True)
        await ended(app, run)
        assert len(await data_of(run, e.TicketOpened)) == 1
    assert outside.done == ["1 to Ada", "2 to Ada"]


async def test_what_was_said_for_one_run_holds_in_no_other(clock: SetClock) -> None:
    actor = Actor(call("pay", eur=1), finish(), call("pay", eur=2), finish())
    async with acting(clock, actor, tools=[pay], policy=ASK) as app:
        run = await app.submit("agent:guide", "Go")
        await app.approve((await asked(app, run))[0].id, remember=True)
        await ended(app, run)
        assert len(await asked(app, await app.submit("agent:guide", "Go"))) == 1


async def test_a_refusal_for_the_run_refuses_what_comes_and_not_what_was_approved_beside_it(clock: SetClock) -> None:
    actor = Actor([call("pay", eur=1), call("pay", eur=2)], call("pay", eur=3), finish())
    async with acting(clock, actor, tools=[pay], policy=ASK) as app:
        run = await app.submit("agent:guide", "Go")
        first, second = await asked(app, run)
        await app.deny(second.id, remember=True)
        await app.approve(first.id)
        await ended(app, run)
    assert outside.done == ["1 to Ada"]
    assert str(told(actor.requests[2])[0]).startswith("A person refused such calls for the rest of this run.")


# Rules


async def test_a_rule_that_denies_is_a_refused_call_and_nobody_is_asked(clock: SetClock) -> None:
    actor = Actor(call("pay", eur=1), finish())
    async with acting(clock, actor, tools=[pay], policy=[{"tool": "pay", "action": "deny"}]) as app:
        run = await app.submit("agent:guide", "Go")
        await ended(app, run)
        (refused,) = await data_of(run, e.ToolRefused)
    assert (outside.done, refused.tool) == ([], "pay")
    assert str(told(actor.requests[1])[0]).startswith("A rule does not allow this call.")


async def test_what_finishes_is_subject_to_no_rule(clock: SetClock) -> None:
    async with acting(clock, Actor(finish()), policy=[{"tool": "*", "action": "deny"}]) as app:
        assert (await ended(app, await app.submit("agent:guide", "Go"))).reason == "goal"


@pytest.mark.parametrize(("at_expiry", "done"), [("deny", []), ("allow", ["1 to Ada"])])
async def test_what_nobody_decides_in_time_goes_as_the_rule_says(
    clock: SetClock, at_expiry: str, done: list[str]
) -> None:
    rule = {"tool": "pay", "action": "ask", "expires": 60, "at_expiry": at_expiry}
    async with acting(clock, Actor(call("pay", eur=1), finish()), tools=[pay], policy=[rule]) as app:
        run = await app.submit("agent:guide", "Go")
        await drain(app)
        await pass_time(app, clock, 60)
        assert (await ended(app, run)).reason == "goal"
    assert outside.done == done


# Questions


@tool
async def book(city: str, context: ToolContext) -> str:
    nights = await context.ask(f"How many nights in {city}?", {"type": "integer"})
    if nights == 0:
        return "nothing"
    sure = await context.ask("Sure?")
    return str(await outside.act(f"{nights} nights in {city}: {sure}"))


@tool
def book_in_thread(city: str, context: ToolContext) -> str:
    nights = asyncio.run(context.ask(f"How many nights in {city}?", {"type": "integer"}))
    outside.done.append(f"{nights} nights in {city}")
    return str(outside.done[-1])


async def test_a_tool_asks_a_person_and_acts_once_with_the_answers(clock: SetClock, file_url: str) -> None:
    actor = Actor(call("book", city="Porto"), finish())
    async with acting(clock, actor, file_url, tools=[book]) as app:
        run = await app.submit("agent:guide", "Go")
        (nights,) = await asked(app, run)
        with pytest.raises(BadInput, match="not of type"):
            await app.answer(nights.id, "three")
        await app.answer(nights.id, 3)
        (sure,) = await asked(app, run)
    async with acting(clock, actor, file_url, tools=[book]) as app:
        await app.answer(sure.id, "yes")
        assert (await ended(app, app.get(run.id))).reason == "goal"
        tries = [data.try_ for data in await data_of(app.get(run.id), e.ToolStarted) if data.tool == "book"]
        keys = {data.key for data in await data_of(app.get(run.id), e.ToolStarted) if data.tool == "book"}
    assert (nights.title, outside.done) == ("How many nights in Porto?", ["3 nights in Porto: yes"])
    assert (tries[0], len(keys), told(actor.requests[1])) == (1, 1, ["3 nights in Porto: yes"])


async def test_a_function_in_a_thread_asks_too(clock: SetClock) -> None:
    actor = Actor(call("book_in_thread", city="Porto"), finish())
    async with acting(clock, actor, tools=[book_in_thread]) as app:
        run = await app.submit("agent:guide", "Go")
        (ticket,) = await asked(app, run)
        await app.answer(ticket.id, 3)
        await ended(app, run)
    assert told(actor.requests[1]) == ["3 nights in Porto"]


async def test_a_question_that_nobody_answers_is_an_error_of_the_tool(clock: SetClock) -> None:
    actor = Actor(call("book", city="Porto"), finish())
    async with acting(clock, actor, tools=[book]) as app:
        run = await app.submit("agent:guide", "Go")
        (ticket,) = await asked(app, run)
        await app.deny(ticket.id, message="ask me never")
        await ended(app, run)
    assert told(actor.requests[1]) == [
        "Nobody answered the question 'How many nights in Porto?' (denied: ask me never)."
    ]


async def test_a_run_that_is_cancelled_while_a_write_asks_knows_that_nothing_was_done(clock: SetClock) -> None:
    async with acting(clock, Actor(call("book", city="Porto"), finish()), tools=[book]) as app:
        run = await app.submit("agent:guide", "Go")
        await asked(app, run)
        await run.cancel()
        await ended(app, run)
        (finished,) = await data_of(run, e.ToolFinished)
    assert (finished.ok, finished.unknown) == (False, False)


async def test_an_agent_asks_the_person_itself(clock: SetClock) -> None:
    actor = Actor(
        [call("ask_user", question="Which?", choices=["red", "blue"]), call("ask_user", question="Why?")], finish()
    )
    async with acting(clock, actor, tools=["ask_user"]) as app:
        run = await app.submit("agent:guide", "Go")
        tickets = {ticket.title: ticket.id for ticket in await asked(app, run)}
        with pytest.raises(BadInput, match="green"):
            await app.answer(tickets["Which?"], "green")
        await app.answer(tickets["Why?"], "because")
        await app.answer(tickets["Which?"], "blue")
        await ended(app, run)
    assert told(actor.requests[1]) == ["blue", "because"]


async def test_an_empty_question_is_an_error(clock: SetClock) -> None:
    actor = Actor(call("ask_user", question=" "), finish())
    async with acting(clock, actor, tools=["ask_user"]) as app:
        await ended(app, await app.submit("agent:guide", "Go"))
    assert told(actor.requests[1]) == ["the question is empty"]
