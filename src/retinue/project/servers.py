"""MCP servers, as a project and its agents declare them."""

from __future__ import annotations

from collections.abc import Mapping

from retinue.core.declared import Key, Problem, has_errors, read, unknown_key
from retinue.core.mcp import KEYS, McpServer
from retinue.core.references import bare_references
from retinue.errors import BadSettings


def read_servers(entries: Mapping[str, object], at: Key) -> tuple[dict[str, McpServer], list[Problem]]:
    """The servers that are declared rightly, and all that is wrong or odd."""
    servers: dict[str, McpServer] = {}
    problems: list[Problem] = []
    for name, entry in entries.items():
        server, found = _read_server(str(name), entry, (*at, str(name)))
        problems += found
        if server is not None:
            servers[server.name] = server
    return servers, problems


def _read_server(name: str, entry: object, at: Key) -> tuple[McpServer | None, list[Problem]]:
    if not isinstance(entry, Mapping):
        return None, [Problem(key=at, text="expected a table with `command` or `url`")]
    keys = {str(key): value for key, value in entry.items() if key in KEYS}
    strangers = [str(key) for key in entry if key not in KEYS]
    problems = [Problem(key=(*at, key), text=unknown_key(key, KEYS), warning=True) for key in strangers]
    typed = {key: value for key, value in keys.items() if key != "type"}
    problems += [p for p in read(McpServer, {**typed, "name": name}, key=at)[1] if p.key != (*at, "name")]
    if not has_errors(problems):
        try:
            server = McpServer.parse(name, keys, where="")
        except BadSettings as error:
            problems.append(Problem(key=at, text=error.problem.rstrip(".")))
        else:
            return server, problems + _odd(keys, at)
    return None, problems


def _odd(entry: Mapping[str, object], at: Key) -> list[Problem]:
    return [
        Problem(
            key=(*at, *key), text=f"${{{name}}} is only text: write ${{env:{name}}} or ${{secret:{name}}}", warning=True
        )
        for key, name in bare_references(entry).items()
    ]
