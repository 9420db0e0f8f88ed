"""Servers that do not start, break, or say too much: each is a problem or an error in words, and nothing hangs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from retinue.core.mcp import McpServer
from retinue.errors import ToolFailed
from retinue.ports.tools import Blob, Content
from retinue.testing.clock import SetClock
from tests.conftest import eventually
from tests.tools.context import Context
from tests.tools.mcp.calling import call
from tests.tools.mcp.conftest import Pools, plain
from tests.tools.mcp.waiting import logged, problems_after


async def test_a_program_that_is_not_there_is_a_problem(pools: Pools) -> None:
    server = McpServer(name="gone", command="no-such-program-here")
    async with pools(server).connected(["gone"]) as box:
        assert box.problems == ["The MCP server gone cannot be had: there is no program no-such-program-here"]
        assert not box.tools


async def test_a_program_that_ends_at_once_says_why(pools: Pools) -> None:
    async with pools(plain("exits", name="paid")).connected(["paid"]) as box:
        assert box.problems == ["The MCP server paid cannot be had: it ended with code 3; it said: no license for you"]


async def test_a_server_that_never_answers_is_waited_for_only_so_long(
    pools: Pools, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pool = pools(plain("silent", start_timeout=7))
    assert await problems_after(pool, clock, 7, "I am silent", caplog) == [
        "The MCP server plain cannot be had: it was not ready within 7 s; it said: I am silent"
    ]


async def test_a_server_that_prints_garbage_is_told_by_it(
    pools: Pools, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    pool = pools(plain("garbage"))
    [problem] = await problems_after(pool, clock, 30, "no MCP message: Starting, step 4", caplog)
    assert problem.startswith("The MCP server plain cannot be had: it was not ready within 30 s; it printed ")
    assert "lines that are no MCP message: Starting, step 0 …" in problem
    assert "step 5" not in caplog.text


async def test_one_bad_server_hides_no_other(pools: Pools) -> None:
    async with pools(plain(), plain("exits", name="bad")).connected(["bad", "plain"]) as box:
        assert len(box.problems) == 1
        assert (await call(box, "mcp:plain/complain", text="")) == "done"


async def test_L38_a_server_that_dies_in_a_call_is_an_error_that_names_it_and_starts_again(pools: Pools) -> None:
    async with pools().connected(private=[plain()]) as box:
        first = await call(box, "mcp:plain/pid")
        with pytest.raises(ToolFailed) as died:
            await call(box, "mcp:plain/die")
        assert str(died.value) == (
            "The MCP server plain broke off during the call: it ended with code 7; it said: I cannot go on"
        )
        assert await call(box, "mcp:plain/pid") != first


async def test_of_a_write_that_was_broken_off_it_is_said_that_nobody_knows(pools: Pools) -> None:
    async with pools(plain()).connected(["plain"]) as box:
        with pytest.raises(ToolFailed, match="nobody can tell whether it took effect"):
            await call(box, "mcp:plain/die-writing")


async def test_a_server_that_cannot_start_again_is_tried_three_times_in_a_call(
    pools: Pools, clock: SetClock, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    server = plain("once", str(starts), start_timeout=100_000)
    async with pools(server).connected(["plain"]) as box:
        with pytest.raises(ToolFailed):
            await call(box, "mcp:plain/die")
        calling = asyncio.create_task(call(box, "mcp:plain/pid"))

        async def time_passes() -> bool:
            clock.advance(1)
            return calling.done()

        await eventually(time_passes)
        with pytest.raises(ToolFailed, match="The MCP server plain cannot be had: it ended with code 3"):
            await calling
    assert len(starts.read_text().splitlines()) == 4


async def test_a_server_that_cannot_be_had_is_left_alone_for_a_while(
    pools: Pools, clock: SetClock, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    pool = pools(plain("count", str(starts), "exits"))
    for seconds in (0, 0.9, 0.1, 1.9, 0.1):
        clock.advance(seconds)
        async with pool.connected(["plain"]) as box:
            assert len(box.problems) == 1
    assert len(starts.read_text().splitlines()) == 3


async def test_a_message_without_end_ends_the_server(pools: Pools) -> None:
    async with pools(plain()).connected(["plain"]) as box:
        with pytest.raises(ToolFailed, match="it sent a message of more than 32 MiB"):
            await call(box, "mcp:plain/endless-line")


async def test_garbage_between_messages_is_logged_and_does_no_harm(
    pools: Pools, caplog: pytest.LogCaptureFixture
) -> None:
    async with pools(plain()).connected(["plain"]) as box:
        assert await call(box, "mcp:plain/garbled") == "done"
    assert "MCP server plain printed what is no MCP message: this is no message" in caplog.text


async def test_a_result_of_ten_megabytes_is_cut_and_kept_as_a_file(pools: Pools) -> None:
    context = Context()
    async with pools(plain()).connected(["plain"]) as box:
        text = str(await call(box, "mcp:plain/big", context, size=10_000_000))
    assert len(text) < 101_000
    assert "9,900,000 characters are left out here; the whole is kept at file:///big.txt" in text
    assert (text[0], text[-1]) == ("a", "c")
    assert [(len(data), kind, name) for data, kind, name in context.kept] == [(10_000_000, "text/plain", "big.txt")]


async def test_an_error_that_a_tool_tells_is_the_models(pools: Pools) -> None:
    async with pools(plain()).connected(["plain"]) as box:
        with pytest.raises(ToolFailed, match=r"^there is no such city$"):
            await call(box, "mcp:plain/fail", text="there is no such city")
        with pytest.raises(ToolFailed, match=r"^mcp:plain/fail failed and does not say why$"):
            await call(box, "mcp:plain/fail", text="")


async def test_what_is_broken_or_no_text_is_given_as_it_can_be(pools: Pools) -> None:
    async with pools(plain()).connected(["plain"]) as box:
        assert await call(box, "mcp:plain/mixed") == Content(
            (
                "[image/png: the server sent it broken, not as base64]",
                Blob(data=b"hello", media_type="text/plain", name="notes.txt"),
                Blob(data=b"RIFF", media_type="audio/wav"),
            )
        )


async def test_a_call_that_is_given_up_lets_go_at_once(pools: Pools, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with pools(plain()).connected(["plain"]) as box:
        hanging = asyncio.create_task(call(box, "mcp:plain/hang"))
        await logged(caplog, "I am called")
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
