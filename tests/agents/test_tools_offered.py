"""Which tools an agent has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from retinue import Retinue, tool
from retinue.core import events as e
from retinue.core.mcp import McpServer
from retinue.core.outcome import Effect
from retinue.models.names import ModelNames
from retinue.ports.models import ToolSpec
from retinue.ports.tools import Check, ToolContext
from retinue.runners.local.runner import LocalConfig, LocalRunner
from retinue.settings import Settings, TheProject, read_project
from retinue.testing import SetClock, call
from retinue.tools.builtin.workspace import Workspaces
from retinue.tools.toolbox import AgentTools, Connected, ProjectParts
from tests.agents.acting import Actor, acting, finish, results_in, told
from tests.outside import data_of, ended, outside

CITIES = """
from retinue import tool


@tool(effect="read")
def look_up(city: str) -> str: ...


@tool(effect="read")
def measure(city: str) -> str: ...


@tool
def book(city: str) -> str: ...
"""
CLERK = "---\nname: clerk\ndescription: Files things.\nmodel: m\n---\nYou file."
SERVERS = ("my_srv-1.0", "git", "dead")
LoadGuide = Callable[[str], TheProject]


@tool(effect="read")
async def look_up(city: str) -> str:
    return str(await outside.act(f"{city} is a city"))


@pytest.fixture
def project(tmp_path: Path) -> LoadGuide:
    """A project with three tools, three servers, the agent `clerk`, and the agent `guide` with one more key."""

    def made(key: str) -> TheProject:
        guide = f"---\nname: guide\ndescription: Guides.\nmodel: m\n{key}\n---\nYou guide."
        servers = json.dumps({"mcpServers": {name: {"command": "none"} for name in SERVERS}})
        files = {"tools/cities.py": CITIES, "agents/clerk.md": CLERK, "agents/guide.md": guide, "mcp.json": servers}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return read_project(tmp_path, variables={})

    return made


@dataclass(frozen=True)
class OfServer:
    """A tool of a server, which gives its own name."""

    origin: str
    spec: ToolSpec
    effect: Effect = Effect.READ
    timeout: float | None = None
    check: Check | None = None
    stops: bool = True

    @property
    def name(self) -> str:
        return self.spec.name

    async def call(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        return f"{self.name} was called"


class Standing:
    """Servers that are there at once; all but one have three tools."""

    names = SERVERS

    @asynccontextmanager
    async def connected(self, shared: Sequence[str], private: Sequence[McpServer]) -> AsyncIterator[Connected]:
        tools = [
            OfServer(f"mcp:{server}", ToolSpec(name=f"mcp:{server}/{name}"))
            for server in shared
            for name in ("get.it", "get_it", "put-it")
            if server != "dead"
        ]
        yield Connected(tools, ["the MCP server dead does not answer"] if "dead" in shared else [])


@asynccontextmanager
async def played(project: TheProject, clock: SetClock, actor: Actor, folder: Path) -> AsyncIterator[Retinue]:
    """An app with the project's agents and servers that are there."""
    parts = ProjectParts(tools=project.tools)
    tools = AgentTools(project.agents, parts, Workspaces(folder), Standing())
    runner = LocalRunner(project.agents, tools, ModelNames({"m": actor}, Settings(), clock), LocalConfig())
    async with Retinue.open(
        "sqlite://", clock=clock, grace=0, project=project, models={"m": actor}, runners=[runner]
    ) as app:
        yield app


async def offered_in(project: TheProject, clock: SetClock, folder: Path) -> list[str]:
    """The tools that the model of `guide` is offered in its first turn."""
    actor = Actor(finish())
    async with played(project, clock, actor, folder) as app:
        await ended(app, await app.submit("agent:guide", "Go"))
    return sorted(spec.name for spec in actor.requests[0].tools if spec.name != "complete_task")


async def test_L1_two_named_tools_and_no_others(project: LoadGuide, clock: SetClock, tmp_path: Path) -> None:
    assert await offered_in(project("tools: [measure, look_up]"), clock, tmp_path) == ["look_up", "measure"]


async def test_the_tool_that_finishes_is_always_there(project: LoadGuide, clock: SetClock) -> None:
    actor = Actor(finish())
    async with Retinue.open("sqlite://", clock=clock, project=project("tools: []"), models={"m": actor}) as app:
        await ended(app, await app.submit("agent:guide", "Go"))
    assert [spec.name for spec in actor.requests[0].tools] == ["complete_task"]


OWN = ["book", "look_up", "measure"]
GIT = ["git__get_it", "git__get_it_bba19052", "git__put-it"]
SRV = ["my_srv-1_0__get_it", "my_srv-1_0__get_it_7f71f283", "my_srv-1_0__put-it"]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("tools: '*'", [*OWN, *GIT, *SRV]),
        ("tools: 'mcp:*'", [*GIT, *SRV]),
        ("tools: 'mcp:my_srv-1.0/*'", SRV),
        ("tools: ['mcp:my_srv-1.0/get.it', look_up]", ["look_up", "my_srv-1_0__get_it"]),
        ("tools: ['mcp:dead/*', look_up]", ["look_up"]),
    ],
)
async def test_L2_patterns_mean_what_they_say(
    project: LoadGuide, clock: SetClock, tmp_path: Path, key: str, names: list[str]
) -> None:
    assert await offered_in(project(key), clock, tmp_path) == sorted(names)


async def test_L2_strange_names_are_called_and_told_as_people_write_them(
    project: LoadGuide, clock: SetClock, tmp_path: Path
) -> None:
    actor = Actor([call(name) for name in SRV], finish())
    async with played(project("tools: 'mcp:my_srv-1.0/*'"), clock, actor, tmp_path) as app:
        run = await app.submit("agent:guide", "Go")
        await ended(app, run)
        started = [data.tool for data in await data_of(run, e.ToolStarted)][:3]
    assert started == ["mcp:my_srv-1.0/get.it", "mcp:my_srv-1.0/get_it", "mcp:my_srv-1.0/put-it"]
    assert told(actor.requests[1]) == [f"{name} was called" for name in started]


async def test_a_server_that_does_not_answer_is_one_warning(
    project: LoadGuide, clock: SetClock, tmp_path: Path
) -> None:
    async with played(project("tools: ['mcp:dead/*', look_up]"), clock, Actor(finish()), tmp_path) as app:
        run = await app.submit("agent:guide", "Go")
        await ended(app, run)
        assert [data.message for data in await data_of(run, e.Warned)] == ["the MCP server dead does not answer"]


async def test_L3_without_tools_all_of_the_projects_and_no_agent(
    project: LoadGuide, clock: SetClock, tmp_path: Path
) -> None:
    assert await offered_in(project("steps: 1"), clock, tmp_path) == sorted([*OWN, *GIT, *SRV])


async def test_L4_a_tool_by_name_and_by_object_is_offered_once(clock: SetClock) -> None:
    actor = Actor(call("look_up", city="Porto"), finish())
    async with acting(clock, actor, tools=["look_up", look_up, look_up]) as app:
        await ended(app, await app.submit("agent:guide", "Go"))
    assert [spec.name for spec in actor.requests[0].tools] == ["look_up", "complete_task"]
    assert told(actor.requests[1]) == ["Porto is a city"]


async def test_L5_a_call_outside_the_set_is_refused_and_the_loop_goes_on(clock: SetClock) -> None:
    actor = Actor(call("destroy", all=True), finish())
    async with acting(clock, actor, tools=[look_up]) as app:
        run = await app.submit("agent:guide", "Go")
        assert (await ended(app, run)).reason == "goal"
        (refused,) = await data_of(run, e.ToolRefused)
    (result,) = results_in(actor.requests[1])
    assert (result.ok, result.call_id, refused.tool, outside.done) == (False, refused.call_id, "destroy", [])
    assert result.result == "There is no tool 'destroy' for you now. You have: look_up, complete_task."
