"""`cache` of a node: what was asked the same not long ago is given again."""

from __future__ import annotations

from retinue.core import events as e
from retinue.testing import SetClock
from tests.graphs.test_running import opened
from tests.graphs.work import does, graph
from tests.outside import data_of, ended, outside, pass_time

SAME = graph({"a": does("note", input="{{ input }}", cache=60), "b": does("note", needs=["a"], input="b")})


async def test_a_node_gives_an_earlier_result_for_a_while(clock: SetClock) -> None:
    async with opened(clock, SAME) as app:
        first = await app.submit("graph:g", "x")
        await ended(app, first)
        for seconds, known in ((60, True), (1, False)):
            await pass_time(app, clock, seconds)
            outside.reset()
            run = await app.submit("graph:g", "x")
            assert (await ended(app, run)).output == {"b": "b"}
            assert outside.done == (["b"] if known else ["x", "b"])


async def test_the_run_of_the_node_says_whose_result_it_gave(clock: SetClock) -> None:
    async with opened(clock, SAME) as app:
        ids = []
        for _ in range(2):
            run = await app.submit("graph:g", "x")
            await ended(app, run)
            ids.append((await data_of(run, e.ChildStarted))[0].run_id)
        (finished,) = await data_of(app.get(ids[1]), e.RunFinished)
    assert (finished.answer_of, finished.output) == (ids[0], "x")


async def test_another_input_and_another_owner_are_not_the_same(clock: SetClock) -> None:
    async with opened(clock, SAME) as app:
        for given, owner in (("x", "ann"), ("y", "ann"), ("x", "bob")):
            await ended(app, await app.submit("graph:g", given, owner=owner))
    assert outside.done == ["x", "b", "y", "b", "x", "b"]


async def test_items_that_are_the_same_are_run_once(clock: SetClock) -> None:
    nodes = {"e": does("note", each=["x", "y", "x"], parallel=1, cache="1h")}
    async with opened(clock, graph(nodes)) as app:
        assert (await ended(app, await app.submit("graph:g"))).output == {"e": ["x", "y", "x"]}
    assert outside.done == ["x", "y"]


async def test_a_failure_is_not_kept(clock: SetClock) -> None:
    async with opened(clock, graph({"a": does("fail_twice", input="x", cache=60)})) as app:
        statuses = [(await ended(app, await app.submit("graph:g"))).status for _ in range(3)]
    assert statuses == ["failed", "failed", "completed"]


async def test_a_node_that_is_to_be_run_again_is(clock: SetClock) -> None:
    async with opened(clock, SAME) as app:
        run = await app.submit("graph:g", "x")
        await ended(app, run)
        await ended(app, await run.retry(node="a"))
        await ended(app, await app.submit("graph:g", "x"))  # and its result counts from then on
    assert outside.done == ["x", "b", "x", "b", "b"]
