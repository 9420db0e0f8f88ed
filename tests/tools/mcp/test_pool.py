"""Shared servers and private ones: when they are started, who sees them, and that all of them end."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from retinue.errors import ToolFailed
from retinue.tools.toolbox import Connected
from tests.conftest import eventually
from tests.tools.context import Context
from tests.tools.mcp.calling import call
from tests.tools.mcp.conftest import Pools, plain, sdk


async def pid_of(box: Connected) -> int:
    return int(str(await call(box, "mcp:plain/pid")))


async def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_shared_server_is_started_once_and_when_it_is_needed(pools: Pools, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    pool = pools(plain("count", str(starts)))
    async with pool.connected():
        assert not starts.exists()
    async with pool.connected(["plain"]) as one, pool.connected(["plain"]) as other:
        assert await pid_of(one) == await pid_of(other)
    await asyncio.gather(*(_used(pool.connected(["plain"])) for _ in range(5)))
    assert len(starts.read_text().splitlines()) == 1


async def _used(connecting: object) -> None:
    async with connecting as box:  # type: ignore[attr-defined]
        await pid_of(box)


async def test_L38_a_private_server_is_one_runs_alone_and_ends_with_it(pools: Pools) -> None:
    pool = pools()
    async with pool.connected(private=[plain()]) as mine, pool.connected(private=[plain()]) as other:
        await call(mine, "mcp:plain/remember", text="a secret plan")
        assert json.loads(str(await call(other, "mcp:plain/recall"))) == []
        pids = [await pid_of(mine), await pid_of(other)]
        assert pids[0] != pids[1]
    assert [await ended(pid) for pid in pids] == [True, True]
    async with pool.connected() as later:
        assert not later.tools


async def test_L38_a_private_server_ends_when_its_run_fails(pools: Pools) -> None:
    pids: list[int] = []

    async def run() -> None:
        async with pools().connected(private=[plain()]) as box:
            pids.append(await pid_of(box))
            raise LookupError

    with pytest.raises(LookupError):
        await run()
    assert await ended(pids[0])


async def test_L38_a_private_server_ends_when_its_run_is_cancelled(pools: Pools) -> None:
    pids: list[int] = []
    entered = asyncio.Event()

    async def run() -> None:
        async with pools().connected(private=[plain()]) as box:
            pids.append(await pid_of(box))
            entered.set()
            await call(box, "mcp:plain/hang")

    running = asyncio.create_task(run())
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: ended(pids[0]))


async def test_a_private_server_ends_when_its_run_is_cancelled_while_it_starts(pools: Pools, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    pool = pools()
    running = asyncio.create_task(_used(pool.connected(private=[plain("silent", "count", str(starts))])))

    async def started() -> bool:
        return starts.exists() and bool(starts.read_text().strip())

    await eventually(started)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await pool.close()
    assert await ended(int(starts.read_text()))


async def test_a_server_that_will_not_end_is_killed(pools: Pools) -> None:
    pool = pools(plain("stubborn"))
    async with pool.connected(["plain"]) as box:
        pid = await pid_of(box)
    await pool.close()
    assert await ended(pid)


async def test_a_private_server_hides_a_shared_one_of_its_name(pools: Pools, tmp_path: Path) -> None:
    pool = pools(plain("count", str(tmp_path / "starts")))
    async with pool.connected(["plain"], [plain("exits")]) as box:
        assert len(box.problems) == 1
    assert not (tmp_path / "starts").exists()


async def test_after_the_end_of_the_pool_calls_say_so(pools: Pools) -> None:
    pool = pools(plain())
    async with pool.connected(["plain"]) as box:
        await pool.close()
        with pytest.raises(ToolFailed, match="The MCP server plain was closed"):
            await pid_of(box)


async def test_a_server_of_the_newest_protocol_over_stdio(pools: Pools) -> None:
    context = Context()
    async with pools(sdk()).connected(["sdk"]) as box:
        assert await call(box, "mcp:sdk/steps", context, count=2) == {"result": "done"}
        assert context.told == [("step 1", 1, 2), ("step 2", 2, 2)]
        with pytest.raises(ToolFailed, match="The MCP server sdk broke off during the call: it ended with code 9"):
            await call(box, "mcp:sdk/die")
        assert await call(box, "mcp:sdk/resources:read", uri="notes://today") == "rain"


async def test_a_call_that_is_given_up_is_given_up_at_the_server(pools: Pools) -> None:
    async with pools(sdk()).connected(["sdk"]) as box:
        hanging = asyncio.create_task(call(box, "mcp:sdk/hang"))

        async def happened(what: str) -> bool:
            return what in str(await call(box, "mcp:sdk/happened"))

        await eventually(lambda: happened("hang"))
        hanging.cancel()
        await eventually(lambda: happened("let go"))
