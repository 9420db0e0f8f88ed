"""Graphs that are run again: what is used as it was, and what is begun anew."""

from __future__ import annotations

import pytest

from retinue.core import events as e
from retinue.core.graph.picture import mermaid
from retinue.errors import BadInput
from retinue.testing import SetClock, drain
from tests.graphs.test_running import DIAMOND, LOOP, drain_to, opened
from tests.graphs.work import does, graph
from tests.outside import data_of, ended, outside


@pytest.mark.parametrize(
    ("node", "begun"),
    [
        ("review", ["review#3.1", "publish#3.1"]),
        ("write", ["write#3.1", "review#3.1", "publish#3.1"]),
        ("publish", ["publish#3.1"]),
    ],
)
async def test_G13_a_node_of_a_loop_is_run_again_in_its_last_round(
    clock: SetClock, node: str, begun: list[str]
) -> None:
    async with opened(clock, graph(LOOP)) as app:
        run = await app.submit("graph:g")
        await ended(app, run)
        again = await run.retry(node=node)
        outcome = await ended(app, again)
        started = [data.call_id for data in await data_of(again, e.ChildStarted)]
    assert outcome.output == {"publish": 3}
    assert started == begun


async def test_G13_what_a_node_of_a_loop_says_anew_begins_the_loop_anew(clock: SetClock) -> None:
    nodes = {**LOOP, "review": {**LOOP["review"], **does("fail_twice", input="{{ write.output }}")}}
    nodes["review"]["again"] = {"when": "{{ review.output < 4 }}", "from": "write", "at_most": 5}
    nodes["publish"] = does("note", needs=["review"], input="{{ write.output }}")
    async with opened(clock, graph(nodes)) as app:
        outside.done = [0, 0]  # the first review says 3, and then 4
        run = await app.submit("graph:g")
        await ended(app, run)
        outside.done = [0, 0]  # the review of the second draft says 3 now, and is followed by a third
        again = await run.retry(node="review")
        await ended(app, again)
        started = [data.call_id for data in await data_of(again, e.ChildStarted)]
    assert started == ["review#2.1", "write#3.1", "review#3.1", "publish#3.1"]


async def test_G13_a_loop_elsewhere_is_used_as_it_was(clock: SetClock) -> None:
    async with opened(clock, graph({"other": does("note", input="other"), **LOOP})) as app:
        run = await app.submit("graph:g")
        await ended(app, run)
        again = await run.retry(node="other")
        await ended(app, again)
        assert [data.call_id for data in await data_of(again, e.ChildStarted)] == ["other#1.1"]


async def test_G13_a_run_that_was_started_inside_is_run_again_from_one_of_its_nodes(clock: SetClock) -> None:
    async with opened(clock, graph(DIAMOND)) as app:
        run = await app.submit("graph:g", {"a": "given", "c": "too"}, at_node="b")
        await ended(app, run)
        again = await run.retry(node="d")
        assert (await ended(app, again)).output == {"d": {"b": "b", "c": "too", "input": {}}}
        assert [data.call_id for data in await data_of(again, e.ChildStarted)] == ["d#1.1"]
        with pytest.raises(BadInput, match="it was started at b, and a does not come after that"):
            await run.retry(node="a")
    assert outside.done == ["b"]


async def test_G13_what_a_person_said_is_used_unless_they_are_asked_again(clock: SetClock) -> None:
    nodes = {"ask": {"human": {}}, "b": does("echo", needs=["ask"])}
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        await drain(app)
        (ticket,) = await run.tickets()
        await app.service.answer(ticket.id, decision="approved")
        await ended(app, run)
        await ended(app, await run.retry(node="b"))
        again = await run.retry(node="ask")
        await drain(app)
        assert [ticket.title for ticket in await again.tickets()] == ["ask"]


async def test_G13_a_retry_of_an_each_runs_only_what_failed(clock: SetClock) -> None:
    nodes = {"e": does("odd_fails", each=[0, 1, 2], on_error="continue"), "f": does("fail", needs=["e"], input="x")}
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        await ended(app, run)
        again = await run.retry()
        await ended(app, again)
        started = [data.call_id for data in await data_of(again, e.ChildStarted)]
        _, seen = await app.service.graph(again.id)
    assert started == ["e[1]#1.1", "f#1.1"]
    assert (len(seen["e"].done), len(seen["e"].failed)) == (2, 1)


async def test_G18_the_picture_of_a_retry_shows_what_is_used_and_what_is_to_come(clock: SetClock) -> None:
    nodes = {**DIAMOND, "c": does("door", needs=["a"], input="c")}
    async with opened(clock, graph(nodes)) as app:
        outside.door.set()
        run = await app.submit("graph:g")
        await ended(app, run)
        outside.reset()
        again = await run.retry(node="c")
        await drain_to(app, 1)
        drawn = mermaid(*await app.service.graph(again.id))
        outside.door.set()
        await ended(app, again)
    assert "class a,b completed" in drawn
    assert "class c running" in drawn
    assert "class d waiting" in drawn


async def test_G18_nodes_that_were_added_are_in_the_picture(clock: SetClock) -> None:
    nodes = {"a": does("spawn", input=2, spawn=True), "b": does("note", needs=["a"], input="b")}
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        await ended(app, run)
        drawn = mermaid(*await app.service.graph(run.id))
    assert "a --> more0" in drawn
    assert "more1 --> b" in drawn
    assert "class a,b,more0,more1 completed" in drawn
