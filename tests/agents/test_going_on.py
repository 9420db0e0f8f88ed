"""Retry, fork and continue: what a new run of an agent takes from the one before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from retinue import Done, FunctionContext, Retinue, Run, ToolContext, tool
from retinue.core import events as e
from retinue.core.messages import Message, ToolCall, ToolResult, text_of
from retinue.core.outcome import Reason, Status, Usage
from retinue.engine.submit import Request
from retinue.testing import Reply, SetClock, call, drain
from tests.agents.acting import Actor, acting, finish, last_said, told
from tests.outside import data_of, ended, heard, outside, types_of


@tool(effect="read")
async def look(at: str) -> str:
    """Look."""
    return str(await outside.act(f"saw {at}"))


@tool
async def do(what: str) -> str:
    """Do."""
    return str(await outside.act(f"did {what}"))


@tool
async def hang(what: str) -> str:
    """Do, until the door is open."""
    return str(await outside.wait_at_door(f"hung {what}"))


@asynccontextmanager
async def app_of(clock: SetClock, actor: Actor, **keys: Any) -> AsyncIterator[Retinue]:
    async with acting(clock, actor, **{"tools": [look, do, hang], **keys}) as app:
        yield app


async def seq_of(run: Run, kind: type[e.EventData], nth: int = 0) -> int:
    events = await run._service.events(run.id, limit=1000)
    return [event.seq for event in events if isinstance(event.data, kind)][nth]


def paired(messages: Sequence[Message]) -> bool:
    """Whether each call has its one result, in the message that follows."""
    for n, message in enumerate(messages):
        calls = [part.call_id for part in message.parts if isinstance(part, ToolCall)]
        after = messages[n + 1].parts if calls and n + 1 < len(messages) else ()
        if calls != [part.call_id for part in after if isinstance(part, ToolResult)]:
            return False
    return True


async def test_a_retry_reuses_what_was_done_and_goes_on_at_the_failure(clock: SetClock) -> None:
    actor = Actor([call("do", what="it"), call("look", at="it")], Reply(error=ValueError("no")), finish())
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.")
        assert (await ended(app, run)).reason is Reason.PROVIDER_ERROR
        again = await run.retry()
        assert (await ended(app, again)).output == "done"
        assert outside.done == ["did it", "saw it"]
        assert actor.requests[2].messages == actor.requests[1].messages
        assert [started.tool for started in await data_of(again, e.ToolStarted)] == ["complete_task"]


async def test_a_fresh_retry_of_an_agent_reuses_nothing(clock: SetClock) -> None:
    actor = Actor(call("do", what="it"), Reply(error=ValueError("no")), call("do", what="it"), finish())
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.")
        await ended(app, run)
        assert (await ended(app, await run.retry(fresh=True))).output == "done"
        assert outside.done == ["did it", "did it"]
        assert len(actor.requests[2].messages) == 1


async def test_a_retry_of_a_completed_run_gives_its_answer_without_a_model(clock: SetClock) -> None:
    actor = Actor(call("do", what="it"), finish("all done"))
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.")
        await ended(app, run)
        assert (await ended(app, await run.retry())).output == "all done"
        assert len(actor.requests) == 2


async def test_a_retry_of_a_text_answer_gives_it_again(clock: SetClock) -> None:
    actor = Actor("It is done.")
    async with app_of(clock, actor, finish="text") as app:
        run = await app.submit("agent:guide", "Do it.")
        await ended(app, run)
        assert (await ended(app, await run.retry())).output == "It is done."
        assert len(actor.requests) == 1


async def test_a_retry_has_limits_of_its_own_and_is_told_to_go_on(clock: SetClock) -> None:
    actor = Actor("Hm.", "Hm.", "Hm.", finish())
    async with app_of(clock, actor, steps=1) as app:
        run = await app.submit("agent:guide", "Do it.")
        assert (await ended(app, run)).reason is Reason.NO_COMPLETION
        assert (await ended(app, await run.retry())).output == "done"
        assert "Nobody reads what you say besides" in last_said(actor.requests[-1].messages)


async def test_a_retry_of_a_retry_goes_on_from_both(clock: SetClock) -> None:
    no = Reply(error=ValueError("no"))
    actor = Actor(call("do", what="one"), no, call("do", what="two"), no, finish())
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.")
        for _ in range(2):
            assert (await ended(app, run)).status is Status.FAILED
            run = await run.retry()
        assert (await ended(app, run)).output == "done"
        assert outside.done == ["did one", "did two"]
        assert [message.role for message in actor.requests[-1].messages] == ["user", "model", "tool", "model", "tool"]
        assert paired(actor.requests[-1].messages)


async def test_what_a_person_said_before_the_failure_is_said_in_the_retry(clock: SetClock) -> None:
    actor = Actor(call("hang", what="it"), finish())
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.")
        await outside.at_door.wait()
        await run.steer("Be quick.")
        await heard(app, run)
        await run.cancel()
        assert (await ended(app, run)).status is Status.CANCELLED
        outside.door.set()
        await ended(app, await run.retry())
        assert "Be quick." in last_said(actor.requests[-1].messages)


# In the middle of a turn

TURN = [call("look", at="one"), call("hang", what="two"), call("do", what="three"), finish()]


async def cut_in_a_turn(app: Retinue) -> Run:
    """A run that was stopped when its first call was done, its second under way and its third not begun."""
    run = await app.submit("agent:guide", "Do it.")
    await outside.at_door.wait()
    await run.cancel()
    assert (await ended(app, run)).status is Status.CANCELLED
    outside.door.set()
    return run


@pytest.mark.parametrize("way", ["retry", "fork"])
async def test_what_goes_on_in_the_middle_of_a_turn_makes_the_calls_that_are_left(clock: SetClock, way: str) -> None:
    actor = Actor(TURN)
    async with app_of(clock, actor) as app:
        run = await cut_in_a_turn(app)
        began = await seq_of(run, e.ToolStarted, 1)
        again = await (run.retry() if way == "retry" else run.fork(began))
        assert (await ended(app, again)).output == "done"
        assert outside.done == ["saw one", "hung two", "did three"]
        assert len(actor.requests) == 1
        unknown = [finished for finished in await data_of(again, e.ToolFinished) if finished.unknown]
        assert [finished.call_id for finished in unknown] == [(await data_of(run, e.ToolStarted))[1].call_id]


@pytest.mark.parametrize(("nth", "again"), [(0, ["hung two", "did three"]), (1, ["did three"])])
async def test_a_fork_makes_only_the_calls_without_a_result_at_its_seq(
    clock: SetClock, nth: int, again: list[str]
) -> None:
    outside.door.set()
    actor = Actor(TURN)
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.")
        await ended(app, run)
        fork = await run.fork(await seq_of(run, e.ToolFinished, nth))
        assert (await ended(app, fork)).output == "done"
        assert outside.done == ["saw one", "hung two", "did three", *again]
        assert len(actor.requests) == 1


@tool(effect="idempotent")
async def put(context: ToolContext) -> str:
    """Put."""
    return str(await outside.wait_at_door(context.idempotency_key))


async def known(key: str) -> Done | None:
    return Done("known") if key in outside.done else None


@tool(check=known)
async def send(context: ToolContext) -> str:
    """Send."""
    return str(await outside.wait_at_door(context.idempotency_key))


@pytest.mark.parametrize(("name", "times"), [("put", 2), ("send", 1)])
async def test_a_call_that_a_retry_decides_again_keeps_its_key(clock: SetClock, name: str, times: int) -> None:
    actor = Actor(call(name), finish())
    async with app_of(clock, actor, tools=[put, send]) as app:
        run = await cut_in_a_turn(app)
        again = await run.retry()
        assert (await ended(app, again)).output == "done"
        assert (len(outside.done), len({*outside.done})) == (times, 1)
        assert [started.key for started in await data_of(again, e.ToolStarted)][:1] == outside.done[:1]


async def test_a_call_that_was_lost_twice_is_asked_about_once_in_each_retry(clock: SetClock) -> None:
    actor = Actor(call("hang", what="it"), finish())
    async with app_of(clock, actor, on_unknown="ask") as app:
        run = await app.submit("agent:guide", "Do it.")
        for _ in range(2):
            await outside.at_door.wait()
            outside.at_door.clear()
            await run.cancel()
            await ended(app, run)
            run = await run.retry()
            await drain(app)
            (ticket,) = await app.tickets()
            await (app.approve if len(outside.done) == 1 else app.deny)(ticket.id)
        assert (await ended(app, run)).output == "done"
        assert outside.done == ["hung it", "hung it"]


# What people decided

ASKED = [{"tool": "do", "action": "ask"}]


async def approved(app: Retinue, **arguments: object) -> Run:
    run = await app.submit("agent:guide", "Do it.")
    await drain(app)
    await app.approve((await app.tickets())[0].id, arguments=arguments or None)
    await ended(app, run)
    return run


async def test_a_fork_keeps_what_a_person_decided_and_changed(clock: SetClock) -> None:
    actor = Actor(call("do", what="all"), finish())
    async with app_of(clock, actor, policy=ASKED) as app:
        run = await approved(app, what="half")
        fork = await run.fork(await seq_of(run, e.TicketClosed))
        assert (await ended(app, fork)).output == "done"
        assert outside.done == ["did half", "did half"]
        assert "ticket.opened" not in await types_of(fork)


async def test_a_fork_before_the_decision_asks_for_it_itself(clock: SetClock) -> None:
    actor = Actor(call("do", what="all"), finish())
    async with app_of(clock, actor, policy=ASKED) as app:
        run = await approved(app)
        fork = await run.fork(await seq_of(run, e.TicketOpened))
        await drain(app)
        (ticket,) = await app.tickets()
        await app.deny(ticket.id, message="Not again.")
        assert (await ended(app, fork)).output == "done"
        assert outside.done == ["did all"]
        assert "Not again." in str(told(actor.requests[-1]))


async def test_a_retry_asks_the_rules_of_today_about_calls_that_were_under_way(file_url: str, clock: SetClock) -> None:
    actor = Actor([call("look", at="one"), call("hang", what="two"), finish()])
    async with acting(clock, actor, file_url, tools=[look, hang]) as app:
        run_id = (await cut_in_a_turn(app)).id
    rules = [{"tool": "hang", "action": "deny"}]
    async with acting(clock, actor, file_url, tools=[look, hang], policy=rules, on_unknown="retry") as app:
        assert (await ended(app, await app.get(run_id).retry())).output == "done"
        assert outside.done == ["saw one", "hung two"]


@tool
async def confirm(what: str, context: ToolContext) -> str:
    """Ask first."""
    return str(await outside.act(f"{what}: {await context.ask('Sure?')}"))


async def test_a_fork_keeps_the_answer_to_a_question_of_a_tool(clock: SetClock) -> None:
    actor = Actor(call("confirm", what="it"), finish())
    async with app_of(clock, actor, tools=[confirm]) as app:
        run = await app.submit("agent:guide", "Do it.")
        await drain(app)
        await app.answer((await app.tickets())[0].id, "yes")
        await ended(app, run)
        fork = await run.fork(await seq_of(run, e.TicketClosed))
        assert (await ended(app, fork)).output == "done"
        assert outside.done == ["it: yes", "it: yes"]
        assert "ticket.opened" not in await types_of(fork)


async def test_a_retry_keeps_the_tools_of_its_client(clock: SetClock) -> None:
    actor = Actor(call("locate"), Reply(error=ValueError("no")), call("locate"), finish())
    theirs: tuple[dict[str, object], ...] = ({"name": "locate", "description": "Where it is."},)
    async with app_of(clock, actor) as app:
        request = Request(target="agent:guide", input="Find it.", client_tools=theirs)
        run = app.get(await app.service.submit(request))
        await drain(app)
        await app.answer((await app.tickets())[0].id, "here")
        assert (await ended(app, run)).status is Status.FAILED
        again = await run.retry()
        await drain(app)
        await app.answer((await app.tickets())[0].id, "there")
        assert (await ended(app, again)).output == "done"
        assert told(actor.requests[-1]) == ["there"]


# L50


async def test_L50_a_fork_has_the_events_up_to_its_seq_and_leaves_the_old_run_untouched(clock: SetClock) -> None:
    actor = Actor(
        call("do", what="one"), call("do", what="two"), finish("old"), call("do", what="three"), finish("new")
    )
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.")
        await ended(app, run)
        before = await app.service.events(run.id), await run.row(), await run.outcome()
        fork = await run.fork(await seq_of(run, e.ToolFinished))
        assert (await ended(app, fork)).output == "new"
        assert outside.done == ["did one", "did two", "did three"]
        assert told(actor.requests[3]) == ["did one"]
        assert (await app.service.events(run.id), await run.row(), await run.outcome()) == before
        row = await fork.row()
        assert (row.source_run_id, row.source_seq) == (run.id, await seq_of(run, e.ToolFinished))


async def test_L50_a_fork_answers_with_a_message_of_its_own_beside_the_old_one(clock: SetClock) -> None:
    actor = Actor(call("do", what="one"), finish("old"), finish("new"))
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.")
        await ended(app, run)
        fork = await run.fork(await seq_of(run, e.ToolFinished))
        await ended(app, fork)
        row = await run.row()
        said, *answers = await app.service.threads.messages(row.thread_id or "")
        assert [text_of(answer.parts) for answer in answers] == ["old", "new"]
        assert [answer.parent_id for answer in answers] == [said.id, said.id]


async def test_L50_a_fork_has_a_budget_of_its_own(clock: SetClock) -> None:
    dear = Usage(calls=1, cost_usd=0.6)
    actor = Actor(
        Reply(calls=[call("do", what="one")], usage=dear), Reply(calls=[finish()], usage=Usage(calls=1, cost_usd=0.3))
    )
    async with app_of(clock, actor) as app:
        run = await app.submit("agent:guide", "Do it.", max_cost_usd=1.0)
        await ended(app, run)
        fork = await run.fork(await seq_of(run, e.ToolFinished))
        outcome = await ended(app, fork)
        assert outcome.usage.cost_usd == pytest.approx(0.3)
        assert (await fork.row()).purse_limit == (await run.row()).purse_limit


async def family(ctx: FunctionContext, input: object) -> list[object]:
    """Asks an agent twice."""
    return [await ctx.child("agent:guide", f"{n}?") for n in (1, 2)]


async def test_L50_children_that_had_finished_are_reused_and_others_are_started_once(clock: SetClock) -> None:
    actor = Actor(finish("one"), call("hang", what="two"), call("hang", what="two"), finish("two"))
    async with app_of(clock, actor) as app:
        run = await app.submit(family)
        await outside.at_door.wait()
        fork = await run.fork((await run.row()).last_seq)
        outside.door.set()
        assert (await ended(app, fork)).output == ["one", "two"]
        (started,) = await data_of(fork, e.ChildStarted)
        first, second = await data_of(run, e.ChildStarted)
        assert (started.call_id, started.run_id not in (first.run_id, second.run_id)) == (second.call_id, True)
        assert len(await app.service.tree(run.id)) == 3
        assert len(await app.service.tree(fork.id)) == 2


# Continue


async def continued(app: Retinue, run: Run, text: str) -> Run:
    seq = (await run.row()).last_seq
    request = Request(target="agent:guide", input=text, source_run_id=run.id, source_seq=seq, continues=True)
    return app.get(await app.service.submit(request))


async def submitted(app: Retinue, text: str) -> Run:
    """Outside of any thread."""
    return app.get(await app.service.submit(Request(target="agent:guide", input=text)))


async def test_a_completed_run_takes_what_is_said_next_as_its_next_turn(clock: SetClock) -> None:
    actor = Actor([call("look", at="it"), finish("one")], finish("two"))
    async with app_of(clock, actor) as app:
        run = await submitted(app, "First.")
        await ended(app, run)
        assert (await ended(app, await continued(app, run, "Second."))).output == "two"
        messages = actor.requests[-1].messages
        assert [message.role for message in messages] == ["user", "model", "tool", "user"]
        assert paired(messages)
        assert last_said(messages) == "Second."


async def test_what_continues_a_stopped_run_does_not_repeat_what_was_under_way(clock: SetClock) -> None:
    actor = Actor(TURN, finish("two"))
    async with app_of(clock, actor) as app:
        run = await submitted(app, "First.")
        await outside.at_door.wait()
        await run.cancel()
        await ended(app, run)
        outside.door.set()
        assert (await ended(app, await continued(app, run, "Do something else."))).output == "two"
        assert outside.done == ["saw one", "hung two"]
        assert paired(actor.requests[-1].messages)
        assert last_said(actor.requests[-1].messages) == "Do something else."


@pytest.mark.parametrize(("fresh", "asked"), [(False, 2), (True, 3)])
async def test_a_retry_of_a_continuation_knows_what_it_continued(clock: SetClock, fresh: bool, asked: int) -> None:
    actor = Actor(finish("one"), call("do", what="it"), Reply(error=ValueError("no")), finish("two"))
    async with app_of(clock, actor) as app:
        run = await submitted(app, "First.")
        await ended(app, run)
        failed = await continued(app, run, "Second.")
        assert (await ended(app, failed)).status is Status.FAILED
        assert (await ended(app, await failed.retry(fresh=fresh))).output == "two"
        texts = [text_of(message.parts) for message in actor.requests[-1].messages if message.role == "user"]
        assert texts == ["First.", "Second."]
        assert ("did it" in str(actor.requests[-1].messages)) is not fresh


# Parked


async def test_a_run_that_is_woken_while_a_tool_asks_goes_on_waiting_for_the_answer(clock: SetClock) -> None:
    actor = Actor(call("confirm", what="it"), finish())
    async with app_of(clock, actor, tools=[confirm]) as app:
        run = await app.submit("agent:guide", "Do it.")
        await drain(app)
        await run.steer("Be quick.")
        await drain(app)
        assert (await run.row()).status is Status.WAITING
        (ticket,) = await app.tickets()
        await app.answer(ticket.id, "yes")
        assert (await ended(app, run)).output == "done"
        assert outside.done == ["it: yes"]
