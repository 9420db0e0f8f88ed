"""Graphs as runs: stored, streamed, resumed, stopped."""

from __future__ import annotations

import asyncio

import pytest

from retinue import Agent, Delta, Event, Graph, Retinue
from retinue.core import events as e
from retinue.core.graph.picture import mermaid, svg
from retinue.errors import BadDefinition, BadInput, BadTarget, UnknownTarget, WrongInput
from retinue.ports.models import ModelRequest
from retinue.testing import Reply, ScriptedModel, SetClock, drain
from tests.graphs.work import does, graph
from tests.outside import data_of, ended, outside, pass_time

DIAMOND = {
    "a": does("note", input="a"),
    "b": does("note", needs=["a"], input="b"),
    "c": does("note", needs=["a"], input="c"),
    "d": does("echo", needs=["b", "c"]),
}


def opened(clock: SetClock, *graphs: Graph, url: str = "sqlite://", **options: object):  # type: ignore[no-untyped-def]
    return Retinue.open(url, clock=clock, graphs=graphs, grace=0, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["flow", "level", "sequence"])
async def test_G1_all_nodes_run_parents_first(clock: SetClock, strategy: str) -> None:
    nodes = {"root": does("note"), "l": does("note", needs=["root"]), "r": does("note", needs=["root"])}
    tree = graph({**nodes, "leaf": does("note", needs=["l"])}, strategy=strategy)
    async with opened(clock, tree) as app:
        run = await app.submit("graph:g", "seed")
        outcome = await ended(app, run)
        started = [data.call_id for data in await data_of(run, e.ChildStarted)]
    assert outcome.output == {"r": "seed", "leaf": "seed"}
    assert started.index("root#1.1") < started.index("l#1.1") < started.index("leaf#1.1")


async def test_G1_a_graph_is_started_at_an_inner_node(clock: SetClock) -> None:
    async with opened(clock, graph(DIAMOND)) as app:
        run = await app.submit("graph:g", {"a": "given", "c": "too"}, at_node="b")
        outcome = await ended(app, run)
    assert outcome.output == {"d": {"b": "b", "c": "too", "input": {}}}
    assert outside.done == ["b"]


async def test_G1_it_is_started_only_at_a_node_that_it_has(clock: SetClock) -> None:
    async with opened(clock, graph(DIAMOND)) as app:
        with pytest.raises(BadInput, match=r"graph:g has no node bb\. Did you mean b"):
            await app.submit("graph:g", {}, at_node="bb")
        with pytest.raises(BadInput, match="be started at a node"):
            await app.submit("model:test", "hello", at_node="b")


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ({"a": does("echo", needs=["b"]), "b": does("echo", needs=["a"])}, "it is in a circle: b → a → b"),
        ({"a": does("echo", needs=["gone"])}, "nodes.a.needs: there is no node gone"),
        ({"a": {"run": "nobody"}}, "nodes.a.run: Nothing answers to 'nobody'"),
        ({"a": does("echo", input="{{ b")}, "nodes.a.input: a bad template"),
        ({"a": does("echo", when="{{ b.output }}")}, "nodes.a.when: there is no node b"),
        ({"a": does("echo"), "b": does("echo", when="{{ a.output }}")}, "b does not come after a: name it under"),
        ({"a": does("echo", when="always")}, r"nodes.a.when: expected one expression"),
        ({"a": does("echo", again={"when": "{{ true }}", "from": "a"})}, "nodes.a.again.at_most: it is missing"),
        ({"a": {}}, "it needs either `run`"),
        ({"no good": does("echo")}, "a node's name has letters"),
        ({}, "nodes: it has none"),
    ],
)
def test_G2_what_cannot_be_right_is_refused_when_it_is_declared(nodes: dict[str, object], why: str) -> None:
    with pytest.raises(BadDefinition, match=why):
        graph(nodes)


async def test_G2_an_unknown_target_is_refused_at_submit_and_nothing_is_stored(clock: SetClock) -> None:
    async with opened(clock, graph({"a": does("echo"), "b": {"run": "agent:nobody", "needs": ["a"]}})) as app:
        with pytest.raises(BadTarget, match="its node runs agent:nobody"):
            await app.submit("graph:g")
        assert await app.service.runs() == []
        with pytest.raises(UnknownTarget, match=r"no such graph. Did you mean g\?"):
            await app.submit("graph:gg")


async def test_input_that_does_not_fit_is_refused(clock: SetClock) -> None:
    schema = {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}
    async with opened(clock, graph({"a": does("echo")}, input=schema)) as app:
        with pytest.raises(WrongInput, match='"topic" is a required property'):
            await app.submit("graph:g", {})


async def test_G5_never_more_run_than_may(clock: SetClock) -> None:
    nodes = {f"n{n}": does("door", input=n) for n in range(20)}
    async with opened(clock, graph(nodes, limits={"parallel": 4})) as app:
        run = await app.submit("graph:g")
        await drain_to(app, 4)
        assert outside.done == [0, 1, 2, 3]
        outside.door.set()
        await ended(app, run)
    assert outside.done == list(range(20))


async def drain_to(app: Retinue, count: int) -> None:
    """Until so many effects are under way, and nothing more comes."""
    while len(outside.done) < count:
        await asyncio.sleep(0.001)
    for _ in range(50):
        await asyncio.sleep(0)


async def test_G6_stop_cancels_the_siblings_and_fails_the_graph(clock: SetClock) -> None:
    nodes = {"a": does("door", input="a"), "b": does("door", input="b"), "c": does("fail", input="luck")}
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        outcome = await ended(app, run)
        children = {data.call_id: data.status for data in await data_of(run, e.ChildFinished)}
    assert (outcome.status, outcome.reason) == ("failed", "tool_error")
    assert outcome.error
    assert outcome.error.message == "the node c failed: no luck"
    assert children == {"c#1.1": "failed", "a#1.1": "cancelled", "b#1.1": "cancelled"}


async def test_G6_no_error_is_in_any_prompt(clock: SetClock) -> None:
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Reply:
        asked.append(request)
        return Reply(pieces=["fine"])

    nodes = {"a": does("fail", input="SECRET"), "b": does("echo"), "w": {"run": "model:m", "needs": ["a", "b"]}}
    async with opened(clock, graph(nodes, on_error="continue"), models={"m": ScriptedModel(answer)}) as app:
        outcome = await app.run("graph:g", "x")
    assert outcome.output == {"w": "fine"}
    assert "SECRET" not in str(asked)


async def test_G7_tries_are_visible_and_come_later_each_time(clock: SetClock) -> None:
    node = does("fail_twice", input="x", retry={"tries": 3, "delay": 10, "factor": 3})
    async with opened(clock, graph({"a": node})) as app:
        run = await app.submit("graph:g")
        await drain(app)
        assert (await run.row()).waits_for == "timer"
        await pass_time(app, clock, 10)
        assert len(outside.done) == 2
        await pass_time(app, clock, 29)
        assert len(outside.done) == 2
        await pass_time(app, clock, 1)
        outcome = await run.outcome()
        tries = [data.call_id for data in await data_of(run, e.ChildStarted)]
    assert outcome.output == {"a": 3}
    assert tries == ["a#1.1", "a#1.2", "a#1.3"]


async def test_G7_a_fallback_runs_and_is_marked(clock: SetClock) -> None:
    node = does("fail", input="x", fallback="function:tests.graphs.work:echo")
    async with opened(clock, graph({"a": node})) as app:
        run = await app.submit("graph:g")
        assert (await ended(app, run)).output == {"a": "x"}
        started = [(data.call_id, data.target.rpartition(":")[2]) for data in await data_of(run, e.ChildStarted)]
    assert started == [("a#1.1", "fail"), ("a#1.2", "echo")]


async def test_a_node_that_takes_too_long_is_timed_out(clock: SetClock) -> None:
    async with opened(clock, graph({"a": does("door", timeout=30)})) as app:
        run = await app.submit("graph:g")
        await drain_to(app, 1)
        clock.advance(30)
        outcome = await ended(app, run)
    assert (outcome.status, outcome.reason) == ("failed", "timeout")


async def test_a_graph_has_a_time_of_its_own(clock: SetClock) -> None:
    async with opened(clock, graph({"a": does("door")}, limits={"max_minutes": 2})) as app:
        run = await app.submit("graph:g")
        await drain_to(app, 1)
        clock.advance(120)
        outcome = await ended(app, run)
    assert (outcome.status, outcome.reason) == ("timed_out", "timeout")


LOOP = {
    "write": does("echo", input="{{ 1 + previous.output if previous is defined else 1 }}"),
    "review": does(
        "revise",
        needs=["write"],
        again={"when": "{{ review.output.verdict == 'revise' }}", "from": "write", "at_most": 5},
    ),
    "publish": does("note", needs=["review"], when="{{ review.output.verdict == 'ok' }}", input="{{ write.output }}"),
}


async def test_G8_a_loop_a_condition_and_spawned_nodes(clock: SetClock) -> None:
    nodes = {
        **LOOP,
        "more": does("spawn", needs=["publish"], input=2, spawn=True),
        "never": does("note", when="{{ false }}"),
    }
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        outcome = await ended(app, run)
        skipped = {data.node: data.why for data in await data_of(run, e.NodeSkipped)}
    assert outcome.output["more0"] == 0  # type: ignore[index]
    assert outside.done == [3, 0, 1]
    assert skipped == {"never": "its condition does not hold"}


async def test_G9_a_thousand_items_eight_at_a_time(clock: SetClock) -> None:
    nodes = {"l": does("items", input=1000), "e": does("echo", needs=["l"], each="{{ l.output }}", parallel=8)}
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        outcome = await ended(app, run)
        most = open_now = 0
        for event in await app.service.events(run.id, limit=10_000):
            match event.data:
                case e.ChildStarted(of=1000):
                    open_now += 1
                    most = max(most, open_now)
                case e.ChildFinished(call_id=call_id) if call_id.startswith("e["):
                    open_now -= 1
                case _:
                    pass
    assert outcome.output == {"e": list(range(1000))}
    assert most == 8


@pytest.mark.parametrize(
    ("policy", "status", "output"),
    [("stop", "failed", None), ("continue", "completed", {"e": [0, None, 2]}), ("skip_dependents", "completed", {})],
)
async def test_G9_one_item_fails(clock: SetClock, policy: str, status: str, output: object) -> None:
    nodes = {"e": does("odd_fails", each=[0, 1, 2])}
    async with opened(clock, graph(nodes, on_error=policy)) as app:
        outcome = await ended(app, await app.submit("graph:g"))
    assert (outcome.status, outcome.output) == (status, output)


@pytest.mark.slow
@pytest.mark.parametrize("deep", [True, False])
async def test_G10_ten_thousand_nodes(clock: SetClock, deep: bool) -> None:
    nodes = {
        f"n{n}": {"run": "model:m", "needs": [f"n{n - 1}"] if deep and n else [], "input": "x"} for n in range(10_000)
    }
    big = graph(nodes, output="{{ n9999.output }}", limits={"parallel": 64})
    async with opened(clock, big, models={"m": ScriptedModel(lambda request: Reply(pieces=["y"]))}) as app:
        outcome = await app.run("graph:g")
    assert outcome.output == "y"


@pytest.mark.parametrize(
    ("human", "decision", "value", "given"),
    [
        (
            {"kind": "approve", "title": "Go on with {{ a.output }}?"},
            "approved",
            None,
            {"approved": True, "message": ""},
        ),
        (
            {"kind": "approve", "title": "Go on with {{ a.output }}?"},
            "denied",
            None,
            {"approved": False, "message": ""},
        ),
        ({"kind": "choose", "choices": ["x", "y"], "title": "Go on with {{ a.output }}?"}, "answered", "y", "y"),
    ],
)
async def test_G12_a_person_is_asked_and_the_graph_survives_a_restart(
    clock: SetClock, file_url: str, human: dict[str, object], decision: str, value: object, given: object
) -> None:
    asking = graph(
        {"a": does("note", input="tea"), "ask": {"human": human, "needs": ["a"]}, "b": does("echo", needs=["ask"])}
    )
    async with opened(clock, asking, url=file_url) as app:
        run = await app.submit("graph:g")
        await drain(app)
        (ticket,) = await run.tickets()
    assert ticket.title == "Go on with tea?"
    clock.advance(86_400)
    async with opened(clock, asking, url=file_url) as app:
        await app.service.answer(ticket.id, value, decision=decision)
        assert (await ended(app, app.get(run.id))).output == {"b": given}
    assert outside.done == ["tea"]


async def test_G12_a_form_that_breaks_its_schema_is_refused(clock: SetClock) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with opened(clock, graph({"ask": {"human": {"kind": "form", "schema": schema}}})) as app:
        run = await app.submit("graph:g")
        await drain(app)
        (ticket,) = await run.tickets()
        with pytest.raises(BadInput, match="not fit its schema"):
            await app.answer(ticket.id, {"n": "many"})
        await app.answer(ticket.id, {"n": 3})
        assert (await ended(app, run)).output == {"ask": {"n": 3}}


async def test_G12_an_answer_after_the_end_is_refused(clock: SetClock) -> None:
    nodes = {"ask": {"human": {}}, "a": does("fail", input="x")}
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        await ended(app, run)
        (ticket,) = await app.service.tickets(root_id=run.id, status=None)
        with pytest.raises(BadInput, match="void"):
            await app.answer(ticket.id)


async def test_G13_one_failed_node_is_run_again(clock: SetClock) -> None:
    nodes = {
        "a": does("note", input="a"),
        "b": does("fail_twice", needs=["a"], input="b"),
        "c": does("note", needs=["b"]),
    }
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        assert (await ended(app, run)).status == "failed"
        before = await app.service.events(run.id)
        again = await run.retry(node="b")
        outcome = await ended(app, again)
        row = await again.row()
        assert await app.service.events(run.id) == before
    assert (outcome.status, row.source_run_id) == ("completed", run.id)
    assert outside.done[:1] == ["a"]
    assert outside.done.count("a") == 1


async def test_G13_a_node_that_completed_is_run_again_with_what_depends_on_it(clock: SetClock) -> None:
    async with opened(clock, graph(DIAMOND)) as app:
        run = await app.submit("graph:g")
        await ended(app, run)
        again = await run.retry(node="c")
        assert (await ended(app, again)).output == (await run.outcome()).output
        started = [data.call_id for data in await data_of(again, e.ChildStarted)]
    assert outside.done == ["a", "b", "c", "c"]
    assert started == ["c#1.1", "d#1.1"]


async def test_G14_a_paused_graph_starts_nothing_and_goes_on(clock: SetClock) -> None:
    nodes = {"a": does("door", input="a"), "b": does("note", needs=["a"], input="b")}
    async with opened(clock, graph(nodes)) as app:
        run = await app.submit("graph:g")
        await drain_to(app, 1)
        await run.pause()
        outside.door.set()
        await drain(app)
        assert (await run.row()).waits_for == "paused"
        assert outside.done == ["a"]
        await run.resume()
        assert (await ended(app, run)).status == "completed"
    assert outside.done == ["a", "b"]


async def test_G14_cancelled_with_twenty_nodes_running(clock: SetClock) -> None:
    async with opened(
        clock, graph({f"n{n}": does("door", input=n) for n in range(20)}, limits={"parallel": 20})
    ) as app:
        run = await app.submit("graph:g")
        await drain_to(app, 20)
        await run.cancel()
        outcome = await ended(app, run)
        statuses = {row.status for row in await app.service.tree(run.id)}
    assert outcome.status == "cancelled"
    assert statuses == {"cancelled"}


async def test_G16_events_come_as_they_happen_with_node_and_outcome(clock: SetClock) -> None:
    async with opened(clock, graph(DIAMOND)) as app:
        run = await app.submit("graph:g")
        seen = [event async for event in run.follow(tree=True) if isinstance(event, Event)]
    assert [event.root_seq for event in seen] == list(range(1, len(seen) + 1))
    nodes = [event.data.call_id for event in seen if isinstance(event.data, e.ChildStarted)]
    assert nodes == ["a#1.1", "b#1.1", "c#1.1", "d#1.1"]
    assert seen[-1].type == "run.finished"


async def test_G16_what_nodes_say_and_give_is_streamed_as_it_happens(clock: SetClock) -> None:
    nodes = {"a": {"run": "model:m"}, "b": {"run": "model:m", "needs": ["a"]}}
    model = ScriptedModel(lambda request: Reply(pieces=["so ", "it ", "is"]))
    async with opened(clock, graph(nodes), models={"m": model}) as app:
        run = await app.submit("graph:g", "Is it?")
        told, of = list[tuple[str, object]](), {run.id: "g"}
        async for seen in run.follow(tree=True):
            match seen:
                case Delta():
                    told.append((of[seen.run_id], seen.text))
                case Event(data=e.ChildStarted(call_id=call_id, run_id=run_id)):
                    of[run_id] = call_id
                case Event(data=e.RunFinished(output=output)):
                    told.append((of[seen.run_id], output))
    said = {name: "".join(str(text) for who, text in told[:-1] if who == name) for name in ("a#1.1", "b#1.1")}
    assert said == dict.fromkeys(said, "so it isso it is")  # as it was said, and then as its output
    assert told.index(("a#1.1", "so it is")) < min(n for n, (who, _) in enumerate(told) if who == "b#1.1")
    assert told[-1] == ("g", {"b": "so it is"})


async def test_G17_agents_with_children_are_a_graph(clock: SetClock) -> None:
    heard: dict[str, str] = {}

    def answer(request: ModelRequest) -> Reply:
        name = (request.instructions or "").split()[-1].strip(".")
        heard[name] = str(request.messages[-1].parts)
        return Reply(pieces=[f"from {name}"])

    def agent(name: str, *children: str) -> Agent:
        keys = {"instructions": f"You are {name}.", "finish": "text", "context": [], "model": "m"}
        return Agent(name, description=name, children=children, **keys)  # type: ignore[arg-type]

    agents = [agent("root", "left", "right"), agent("left", "leaf"), agent("right"), agent("leaf")]
    async with opened(clock, agents=agents, models={"m": ScriptedModel(answer)}) as app:
        outcome = await ended(app, await app.submit("graph:root", "begin"))
    assert outcome.output == {"right": "from right", "leaf": "from leaf"}
    assert "from root" in heard["left"]
    assert "from left" in heard["leaf"]


async def test_G18_the_picture_shows_what_the_journal_says(clock: SetClock) -> None:
    nodes = {
        **DIAMOND,
        "x": does("fail", input="x"),
        "y": does("echo", when="{{ false }}"),
        "z": does("echo", needs=["x"]),
    }
    async with opened(clock, graph(nodes, on_error="skip_dependents")) as app:
        run = await app.submit("graph:g")
        await ended(app, run)
        definition, seen = await app.service.graph(run.id)
    drawn = mermaid(definition, seen)
    assert "class a,b,c,d completed" in drawn
    assert "class x failed" in drawn
    assert "class y,z skipped" in drawn
    assert svg(definition, seen).count("<rect") == 7
    assert "<title>x: failed</title>" in svg(definition, seen)


async def test_a_graph_that_runs_itself_comes_to_an_end(clock: SetClock) -> None:
    itself = graph({"a": {"run": "graph:g"}}, limits={"max_depth": 3})
    async with opened(clock, itself) as app:
        outcome = await ended(app, await app.submit("graph:g"))
    assert outcome.status == "failed"
    assert outcome.error
    assert "3 deep here, and no deeper" in outcome.error.message


async def test_an_output_that_cannot_be_made_fails_and_keeps_what_there_is(clock: SetClock) -> None:
    async with opened(clock, graph({"a": does("echo")}, output="{{ a.output.field }}")) as app:
        outcome = await ended(app, await app.submit("graph:g", "text"))
    assert (outcome.status, outcome.reason, outcome.partial) == ("failed", "invalid", {"a": "text"})
