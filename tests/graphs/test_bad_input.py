"""What graphs are given and cannot use."""

from __future__ import annotations

import pytest

from retinue import ToolContext, tool
from retinue.core import events as e
from retinue.testing import SetClock, call, drain
from tests.agents.acting import Actor, finish, guide
from tests.graphs.test_running import opened
from tests.graphs.work import does, graph
from tests.outside import data_of, ended, outside, pass_time


@pytest.mark.parametrize(
    ("each", "says"),
    [
        ("{{ input.text }}", "`each` of e gave text, not a list"),
        ("{{ input }}", "`each` of e gave an object, not a list"),
        ("{{ range(1000000) | list }}", "Range too big"),
        ("{{ input.missing }}", "input.missing"),
    ],
)
async def test_each_over_what_is_no_list_or_too_long_fails_before_anything_runs(
    clock: SetClock, each: str, says: str
) -> None:
    async with opened(clock, graph({"e": does("note", each=each)})) as app:
        run = await app.submit("graph:g", {"text": "abc"})
        outcome = await ended(app, run)
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert outcome.error
    assert says in outcome.error.message
    assert outside.done == []


async def test_each_over_a_million_items_is_refused_unless_it_is_allowed(clock: SetClock) -> None:
    async with opened(clock, graph({"e": does("note", each="{{ input }}")})) as app:
        outcome = await ended(app, await app.submit("graph:g", [0] * 1_000_000))
    assert outcome.error
    assert "`each` of e gave 1,000,000 items, and 100,000 are allowed" in outcome.error.message
    assert outside.done == []


async def test_each_over_nothing_gives_nothing_and_goes_on(clock: SetClock) -> None:
    nodes = {"e": does("note", each="{{ input }}"), "b": does("echo", needs=["e"])}
    async with opened(clock, graph(nodes)) as app:
        assert (await ended(app, await app.submit("graph:g", []))).output == {"b": []}


async def test_two_nodes_that_write_one_artifact_name_keep_both(clock: SetClock) -> None:
    @tool(effect="read")
    async def write(context: ToolContext, text: str) -> str:
        return await context.artifact(text.encode(), "text/plain", "report.txt")

    actor = Actor(call("write", text="one"), finish(), call("write", text="two"), finish())
    nodes = {"a": {"run": "agent:guide"}, "b": {"run": "agent:guide", "needs": ["a"]}}
    async with opened(clock, graph(nodes), agents=[guide(tools=[write])], models={"m": actor}) as app:
        run = await app.submit("graph:g", "Write.")
        await ended(app, run)
        below = [app.get(data.run_id) for data in await data_of(run, e.ChildStarted)]
        added = [artifact for one in below for artifact in await data_of(one, e.ArtifactAdded)]
        kept = [await app.services.files.get(artifact.uri) for artifact in added]
    assert [artifact.name for artifact in added] == ["report.txt", "report.txt"]
    assert kept == [b"one", b"two"]


async def test_nobody_answers_in_time_and_the_graph_says_so(clock: SetClock) -> None:
    nodes = {"ask": {"human": {"title": "Go on?", "expires": 60}}, "b": does("note", needs=["ask"])}
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        await drain(app)
        await pass_time(app, clock, 61)
        outcome = await ended(app, run)
    assert (outcome.status, outcome.reason) == ("failed", "rejected")
    assert outcome.error
    assert outcome.error.message == "the node ask failed: nobody answered (expired)"


async def test_where_somebody_waits_for_the_failure_an_expired_question_is_no_end(clock: SetClock) -> None:
    nodes = {
        "ask": {"human": {"kind": "choose", "choices": ["x", "y"], "expires": 60}},
        "chosen": does("note", needs=["ask"], input="chosen"),
        "else": does("note", on="ask.failed", input="{{ ask.error.kind }}"),
    }
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        await drain(app)
        await pass_time(app, clock, 61)
        assert (await ended(app, run)).output == {"chosen": "chosen", "else": "expired"}


async def test_a_person_is_asked_in_each_round_of_a_loop(clock: SetClock) -> None:
    again = {"when": "{{ not ask.output.approved }}", "from": "write", "at_most": 3}
    nodes = {
        "write": does("echo", input="{{ previous.ask.output.message if previous is defined else 'first' }}"),
        "ask": {"human": {"title": "Is {{ write.output }} good?"}, "needs": ["write"], "again": again},
        "publish": does("note", needs=["ask"], input="{{ write.output }}"),
    }
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        for decision, message in (("denied", "second"), ("denied", "third"), ("approved", "")):
            await drain(app)
            (ticket,) = await run.tickets()
            await app.service.answer(ticket.id, decision=decision, message=message)
        await ended(app, run)
        titles = [data.title for data in await data_of(run, e.TicketOpened)]
    assert titles == ["Is first good?", "Is second good?", "Is third good?"]
    assert outside.done == ["third"]
