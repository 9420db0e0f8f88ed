"""What the SDK logs."""

from __future__ import annotations

import logging

import mcp.client.session_group
import pytest

from retinue.tools.mcp.logs import HTTP, SDK, SdkLogs
from retinue.tools.mcp.masks import Masks


@pytest.fixture
def logs() -> SdkLogs:
    return SdkLogs(Masks({"KEY": "a/key of ours"}))


def test_every_logger_that_a_client_uses_is_heard() -> None:
    assert mcp.client.session_group
    used = {name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)}
    assert {name for name in used if name.startswith(("mcp.client", "mcp.shared"))} - {*SDK} == set()
    assert {*HTTP, "client"} <= used


def test_an_error_of_the_sdk_is_a_detail_without_what_it_holds(logs: SdkLogs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    try:
        raise ValueError("a/key of ours")
    except ValueError:
        logging.getLogger("mcp.client.stdio").exception("cannot read %s", "a/key of ours")
    logs.close()
    [record] = caplog.records
    assert (record.name, record.levelname) == ("retinue", "DEBUG")
    assert record.getMessage() == "MCP: cannot read ${secret:KEY} (ValueError)"


def test_of_http_only_secrets_are_left_out(logs: SdkLogs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx2").info("GET %s", "https://x/?key=a%2Fkey%20of%20ours")
    logs.close()
    logging.getLogger("httpx2").info("GET %s", "https://x/?key=open")
    assert caplog.messages == ["GET https://x/?key=${secret:KEY}", "GET https://x/?key=open"]
