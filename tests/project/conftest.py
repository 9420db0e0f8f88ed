"""A project folder that a test writes file by file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.settings import TheProject, read_project

Load = Callable[..., TheProject]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write files by path, and read the folder."""

    def write_and_load(files: dict[str, str | bytes], **variables: str) -> TheProject:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_project(tmp_path, variables=variables, builtin=["web_fetch"])

    return write_and_load


def agent(name: str, *keys: str, body: str = "You help.") -> str:
    """The text of an agent's file."""
    return "\n".join(["---", f"name: {name}", "description: Helps.", *keys, "---", body])
