"""What a program is given, and what is never read in errors and logs."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from retinue.errors import ToolFailed
from tests.tools.mcp.calling import call
from tests.tools.mcp.conftest import Pools, plain

SECRETS = {"LICENSE_KEY": "lic/ense 12345"}
ENV = {"LICENSE": "${secret:LICENSE_KEY}", "COLOUR": "blue"}


async def test_a_program_gets_what_is_declared_and_nothing_else(pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    async with pools(plain(env=ENV), secrets=SECRETS).connected(["plain"]) as box:
        environment = json.loads(str(await call(box, "mcp:plain/environment")))
    assert (environment["LICENSE"], environment["COLOUR"]) == ("lic/ense 12345", "blue")
    assert "PATH" in environment
    known = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "PWD"}
    assert {*environment} - known == {"LICENSE", "COLOUR"}


async def test_a_secret_that_is_not_set_is_named(pools: Pools) -> None:
    async with pools(plain(env=ENV)).connected(["plain"]) as box:
        assert box.problems == ["The MCP server plain needs what is not set: LICENSE_KEY"]


async def test_a_secret_is_in_no_problem(pools: Pools, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with pools(plain("exits", env=ENV), secrets=SECRETS).connected(["plain"]) as box:
        assert "it said: no license for ${secret:LICENSE_KEY}" in box.problems[0]
    assert "lic/ense" not in caplog.text


async def test_a_secret_is_in_no_error_and_no_log(pools: Pools, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = SECRETS["LICENSE_KEY"]
    async with pools(plain(env=ENV), secrets=SECRETS).connected(["plain"]) as box:
        with pytest.raises(ToolFailed, match=r"^wrong key: \$\{secret:LICENSE_KEY\}$"):
            await call(box, "mcp:plain/fail", text=f"wrong key: {secret}")
        await call(box, "mcp:plain/complain", text=f"key is {secret}, in a URL lic%2Fense%2012345")
        await call(box, "mcp:plain/garbled", text=secret)
    assert "key is ${secret:LICENSE_KEY}, in a URL ${secret:LICENSE_KEY}" in caplog.text
    assert "no message ${secret:LICENSE_KEY}" in caplog.text
    assert "lic/ense" not in caplog.text


async def test_a_program_starts_in_its_folder(pools: Pools, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "start").write_text(f'#!/bin/sh\npwd >&2\nexec {sys.executable} "$@"\n')
    (tmp_path / "inner" / "start").chmod(0o755)
    server = plain("exits", cwd="inner", command="./start")
    async with pools(server, folder=tmp_path).connected(["plain"]) as box:
        assert f"it said: {tmp_path / 'inner'} | no license" in box.problems[0]
