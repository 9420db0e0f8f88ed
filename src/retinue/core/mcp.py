"""How an MCP server is reached, as `mcp.json` and agents declare it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from retinue.errors import BadSettings

KEYS = frozenset({"type", "command", "args", "env", "cwd", "url", "headers", "oauth", "timeout", "start_timeout"})
"""What an entry may have. Others belong to other programs that read the same file."""
_KINDS = {"stdio": "command", "http": "url", "streamable-http": "url", "streamableHttp": "url"}
_name = re.compile(r"[^/*\s]{1,100}")
_at = re.compile(r" - at `\$\.?(.*)`$")
Given = Annotated[str, msgspec.Meta(min_length=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=7 * 86400)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """How this program, not a person, is let in by an authorization server."""

    client_id: Given
    client_secret: Given | None = None
    issuer: Given
    scope: Given | None = None
    refresh_token: Given | None = None
    """Stands for a person who let it in once. Without it, the client's own credentials are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """A program to start (`command`), or an address (`url`).

    Its texts may hold secrets by reference, `${secret:NAME}`; the values are put in where it is connected.
    """

    name: Given
    command: Given | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Given | None = None
    url: Given | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    oauth: OAuth | None = None
    timeout: Seconds = 120.0
    """How long a call may take."""
    start_timeout: Seconds = 30.0

    @classmethod
    def parse(cls, name: str, entry: object, where: str = "mcpServers") -> McpServer:
        """Read an entry of `mcpServers`; `BadSettings` says which key is wrong and how."""
        where = f"{where}.{name}"
        if not _name.fullmatch(name):
            raise BadSettings(where=where, problem="a server's name has no blanks, no '/' and no '*'.")
        if not isinstance(entry, Mapping):
            raise BadSettings(where=where, problem="it is an object with `command` or `url`.")
        try:
            server = msgspec.convert({**entry, "name": name}, cls)
        except msgspec.ValidationError as error:
            key = _at.search(str(error))
            problem = f"{_at.sub('', str(error))}."
            raise BadSettings(where=f"{where}.{key[1]}" if key and key[1] else where, problem=problem) from None
        if problem := _problem_of(server, entry.get("type")):
            raise BadSettings(where=where, problem=problem)
        return server


def _problem_of(server: McpServer, kind: object) -> str:
    """What is wrong with an entry as a whole."""
    if (server.command is None) == (server.url is None):
        return "it needs either `command` (with `args`) or `url`."
    given = "command" if server.command else "url"
    if kind == "sse":
        return "the transport sse has been replaced: ask for the address of its streamable HTTP, with type http."
    if kind is not None and _KINDS.get(str(kind)) != given:
        return f"with {given}, type is {'stdio' if server.command else 'http'}."
    if server.url and not re.match(r"https?://[^/]", server.url):
        return "url begins with http:// or https://."
    if server.oauth and not (server.oauth.client_secret or server.oauth.refresh_token):
        return "oauth needs client_secret, refresh_token or both."
    if server.command and (server.headers or server.oauth):
        return "headers and oauth are for servers with url; give a program what it needs with env."
    return ""
