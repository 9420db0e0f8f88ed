from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.tool import Selection, ToolEntry, select

TOOLS = [
    ToolEntry("lookup"),
    ToolEntry("look_up-2"),
    ToolEntry("web_fetch", "builtin"),
    ToolEntry("mcp:git/push", "mcp:git"),
    ToolEntry("mcp:git/log", "mcp:git"),
    ToolEntry("mcp:my_server-1.0/read.file", "mcp:my_server-1.0"),
    ToolEntry("mcp:my_server-1.0/read/all", "mcp:my_server-1.0"),
]
OF_PROJECT = tuple(sorted(tool.name for tool in TOOLS if tool.origin != "builtin"))


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (None, OF_PROJECT),
        (["*"], OF_PROJECT),
        ([], ()),
        (["lookup", "web_fetch"], ("lookup", "web_fetch")),
        (["mcp:*"], tuple(name for name in OF_PROJECT if name.startswith("mcp:"))),
        (["mcp:git/*"], ("mcp:git/log", "mcp:git/push")),
        (["mcp:git/log"], ("mcp:git/log",)),
        (["mcp:my_server-1.0/*"], ("mcp:my_server-1.0/read.file", "mcp:my_server-1.0/read/all")),
        (["mcp:my_server-1.0/read.file", "look_up-2"], ("look_up-2", "mcp:my_server-1.0/read.file")),
        (["mcp:my_server-1.0/read/all"], ("mcp:my_server-1.0/read/all",)),
        (["*", "web_fetch"], tuple(sorted((*OF_PROJECT, "web_fetch")))),
    ],
)
def test_what_patterns_mean(patterns: list[str] | None, names: tuple[str, ...]) -> None:
    assert select(patterns, TOOLS) == Selection(names)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("lokup", "there is no tool lokup. Did you mean lookup"),
        ("mcp:gti/*", "there is no MCP server gti. Did you mean git?"),
        ("mcp:git/pull", "the MCP server git has no tool pull. Did you mean mcp:git/push"),
        ("mcp:git", "mcp:git says no tool: write mcp:*, mcp:SERVER/* or mcp:SERVER/TOOL"),
        ("guide", "guide is an agent, not a tool: name it under `agents`"),
        ("push", "there is no tool push"),
    ],
)
def test_what_is_not_there_is_said_with_the_nearest_names(pattern: str, says: str) -> None:
    selection = select([pattern, "lookup"], TOOLS, agents=["guide"])
    assert selection.names == ("lookup",)
    assert [problem[: len(says)] for problem in selection.problems] == [says]


def test_what_is_said_of_a_server_that_has_not_answered_yet_is_believed() -> None:
    assert select(["mcp:far/*", "mcp:far/tool"], TOOLS, pending=["far"]) == Selection(())


def test_all_of_an_agents_own_server_is_meant_unless_something_of_it_is_named() -> None:
    assert select(["lookup"], TOOLS, private=["git"]).names == ("lookup", "mcp:git/log", "mcp:git/push")
    assert select(["lookup", "mcp:git/log"], TOOLS, private=["git"]).names == ("lookup", "mcp:git/log")
    assert select(["lookup"], TOOLS, private=["silent"]) == Selection(("lookup",))


def test_all_of_nothing_is_nothing() -> None:
    assert select(None, []) == select(["*", "mcp:*"], []) == Selection(())


patterns = st.lists(
    st.sampled_from(["*", "mcp:*", "mcp:git/*", "lookup", "web_fetch", "nobody", "mcp:x/*", "mcp:git/log"])
)


@given(patterns, st.permutations(TOOLS), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(some: list[str], tools: list[ToolEntry], random: object) -> None:
    assert select(some, tools) == select([*reversed(some), *some], TOOLS)


@given(patterns, patterns)
def test_more_patterns_never_mean_fewer_tools(some: list[str], more: list[str]) -> None:
    assert {*select(some, TOOLS).names} <= {*select([*some, *more], TOOLS).names}
