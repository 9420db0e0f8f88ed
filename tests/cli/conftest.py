"""The command line as somebody types it, in a folder of their own."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from retinue.cli.database import settings_here
from retinue.cli.main import run
from tests.beside import beside
from tests.cli.trips import write_project
from tests.files.servers import Web, web_server
from tests.models.server import Server, serving

SHOP = """
from retinue import durable


async def order(ctx, input):
    price = await ctx.step("price", price_of, input["item"], effect="read")
    return {"price": price}


async def price_of(item):
    if item == "nothing":
        raise ValueError("no such item")
    return 42


async def ask(ctx, input):
    return await ctx.wait("colour", {"type": "string", "enum": ["red", "blue"]}, title="Which colour?")


async def nap(ctx, input):
    await ctx.sleep(hours=1)
    return "rested"


async def parent(ctx, input):
    return await ctx.child(order, input)
"""


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal:
    """Runs commands in this process, without a terminal."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: str, stdin: str = "") -> Said:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        self._capsys.readouterr()
        settings_here.cache_clear()
        code = run(arguments)
        printed = self._capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return Said(code, printed.out, printed.err)


@pytest.fixture
def retinue(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Terminal]:
    """In a new folder that has a module `shop`, and no database yet."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    for name in ("RETINUE_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield Terminal(capsys, monkeypatch)
    sys.modules.pop("shop", None)


@pytest.fixture
def provider(retinue: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """What `openai:` means in this folder. It is asked once: nobody wants to wait for tries."""
    (tmp_path / "retinue.toml").write_text("[retry]\ntries = 1\n")
    with beside(serving()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
        yield server


@pytest.fixture
def web(retinue: Terminal) -> Iterator[Web]:
    with beside(web_server()) as web:
        yield web


@pytest.fixture
def trip(retinue: Terminal, tmp_path: Path) -> Terminal:
    """With an agent that books a trip."""
    write_project(tmp_path)
    return retinue
