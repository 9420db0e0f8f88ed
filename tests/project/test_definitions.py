from __future__ import annotations

import pytest

from retinue import Agent, tool
from retinue.errors import BadDefinition
from retinue.project.checks import Surroundings
from retinue.project.definitions import Agents

from .conftest import Load, agent


@tool
def mine() -> None: ...


def test_agents_in_python_stand_beside_those_in_files(load: Load) -> None:
    project = load({"agents/guide.md": agent("guide")})
    both = project.agents.and_from_python([Agent("clerk", instructions="x", agents=["guide"], tools=[mine])])
    assert both.names() == ("clerk", "guide")
    assert both.code("clerk").wanted(both.agent("clerk")) == (mine,)
    assert project.agents.names() == ("guide",)


def test_agents_in_python_may_name_each_other() -> None:
    both = Agents().and_from_python(
        [Agent("a", instructions="x", agents=["b"]), Agent("b", instructions="x", agents=["a"])]
    )
    assert both.names() == ("a", "b")


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (Agent("a", instructions="x", tools=["mnie", mine]), "tools: there is no tool mnie. Did you mean mine?"),
        (Agent("a", instructions="x", agents=["b"]), "agents: there is no agent b"),
        (Agent("guide", instructions="x"), "the project has an agent of that name"),
        (Agent("a", instructions="x", tools=["mcp:git/*"]), "tools: there is no MCP server git"),
    ],
)
def test_an_agent_in_python_that_names_what_is_not_there_is_refused(declared: Agent, says: str) -> None:
    agents = Agents(surroundings=Surroundings(agents=frozenset({"guide"})))
    with pytest.raises(BadDefinition) as bad:
        agents.and_from_python([declared])
    assert says in bad.value.problem


def test_the_tools_of_an_agents_own_server_are_not_known_before_it_is_connected() -> None:
    own = Agent("a", instructions="x", tools=["mcp:own/look"], mcp_servers={"own": {"command": "x"}})
    agents = Agents().and_from_python([own])
    assert [server.name for server in agents.servers(agents.agent("a"))] == ["own"]
