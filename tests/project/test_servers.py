from __future__ import annotations

import json
from typing import Any

import pytest

from retinue.core.mcp import McpServer
from retinue.project.documents import Document, json_document
from retinue.project.mcp_json import read_mcp_json


def read(value: Any) -> tuple[dict[str, McpServer], list[str]]:
    document = json_document("mcp.json", json.dumps(value, indent=1))
    assert isinstance(document, Document)
    servers, problems = read_mcp_json(document)
    return servers, [f"{'warning ' if problem.warning else ''}{problem}" for problem in problems]


def test_servers_over_stdio_and_http_are_read() -> None:
    servers, problems = read(
        {
            "mcpServers": {
                "git": {"command": "uvx", "args": ["git-server"], "env": {"HOME": "${env:HOME}"}},
                "far": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${secret:FAR}"}},
                "in": {
                    "url": "https://x",
                    "oauth": {"client_id": "me", "client_secret": "${secret:ME}", "issuer": "https://i"},
                },
            }
        }
    )
    assert problems == []
    assert [*servers] == ["git", "far", "in"]
    assert servers["far"].headers == {"Authorization": "Bearer ${secret:FAR}"}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({}, "mcp.json:3: mcpServers.a: it needs either"),
        ({"command": "x", "url": "https://y"}, "mcp.json:3: mcpServers.a: it needs either"),
        ({"command": 3}, "mcp.json:4: mcpServers.a.command: expected"),
        ({"command": "x", "args": ["a", 1]}, "mcp.json:7: mcpServers.a.args[1]: expected text"),
        ({"command": "x", "env": {"A": 1}}, "mcp.json:6: mcpServers.a.env.A: expected text"),
        ({"url": "ftp://x"}, "mcp.json:3: mcpServers.a: url begins with"),
        (
            {"url": "https://x", "oauth": {"client_id": "me"}},
            "mcp.json:5: mcpServers.a.oauth.issuer: it is missing",
        ),
        (
            {"url": "https://x", "oauth": {"client_id": "me", "issuer": "https://i"}},
            "mcp.json:3: mcpServers.a: oauth needs client_secret, refresh_token or both",
        ),
        ({"type": "sse", "url": "https://x"}, "mcp.json:3: mcpServers.a: the transport sse"),
        ("npx server", "mcp.json:3: mcpServers.a: expected a table"),
        ({"command": "x", "arg": []}, "warning mcp.json:5: mcpServers.a.arg: nobody knows this key. Did you mean args"),
        ({"command": "x", "env": {"T": "${TOKEN}"}}, "warning mcp.json:6: mcpServers.a.env.T: ${TOKEN} is only text"),
        (
            {"command": "x", "env": {"API_KEY": "abcdefgh"}},
            "warning mcp.json:6: mcpServers.a.env.API_KEY: a secret is written out",
        ),
    ],
)
def test_what_is_wrong_or_odd_is_said_and_hides_no_other(entry: Any, says: str) -> None:
    servers, problems = read({"mcpServers": {"a": entry, "b": {"command": "y"}}})
    assert [problem[: len(says)] for problem in problems][:1] == [says]
    assert "b" in servers
    assert ("a" in servers) is says.startswith("warning")


@pytest.mark.parametrize("name", ["a/b", "*", "", "a b"])
def test_a_server_that_cannot_be_named_in_tools_is_refused(name: str) -> None:
    servers, problems = read({"mcpServers": {name: {"command": "x"}}})
    assert servers == {}
    assert "a server's name" in problems[0]


@pytest.mark.parametrize("value", [[], {"mcpServers": []}, "x"])
def test_another_shape_is_an_error(value: Any) -> None:
    assert read(value) == ({}, ['mcp.json:1: expected {"mcpServers": {NAME: …}}'])


def test_a_misspelt_beginning_is_told() -> None:
    assert read({"mcpserver": {}})[1] == ["warning mcp.json:1: it has no mcpServers, but mcpserver"]
