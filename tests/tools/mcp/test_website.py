"""Servers over streamable HTTP: who is let in, and what happens when they go."""

from __future__ import annotations

import logging

import pytest

from retinue.errors import ToolFailed
from tests.tools.context import Context
from tests.tools.mcp.calling import call
from tests.tools.mcp.conftest import Pools, serving, website

OAUTH = {"client_id": "me", "client_secret": "${secret:MINE}", "scope": "tools"}
SECRETS = {"MINE": "s3cret/of me", "KEY": "k3y of the house", "REFRESH": "refresh-token-1", "WRONG": "wr0ng/one here"}


@pytest.mark.parametrize("how", ["streamed", "json"])
async def test_tools_prompts_resources_and_progress(pools: Pools, websites: dict[str, str], how: str) -> None:
    pool, context = pools(website(websites[how])), Context()
    async with pool.connected(["web"]) as box:
        assert await call(box, "mcp:web/add", a=1, b=2) == {"result": 3}
        assert await call(box, "mcp:web/several") == {"result": ["one", "two"]}
        assert await call(box, "mcp:web/prompt:greet", name="Ana") == "Greet Ana"
        assert await call(box, "mcp:web/resources:read", uri="notes://today") == "rain"
        assert await call(box, "mcp:web/steps", context, count=2) == {"result": "done"}
        assert context.told == ([("step 1", 1, 2), ("step 2", 2, 2)] if how == "streamed" else [])


async def test_the_next_run_sees_what_was_added(pools: Pools, websites: dict[str, str]) -> None:
    pool = pools(website(websites["streamed"]))
    async with pool.connected(["web"]) as box:
        await call(box, "mcp:web/grow", name="another")
    async with pool.connected(["web"]) as box:
        assert await call(box, "mcp:web/another") == {"result": "new"}


async def test_L47_a_header_is_sent_from_a_secret(
    pools: Pools, websites: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address = websites["header"]
    async with pools(website(address, headers={"X-Key": "${secret:KEY}"}), secrets=SECRETS).connected(["web"]) as box:
        assert await call(box, "mcp:web/add", a=1, b=2) == {"result": 3}
    assert SECRETS["KEY"] not in caplog.text


async def test_who_is_not_let_in_is_told_the_status_and_no_secret(pools: Pools, websites: dict[str, str]) -> None:
    server = website(websites["header"], headers={"X-Key": "${secret:WRONG}"})
    async with pools(server, secrets=SECRETS).connected(["web"]) as box:
        assert box.problems == [
            "The MCP server web cannot be had: Server returned an error response; it answered 403 Forbidden"
        ]


async def test_L47_oauth_with_the_clients_own_credentials(
    pools: Pools, websites: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    address = websites["oauth"]
    pool = pools(website(address, oauth={**OAUTH, "issuer": address}), secrets=SECRETS)
    async with pool.connected(["web"]) as box:
        given = await call(box, "mcp:web/given")
    assert isinstance(given, dict)
    assert set(given["result"]) == {"client_credentials"}  # other tests ask the same site
    assert "s3cret" not in caplog.text


async def test_L47_oauth_with_a_refresh_token_that_changes(pools: Pools, websites: dict[str, str]) -> None:
    address = websites["oauth-refresh"]
    oauth = {**OAUTH, "issuer": address, "refresh_token": "${secret:REFRESH}"}
    pool = pools(secrets=SECRETS)
    for _ in range(2):  # the token of the first run still holds, and its refresh token does not
        async with pool.connected(private=[website(address, oauth=oauth)]) as box:
            assert await call(box, "mcp:web/given") == {"result": ["refresh_token"]}


@pytest.mark.parametrize("wrong", [{"client_secret": "${secret:WRONG}"}, {"refresh_token": "${secret:WRONG}"}])
async def test_who_gets_no_token_is_told_why_and_no_secret(
    pools: Pools, websites: dict[str, str], caplog: pytest.LogCaptureFixture, wrong: dict[str, str]
) -> None:
    caplog.set_level(logging.DEBUG)
    address = websites["oauth"]
    server = website(address, oauth={**OAUTH, "issuer": address, **wrong})
    async with pools(server, secrets=SECRETS).connected(["web"]) as box:
        [problem] = box.problems
    assert "The MCP server web cannot be had: " in problem
    assert "invalid_" in problem
    for secret in ("wr0ng", "s3cret", "czNjcmV0"):
        assert secret not in problem + caplog.text


async def test_credentials_go_to_the_declared_issuer_alone(pools: Pools, websites: dict[str, str]) -> None:
    address = websites["oauth"]
    server = website(address, oauth={**OAUTH, "issuer": "http://127.0.0.1:9/other"})
    async with pools(server, secrets=SECRETS).connected(["web"]) as box:
        assert "issuer mismatch" in box.problems[0]


async def test_nobody_at_the_address_is_a_problem(pools: Pools) -> None:
    async with pools(website("http://127.0.0.1:9")).connected(["web"]) as box:
        assert box.problems == [
            "The MCP server web cannot be had: it cannot be reached (All connection attempts failed)"
        ]


async def test_a_server_that_dies_in_a_call_is_an_error_that_names_it(pools: Pools) -> None:
    with serving("streamed") as there:
        address = there["streamed"]
        async with pools(website(address)).connected(["web"]) as box:
            with pytest.raises(ToolFailed, match="The MCP server web broke off during the call: "):
                await call(box, "mcp:web/die")
            with serving(f"streamed:{address.rpartition(':')[2]}"):
                assert await call(box, "mcp:web/add", a=1, b=2) == {"result": 3}


async def test_a_status_of_http_is_told(pools: Pools, websites: dict[str, str]) -> None:
    async with pools(website(websites["broken"])).connected(["web"]) as box:
        with pytest.raises(ToolFailed, match=r"The MCP server web failed: .*; it answered 503 Service Unavailable"):
            await call(box, "mcp:web/several")
        assert await call(box, "mcp:web/add", a=1, b=2) == {"result": 3}


async def test_what_raises_in_a_server_is_an_error_in_its_words(pools: Pools, websites: dict[str, str]) -> None:
    async with pools(website(websites["streamed"])).connected(["web"]) as box:
        with pytest.raises(ToolFailed, match="no such city"):
            await call(box, "mcp:web/fail", text="no such city")


@pytest.mark.parametrize("how", ["streamed", "json"])
async def test_a_result_of_ten_megabytes_is_cut(pools: Pools, websites: dict[str, str], how: str) -> None:
    context = Context()
    async with pools(website(websites[how])).connected(["web"]) as box:
        assert len(str(await call(box, "mcp:web/big", context, size=10_000_000))) < 101_000
        assert len(context.kept) == 1


@pytest.mark.parametrize("how", ["streamed", "json"])
async def test_a_result_that_is_far_too_large_is_an_error(pools: Pools, websites: dict[str, str], how: str) -> None:
    async with pools(website(websites[how])).connected(["web"]) as box:
        with pytest.raises(ToolFailed, match="The MCP server web "):
            await call(box, "mcp:web/big", size=40_000_000)
        assert await call(box, "mcp:web/add", a=1, b=2) == {"result": 3}
