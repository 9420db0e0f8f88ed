"""What servers list: much, wrong, without end, and another time something else."""

from __future__ import annotations

import logging

import pytest

from retinue.core.outcome import Effect
from retinue.core.tool import select
from retinue.testing.clock import SetClock
from tests.tools.mcp.calling import call, tool_of
from tests.tools.mcp.conftest import Pools, plain
from tests.tools.mcp.waiting import problems_after


async def test_of_very_many_tools_ten_thousand_are_taken(pools: Pools) -> None:
    async with pools(plain("many")).connected(["plain"]) as box:
        assert len(box.tools) == 10_000
        assert box.problems == ["The MCP server plain: it lists more than 10,000 tools, and the rest is left out"]
        assert select(["mcp:plain/tool-9999"], box.tools).names == ("mcp:plain/tool-9999",)


async def test_a_list_without_end_is_read_to_where_it_repeats_itself(pools: Pools) -> None:
    async with pools(plain("endless-list")).connected(["plain"]) as box:
        assert [tool.name for tool in box.tools] == ["mcp:plain/one"]


async def test_a_list_that_never_comes_is_a_problem(
    pools: Pools, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pool = pools(plain("hanging-list"))
    assert await problems_after(pool, clock, 30, "I am asked for a list", caplog) == [
        "The MCP server plain did not say within 30 s what it offers"
    ]


async def test_a_list_that_is_none_is_a_problem(pools: Pools) -> None:
    async with pools(plain("no-list")).connected(["plain"]) as box:
        assert not box.tools
        assert box.problems[0].startswith("The MCP server plain failed: ValidationError: ")


async def test_tools_that_cannot_be_called_are_left_out_and_said(pools: Pools) -> None:
    async with pools(plain("wrong-tools")).connected(["plain"]) as box:
        names = [tool.name for tool in box.tools]
        assert (names.count("mcp:plain/pid"), tool_of(box, "mcp:plain/pid").effect) == (1, Effect.READ)
        assert not {"mcp:plain/two words", "mcp:plain/wrong-schema"} & {*names}
        name, schema = box.problems
        assert name.endswith("is left out: a name has 1 to 200 characters and no blanks")
        assert "'wrong-schema' is left out: its schema is wrong: properties.a.type: " in schema


async def test_the_next_run_sees_what_was_added(pools: Pools) -> None:
    for how in ((), ("tells",)):
        pool = pools(plain(*how))
        async with pool.connected(["plain"]) as box:
            await call(box, "mcp:plain/grow", name="new")
        async with pool.connected(["plain"]) as box:
            assert await call(box, "mcp:plain/new") == "done"


async def test_L2_names_with_strange_characters_work(pools: Pools) -> None:
    async with pools(plain(name="my_own-server.v2")).connected(["my_own-server.v2"]) as box:
        await call(box, "mcp:my_own-server.v2/grow", name="a.b-c_d")
    async with pools(plain(name="my_own-server.v2")).connected(["my_own-server.v2"]) as box:
        chosen = select(["mcp:my_own-server.v2/*"], box.tools)
        assert chosen.problems == ()
        assert len(chosen.names) == len(box.tools)
