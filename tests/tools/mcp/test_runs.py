"""Agents that use MCP servers, as stored runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from retinue import Agent, Outcome, Retinue, Run
from retinue.core import events as e
from retinue.core.outcome import Reason, Status
from retinue.errors import ModelRefused
from retinue.testing import Reply, SetClock, call
from tests.agents.acting import Actor, acting, finish, guide, results_in, told
from tests.conftest import eventually
from tests.outside import data_of
from tests.tools.mcp.conftest import PLAIN
from tests.tools.mcp.test_pool import ended
from tests.tools.mcp.waiting import logged

ALLOW = [{"tool": "mcp:*", "action": "allow"}]
KEY = "k3y of the house"


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    return tmp_path / "starts"


def own(starts: Path, *how: str) -> dict[str, Any]:
    """A server that an agent declares for itself; its starts are counted."""
    return {"plain": {"command": sys.executable, "args": [str(PLAIN), "count", str(starts), *how]}}


def pids(starts: Path) -> Sequence[int]:
    return [int(line) for line in starts.read_text().splitlines()]


async def outcome_of(app: Retinue) -> tuple[Run, Outcome]:
    run = await app.submit("agent:guide", "go")
    return run, await run.outcome()


async def test_L38_a_private_server_is_connected_for_its_run_and_closed_when_it_finishes(
    clock: SetClock, starts: Path
) -> None:
    actor = Actor(call("plain__pid"), finish())
    async with acting(clock, actor, mcp_servers=own(starts)) as app:
        for _ in range(2):
            _, outcome = await outcome_of(app)
            assert outcome.reason is Reason.GOAL
        assert [await ended(pid) for pid in pids(starts)] == [True, True]
    assert told(actor.requests[1]) == [str(pids(starts)[0])]


async def test_L38_its_tools_are_only_there(clock: SetClock, starts: Path) -> None:
    with_it, without = Actor(finish()), Actor(finish())
    other = Agent("other", description="Has no server.", instructions="You wait.", model="other")
    agents = [guide(mcp_servers=own(starts)), other]
    models = {"m": with_it, "other": without}
    async with Retinue.open("sqlite://", clock=clock, grace=0, agents=agents, models=models) as app:
        for target in ("agent:guide", "agent:other"):
            await (await app.submit(target, "go")).outcome()
    assert "plain__pid" in {tool.name for tool in with_it.requests[0].tools}
    assert {tool.name for tool in without.requests[0].tools} == {"complete_task"}


async def test_L38_a_private_server_is_closed_when_its_run_fails(clock: SetClock, starts: Path) -> None:
    actor = Actor(call("plain__pid"), Reply(error=ModelRefused(model="m", problem="no")))
    async with acting(clock, actor, mcp_servers=own(starts)) as app:
        _, outcome = await outcome_of(app)
        assert outcome.status is Status.FAILED
        assert [await ended(pid) for pid in pids(starts)] == [True]


async def test_L38_a_private_server_is_closed_when_its_run_is_cancelled(
    clock: SetClock, starts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    actor = Actor(call("plain__hang"))
    async with acting(clock, actor, mcp_servers=own(starts), policy=ALLOW) as app:
        run = await app.submit("agent:guide", "go")
        await logged(caplog, "I am called")
        await run.cancel()
        assert (await run.outcome()).status is Status.CANCELLED
        await eventually(lambda: ended(pids(starts)[0]))


async def test_L38_a_dead_server_is_a_tool_error_that_names_it(clock: SetClock, starts: Path) -> None:
    actor = Actor(call("plain__die"), call("plain__pid"), finish())
    async with acting(clock, actor, mcp_servers=own(starts)) as app:
        _, outcome = await outcome_of(app)
    assert outcome.reason is Reason.GOAL
    [died] = results_in(actor.requests[1])
    assert "The MCP server plain broke off during the call: it ended with code 7" in str(died)
    assert told(actor.requests[2]) == [str(pids(starts)[1])]


async def test_a_server_that_cannot_be_had_is_a_warning(clock: SetClock, starts: Path) -> None:
    async with acting(clock, Actor(finish()), mcp_servers=own(starts, "exits")) as app:
        run, outcome = await outcome_of(app)
        [warned] = await data_of(run, e.Warned)
    assert outcome.reason is Reason.GOAL
    assert "The MCP server plain cannot be had: it ended with code 3" in warned.message


@pytest.mark.parametrize("how", ["header", "oauth"])
async def test_L47_what_a_server_needs_is_a_secret_that_is_in_no_event(
    clock: SetClock, websites: dict[str, str], how: str
) -> None:
    address, secret = websites[how], {"header": KEY, "oauth": "s3cret/of me"}[how]
    oauth = {"client_id": "me", "client_secret": "${secret:OURS}", "issuer": address, "scope": "tools"}
    needs = {"header": {"headers": {"X-Key": "${secret:OURS}"}}, "oauth": {"oauth": oauth}}[how]
    actor = Actor(
        [call("web__prompt_greet", name="Ana"), call("web__resources_read", uri="notes://today")],
        call("web__resources_list"),
        finish(f"I never saw {secret}"),
    )
    agent = guide(mcp_servers={"web": {"url": f"{address}/mcp", **needs}})
    opened = Retinue.open(
        "sqlite://", clock=clock, grace=0, agents=[agent], models={"m": actor}, secrets={"OURS": secret}
    )
    async with opened as app:
        run, outcome = await outcome_of(app)
        assert outcome.reason is Reason.GOAL
        assert told(actor.requests[1]) == ["Greet Ana", "rain"]
        stored = repr(await app.services.store.events(run.id))
    assert secret not in stored
    assert "I never saw ${secret:OURS}" in stored
