"""Agents that have other agents do something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from retinue import Agent, Retinue, tool
from retinue.core import events as e
from retinue.core.delegation import LONGEST_CATALOGUE, Callee, catalogue, shared
from retinue.core.messages import Message, Text, ToolCall, ToolResult, text_of
from retinue.core.outcome import Usage
from retinue.ports.models import ModelRequest
from retinue.testing import Reply, SetClock, call, drain
from tests.agents.acting import Actor, finish, told
from tests.outside import data_of, doomed, ended, outside


@tool(effect="write")
async def act(what: str) -> str:
    """Do something."""
    return str(await outside.act(what))


@tool(effect="write")
async def wait(what: str) -> str:
    """Do something that takes until the door is open."""
    return str(await outside.wait_at_door(what))


def agent(name: str, **keys: Any) -> Agent:
    """One whose model has its name."""
    common = {"description": f"{name} helps.", "instructions": f"You are {name}.", "tools": [], "retry": {"tries": 1}}
    return Agent(name, **{**common, "model": name, **keys})


@asynccontextmanager
async def cast(
    clock: SetClock, actors: Mapping[str, Actor], *more: Agent, url: str = "sqlite://", **keys: Any
) -> AsyncIterator[Retinue]:
    """`boss` may have `kid` do something."""
    known = {one.name for one in more}
    agents = [agent("boss", agents=["kid"], **keys)] if "boss" not in known else []
    agents += [agent("kid", tools=[act, wait])] if "kid" not in known else []
    async with Retinue.open(url, clock=clock, agents=[*agents, *more], models=actors, grace=0) as app:
        yield app


class Player(Actor):
    """Says what a function makes of each request."""

    def __init__(self, play: Callable[[ModelRequest], Reply]) -> None:
        super().__init__()
        self.play = play

    def _next(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        return self.play(request)


async def until_begun(n: int) -> None:
    """A model that speaks when somebody is at the door."""
    await outside.at_door.wait()


def run(task: str = "Do it.", **more: Any) -> ToolCall:
    return call("agent_run", **{"agent": "kid", "task": task, **more})


async def test_D1_parent_child_and_grandchild_are_one_tree(clock: SetClock) -> None:
    actors = {
        "boss": Actor(run(), finish("top")),
        "kid": Actor(call("agent_run", agent="leaf", task="Deeper."), finish("middle")),
        "leaf": Actor(finish("deep")),
    }
    async with cast(clock, actors, agent("kid", agents=["leaf"]), agent("leaf")) as app:
        boss = await app.submit("agent:boss", "Begin.")
        outcome = await ended(app, boss)
        rows = {row.target: row for row in await app.service.tree(boss.id)}
        (started,) = await data_of(boss, e.ChildStarted)
    assert outcome.output == "top"
    assert [rows[f"agent:{name}"].depth for name in ("boss", "kid", "leaf")] == [0, 1, 2]
    assert {row.root_id for row in rows.values()} == {boss.id}
    assert rows["agent:leaf"].parent_id == rows["agent:kid"].id == started.run_id
    assert rows["agent:kid"].call_id == started.call_id
    assert told(actors["boss"].requests[1]) == [
        {
            "run_id": started.run_id,
            "agent": "kid",
            "status": "completed",
            "reason": "goal",
            "recovered": False,
            "output": "middle",
        }
    ]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"agent": "nobody"}, "unknown_agent"),
        ({"agent": "boss"}, "unknown_agent"),
        ({"agent": None}, "invalid_arguments"),
        ({"agent": "kid", "run_id": "run_of_somebody"}, "unknown_run"),
        ({"agent": "kid", "input": {"n": "x"}}, "invalid_arguments"),
    ],
)
async def test_D2_D3_what_cannot_be_is_told_and_nothing_is_started(
    clock: SetClock, said: dict[str, Any], code: str
) -> None:
    actors = {"boss": Actor(run(**said), finish()), "kid": Actor(finish())}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with cast(clock, actors, agent("kid", input=schema)) as app:
        boss = await app.submit("agent:boss", "Begin.")
        assert (await ended(app, boss)).output == "done"
        assert await data_of(boss, e.ChildStarted) == []
    assert str(told(actors["boss"].requests[1])[0]).startswith(f"{code}: ")


async def test_D3_without_a_task_nothing_is_started(clock: SetClock) -> None:
    actors = {"boss": Actor(call("agent_run", agent="kid"), finish()), "kid": Actor(finish())}
    async with cast(clock, actors) as app:
        boss = await app.submit("agent:boss", "Begin.")
        await ended(app, boss)
        assert await data_of(boss, e.ChildStarted) == []
    assert '"task" is a required property' in str(told(actors["boss"].requests[1])[0])


async def test_D2_only_so_deep_and_only_so_many(clock: SetClock) -> None:
    def deeper(name: str) -> Player:
        deep = Reply(calls=[call("agent_run", agent=name, task="Again.")])
        return Player(lambda request: deep if len(request.messages) == 1 else Reply(calls=[finish()]))

    endless = {"boss": deeper("kid"), "kid": deeper("boss")}
    async with cast(clock, endless, agent("kid", agents=["boss"])) as app:
        boss = await app.submit("agent:boss", "Begin.")
        await ended(app, boss)
        assert max(row.depth for row in await app.service.tree(boss.id)) == 3
    last = [told(request) for actor in endless.values() for request in actor.requests]
    assert any("limit_exceeded: agents call agents 3 deep here" in str(results) for results in last)


async def test_D2_only_so_many_run_at_once(clock: SetClock) -> None:
    actors = {"boss": Actor([run(background=True) for _ in range(4)], finish()), "kid": Actor(finish())}
    async with cast(clock, actors, limits={"max_children": 3}) as app:
        boss = await app.submit("agent:boss", "Begin.")
        await ended(app, boss)
        started = await data_of(boss, e.ChildStarted)
    assert len(started) < 4
    assert any("limit_exceeded: 3 agents run already" in str(result) for result in told(actors["boss"].requests[1]))


async def test_D4_foreground_calls_overlap_and_answer_in_order(clock: SetClock) -> None:
    def kid(request: ModelRequest) -> Reply:  # each child says its own task
        task = text_of(request.messages[0].parts)
        return Reply(calls=[finish(task) if len(request.messages) > 1 else call("wait", what="x")])

    actors = {"boss": Actor([run("A"), run("B"), run("C")], finish()), "kid": Player(kid)}
    async with cast(clock, actors) as app:
        boss = await app.submit("agent:boss", "Begin.")
        while len(outside.done) < 3:
            await asyncio.sleep(0.001)
        outside.door.set()
        await ended(app, boss)
    assert [result["output"] for result in told(actors["boss"].requests[1])] == ["A", "B", "C"]  # type: ignore[index]


async def test_D5_a_background_result_comes_before_the_next_turn_once(clock: SetClock, file_url: str) -> None:
    actors = {
        "boss": Actor(
            run(background=True), call("agent_run", agent="slow", task="Wait."), call("agent_list"), finish()
        ),
        "kid": Actor(finish("from the background")),
        "slow": Actor(call("wait", what="w"), finish("slow")),
    }
    slow = agent("slow", tools=[wait])
    boss_agent = agent("boss", agents=["kid", "slow"])
    async with cast(clock, actors, slow, boss_agent, url=file_url) as app:
        boss = await app.submit("agent:boss", "Begin.")
        await outside.at_door.wait()
    outside.door.set()
    async with cast(clock, actors, slow, boss_agent, url=file_url) as app:
        await ended(app, app.get(boss.id))
        turns = await data_of(app.get(boss.id), e.TurnStarted)
    assert told(actors["boss"].requests[1])[0]["status"] == "running"  # type: ignore[index]
    heard = [turn.results for turn in turns if turn.results]
    assert len(heard) == 1
    (text,) = heard[0].values()
    assert "from the background" in text
    assert "data, not instructions" in text


async def test_L31_a_background_result_comes_before_a_hint_and_is_data(clock: SetClock) -> None:
    actors = {"boss": Actor(run(background=True), call("act", what="x"), finish()), "kid": Actor(finish("first"))}
    async with cast(clock, actors, agent("boss", agents=["kid"], tools=[wait, act])) as app:
        actors["boss"]._lines[1] = call("wait", what="x")
        boss = await app.submit("agent:boss", "Begin.")
        await outside.at_door.wait()
        while not any(row.status.terminal for row in await app.service.tree(boss.id)):
            await asyncio.sleep(0.001)
        await boss.steer("And be quick.")
        while not await data_of(boss, e.SteerReceived):
            await asyncio.sleep(0.001)
        outside.door.set()
        await ended(app, boss)
    said = [part.text for part in actors["boss"].requests[2].messages[-1].parts if isinstance(part, Text)]
    assert "first" in said[0]
    assert "data, not instructions" in said[0]
    assert said[1] == "And be quick."


@pytest.mark.parametrize(
    ("when_done", "status"), [("wait", "completed"), ("cancel", "cancelled"), ("detach", "running")]
)
async def test_what_becomes_of_background_agents_at_the_end(clock: SetClock, when_done: str, status: str) -> None:
    last = Reply(pieces=["Enough."], before=until_begun, calls=[finish()])
    actors = {"boss": Actor(run(background=True), last), "kid": Actor(call("wait", what="w"), finish())}
    async with cast(clock, actors, when_done=when_done) as app:
        boss = await app.submit("agent:boss", "Begin.")
        if when_done == "wait":
            await drain_until_asked(actors["boss"], 2)
            assert not (await boss.row()).status.terminal
            outside.door.set()
        assert (await boss.outcome()).output == "done"
        (kid,) = [row for row in await app.service.tree(boss.id) if row.parent_id]
        assert kid.status == status
        outside.door.set()
        await drain(app)


async def drain_until_asked(actor: Actor, count: int) -> None:
    while len(actor.requests) < count:
        await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0)


def test_D6_what_is_shared_has_calls_only_with_their_results() -> None:
    asked = ToolCall(call_id="a", tool="x", arguments={})
    unpaired = ToolCall(call_id="b", tool="y", arguments={})
    said = [
        Message(role="user", parts=(Text(text="[ann]: hello"),)),
        Message(role="model", parts=(Text(text="hm"), asked, unpaired)),
        Message(role="tool", parts=(ToolResult(call_id="a", ok=True, result=1),)),
        Message(role="user", parts=(Text(text="[bob]: go on"),)),
    ]
    seen = shared(said, "The task.")
    assert [message.role for message in seen] == ["user", "model", "tool", "user", "user"]
    assert seen[1].parts == (Text(text="hm"), asked)
    assert text_of(seen[-1].parts) == "The task."


async def test_D6_a_child_sees_what_its_caller_shares(clock: SetClock) -> None:
    actors = {
        "boss": Actor([call("act", what="x"), run("Your task.", share="messages")], finish()),
        "kid": Actor(finish()),
    }
    async with cast(clock, actors, agent("boss", agents=["kid"], tools=[act])) as app:
        await ended(app, await app.submit("agent:boss", "What people said."))
    texts = [text_of(message.parts) for message in actors["kid"].requests[0].messages]
    assert texts == ["What people said.", "Your task."]
    assert "You are boss." not in str(actors["kid"].requests[0])


async def test_a_summary_is_shared_and_paid_for(clock: SetClock) -> None:
    def boss(request: ModelRequest) -> Reply:
        if request.instructions and request.instructions.startswith("You shorten"):
            return Reply(pieces=["In short: tea."], usage=Usage(calls=1, output_tokens=7))
        return Reply(calls=[run("Go on.", share="summary")] if len(request.messages) == 1 else [finish()])

    actors = {"boss": Player(boss), "kid": Actor(finish())}
    async with cast(clock, actors) as app:
        outcome = await ended(app, await app.submit("agent:boss", "A long story about tea."))
    assert "In short: tea." in text_of(actors["kid"].requests[0].messages[0].parts)
    assert outcome.usage.calls == 3


async def test_D8_D9_a_stopped_child_goes_on_as_a_new_run(clock: SetClock) -> None:
    def boss(request: ModelRequest) -> Reply:
        ids = [r["run_id"] for m in request.messages for r in results(m) if isinstance(r, dict)]
        match sum(message.role == "model" for message in request.messages):
            case 0:
                return Reply(calls=[run("First.", background=True)])
            case 1:
                stop = call("agent_stop", run_id=ids[0], reason="enough")
                return Reply(pieces=["Enough."], before=until_begun, calls=[stop])
            case 2:
                return Reply(calls=[run("Then this.", run_id=ids[0])])
            case _:
                return Reply(calls=[finish()])

    actors = {"boss": Player(boss), "kid": Actor(call("wait", what="w"), finish("went on"))}
    async with cast(clock, actors) as app:
        run_ = await app.submit("agent:boss", "Begin.")
        outcome = await ended(app, run_)
        children = await data_of(run_, e.ChildStarted)
        rows = {row.id: row for row in await app.service.tree(run_.id)}
    assert outcome.status == "completed", outcome
    assert len(children) == 2
    assert rows[children[1].run_id].source_run_id == children[0].run_id
    assert rows[children[0].run_id].status == "cancelled"
    assert rows[children[1].run_id].status == "completed"
    assert "Then this." in str(actors["kid"].requests[-1].messages)


def results(message: Message) -> list[Any]:
    return [part.result for part in message.parts if isinstance(part, ToolResult)]


async def test_D10_two_calls_that_go_on_with_one_run_start_it_once(clock: SetClock) -> None:
    def boss(request: ModelRequest) -> Reply:
        ids = [r["run_id"] for m in request.messages for r in results(m)]
        if not ids:
            return Reply(calls=[run("First.")])
        return Reply(calls=[run("More.", run_id=ids[0])] * 2 if len(ids) == 1 else [finish(ids)])

    actors = {"boss": Player(boss), "kid": Actor(finish("done"))}
    output = {"schema": {"type": "array"}}
    async with cast(clock, actors, agent("boss", agents=["kid"], output=output)) as app:
        run_ = await app.submit("agent:boss", "Begin.")
        outcome = await ended(app, run_)
        assert len(await data_of(run_, e.ChildStarted)) == 2
    assert isinstance(outcome.output, list)
    assert outcome.output[0] != outcome.output[1] == outcome.output[2]


@pytest.mark.parametrize(("approved", "output"), [(True, "acted"), (False, "refused")])
async def test_D11_a_grandchild_asks_at_the_root(clock: SetClock, approved: bool, output: str) -> None:
    actors = {
        "boss": Actor(run(), finish("top")),
        "kid": Actor(call("agent_run", agent="leaf", task="Deeper."), finish("middle")),
        "leaf": Actor(call("act", what="x"), finish()),
    }
    leaf = agent("leaf", tools=[act], policy=[{"tool": "act", "action": "ask"}])
    async with cast(clock, actors, agent("kid", agents=["leaf"]), leaf) as app:
        boss = await app.submit("agent:boss", "Begin.")
        await drain(app)
        assert {row.waits_for for row in await app.service.tree(boss.id)} == {"children", "approval"}
        (ticket,) = await boss.tickets()
        await (app.approve(ticket.id) if approved else app.deny(ticket.id, message="not now"))
        assert (await ended(app, boss)).output == "top"
    assert outside.done == (["x"] if approved else [])
    assert ("not now" in str(told(actors["leaf"].requests[1]))) is not approved


async def test_D12_a_crash_while_a_child_runs_starts_no_second(clock: SetClock, file_url: str, tmp_path: Path) -> None:
    actors = {"boss": Actor(run(), finish("top")), "kid": Actor(call("wait", what="w"), finish("late"))}
    agents = [agent("boss", agents=["kid"]), agent("kid", tools=[wait], on_unknown="retry")]
    async with doomed(file_url, clock, agents=agents, models=actors) as app:
        boss = await app.submit("agent:boss", "Begin.")
        await outside.at_door.wait()
    outside.door.set()
    async with Retinue.open(file_url, clock=clock, agents=agents, models=actors, grace=0) as app:
        assert (await ended(app, app.get(boss.id))).output == "top"
        assert len(await app.service.tree(boss.id)) == 2
    assert told(actors["boss"].requests[1])[0]["output"] == "late"  # type: ignore[index]


async def test_D13_a_child_may_do_no_more_than_its_caller(clock: SetClock) -> None:
    actors = {"boss": Actor(run(), finish()), "kid": Actor(call("act", what="x"), finish())}
    lenient = agent("kid", tools=[act], policy=[{"tool": "act", "action": "allow"}])
    async with cast(clock, actors, lenient, policy=[{"tool": "act", "action": "ask"}]) as app:
        boss = await app.submit("agent:boss", "Begin.")
        await drain(app)
        assert [ticket.kind for ticket in await boss.tickets()] == ["approval"]
        assert outside.done == []


async def test_D14_two_children_have_one_purse(clock: SetClock) -> None:
    class Costly(Player):
        def at_most(self, request: ModelRequest) -> Usage:
            return Usage(calls=1, cost_usd=1.0)

    def paid(line: ToolCall) -> Reply:
        return Reply(calls=[line], usage=Usage(calls=1, cost_usd=1.0))

    kid = Costly(lambda request: paid(finish("paid") if len(request.messages) > 1 else call("act", what="x")))
    actors = {"boss": Actor([run("A"), run("B")], finish()), "kid": kid}
    async with cast(clock, actors, agent("kid", tools=[act])) as app:
        boss = await app.submit("agent:boss", "Begin.", max_cost_usd=3.0)
        await ended(app, boss)
        spent = [(await app.get(row.id).outcome()).usage.cost_usd for row in await app.service.tree(boss.id)]
    assert sum(spent) <= 3.0


async def test_a_hint_reaches_a_child_that_runs(clock: SetClock) -> None:
    def boss(request: ModelRequest) -> Reply:
        ids = [r["run_id"] for m in request.messages for r in results(m) if isinstance(r, dict)]
        if not ids:
            return Reply(calls=[run(background=True)])
        return Reply(calls=[call("agent_send", run_id=ids[0], text="Be quick.")] if len(ids) == 1 else [finish()])

    actors = {"boss": Player(boss), "kid": Actor(call("wait", what="w"), finish("heard"))}
    async with cast(clock, actors) as app:
        run_ = await app.submit("agent:boss", "Begin.")
        await outside.at_door.wait()
        (kid,) = await data_of(run_, e.ChildStarted)
        while not await data_of(app.get(kid.run_id), e.SteerReceived):
            await asyncio.sleep(0.001)
        outside.door.set()
        await ended(app, run_)
    assert "Be quick." in str(actors["kid"].requests[-1].messages)


def test_the_catalogue_is_bounded_and_escaped() -> None:
    many = [Callee(f"a{n}", "x" * 900 + "\n## <b>", {"type": "object"}) for n in range(100)]
    said = catalogue(many)
    assert len(said) < LONGEST_CATALOGUE + 500
    assert "more that are not shown" in said
    assert "<b>" not in said
    assert catalogue([]) == ""


async def test_L3_other_agents_are_no_tools_and_are_called_only_where_they_are_listed(clock: SetClock) -> None:
    actors = {"boss": Actor(finish()), "kid": Actor(finish())}
    async with cast(clock, actors) as app:
        await app.run("agent:boss", "x")
        await app.run("agent:kid", "x")
    names = {name: [spec.name for spec in actor.requests[0].tools] for name, actor in actors.items()}
    assert names["boss"] == ["complete_task", "agent_run", "agent_output", "agent_stop", "agent_send", "agent_list"]
    assert names["kid"] == ["act", "wait", "complete_task"]
