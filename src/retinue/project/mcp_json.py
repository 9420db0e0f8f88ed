"""`mcp.json`: the servers that all agents of a project share. Other programs read the file too."""

from __future__ import annotations

from collections.abc import Mapping

from retinue.core.declared import Problem
from retinue.core.mcp import McpServer
from retinue.core.references import literal_secrets
from retinue.core.spelling import nearest
from retinue.project.documents import Document
from retinue.project.servers import read_servers

SERVERS = "mcpServers"


def read_mcp_json(document: Document) -> tuple[dict[str, McpServer], list[Problem]]:
    """The servers that are declared rightly, and all that is wrong or odd."""
    if not isinstance(document.value, Mapping) or not isinstance(document.value.get(SERVERS, {}), Mapping):
        return {}, [document.placed(Problem(text=f'expected {{"{SERVERS}": {{NAME: …}}}}'))]
    entries = document.value.get(SERVERS)
    problems = list(document.problems)
    if entries is None:
        near = nearest(SERVERS, document.value)
        text = f"it has no {SERVERS}" + (f", but {near[0]}" if near else "")
        return {}, [*problems, document.placed(Problem(text=text, warning=True))]
    servers, found = read_servers(entries, (SERVERS,))
    found += [
        Problem(
            key=(SERVERS, *key),
            text="a secret is written out: write ${secret:NAME}, and set NAME in .env",
            warning=True,
        )
        for key in literal_secrets(entries)
    ]
    return servers, problems + [document.placed(problem) for problem in found]
