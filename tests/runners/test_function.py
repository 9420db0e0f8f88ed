"""Durable functions: what can be one, and what happens when its code changes."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from retinue import FunctionContext, Retinue, durable
from retinue.core import events as e
from retinue.errors import BadInput, BadTarget, NotSupported, UnknownTarget
from retinue.runners import function
from retinue.testing import SetClock, drain
from tests.outside import data_of, ended, pass_time


async def good(ctx: FunctionContext, input: Any) -> Any:
    return input


def plain(ctx: FunctionContext, input: Any) -> Any:
    return input


async def lonely(ctx: FunctionContext) -> None:
    pass


HERE = f"function:{__name__}"


@pytest.mark.parametrize(
    ("target", "kind", "says"),
    [
        (f"{HERE}:plain", BadTarget, "async def f"),
        (f"{HERE}:lonely", BadTarget, "two arguments"),
        (f"{HERE}:goood", UnknownTarget, "It has: .*good"),
        ("function:nowhere_at_all:f", UnknownTarget, "no module nowhere_at_all"),
        ("function:nothing", UnknownTarget, "function:MODULE:NAME"),
        ("job:x", UnknownTarget, "function:MODULE:NAME"),
        ("graph:x", UnknownTarget, "no such graph"),
        ("function:broken_module:f", BadTarget, "ZeroDivisionError"),
        ("function:leaving_module:f", BadTarget, "SystemExit"),
        ("function:garbled_module:f", BadTarget, "SyntaxError"),
    ],
)
async def test_what_cannot_run_is_refused_with_what_to_do_and_nothing_is_stored(
    app: Retinue, folder: Path, target: str, kind: type[BadInput], says: str
) -> None:
    (folder / "broken_module.py").write_text("1 / 0")
    (folder / "leaving_module.py").write_text("raise SystemExit")
    (folder / "garbled_module.py").write_text("def (")
    with pytest.raises(kind, match=says):
        await app.submit(target)
    assert await app.service.runs() == []
    assert (await ended(app, await app.submit(good, "next"))).output == "next"


async def test_a_function_without_a_name_is_refused(app: Retinue) -> None:
    async def inner(ctx: FunctionContext, input: Any) -> None:
        pass

    for target in (inner, lambda ctx, input: inner(ctx, input)):
        with pytest.raises(BadTarget, match="at the top of a module"):
            await app.submit(target)


def test_declarations_are_checked() -> None:
    with pytest.raises(BadInput, match="fail, finish or wait"):
        durable(on_change="perhaps")
    with pytest.raises(BadInput, match="effects or restart"):
        durable(durability="sometimes")


@durable(durability="effects")
async def demanding(ctx: FunctionContext, input: Any) -> None:
    pass


async def test_a_function_gives_the_durability_that_is_demanded(app: Retinue) -> None:
    assert (await (await app.submit(demanding)).row()).durability == "effects"
    assert NotSupported.__mro__[1] is BadInput


# Changed code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def deploy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces the code of the function `shifting:f`."""

    def write(code: str) -> None:
        (folder / "shifting.py").write_text(code)
        sys.modules.pop("shifting", None)
        importlib.invalidate_caches()
        function._digest_of.cache_clear()
        sys.dont_write_bytecode = True

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return write


def code(says: str, declared: str = "") -> str:
    return f"""
from retinue import durable
@durable({declared})
async def f(ctx, input):
    await ctx.sleep(hours=1)
    return "{says}"
"""


@asynccontextmanager
async def parked(url: str, clock: SetClock) -> AsyncIterator[str]:
    """A run of `shifting:f` that is left asleep."""
    async with Retinue.open(url, clock=clock) as app:
        run = await app.submit("function:shifting:f")
        await drain(app)
    yield run.id


@pytest.mark.parametrize(
    ("declared", "status", "warned"), [("", "failed", False), ("on_change='finish'", "completed", True)]
)
async def test_a_run_whose_code_changed_fails_or_goes_on_as_it_was_declared(
    file_url: str, clock: SetClock, deploy: Callable[[str], None], declared: str, status: str, warned: bool
) -> None:
    deploy(code("old", declared))
    async with parked(file_url, clock) as run_id:
        deploy(code("new", declared))
        async with Retinue.open(file_url, clock=clock) as app:
            await pass_time(app, clock, 3600)
            outcome = await app.get(run_id).outcome()
            warnings = await data_of(app.get(run_id), e.Warned)
    assert (outcome.status, outcome.output) == (status, "new" if warned else None)
    assert [warning.code for warning in warnings] == ["code_changed"] * warned
    if not warned:
        assert outcome.error
        assert outcome.error.kind == "CodeChanged"


async def test_a_run_that_waits_for_its_old_code_is_run_by_who_has_it(
    file_url: str, clock: SetClock, deploy: Callable[[str], None]
) -> None:
    old, new = code("old", "on_change='wait'"), code("new", "on_change='wait'")
    deploy(old)
    async with parked(file_url, clock) as run_id:
        deploy(new)
        clock.advance(3600)
        async with Retinue.open(file_url, clock=clock) as app:
            await app.worker.duty()
            while not app.worker._seen:
                await asyncio.sleep(0.001)
            assert (await app.get(run_id).row()).status == "queued"
        deploy(old)
        async with Retinue.open(file_url, clock=clock) as app:
            assert (await ended(app, app.get(run_id))).output == "old"


async def test_comments_layout_and_a_declared_version_are_no_change(
    file_url: str, clock: SetClock, deploy: Callable[[str], None]
) -> None:
    deploy(code("old"))
    async with parked(file_url, clock) as first:
        deploy(f"# another comment\n\n{code('old')}")
        async with Retinue.open(file_url, clock=clock) as app:
            await pass_time(app, clock, 3600)
            assert (await app.get(first).outcome()).output == "old"
    deploy(code("old", "version='1'"))
    async with parked(file_url, clock) as second:
        deploy(code("new", "version='1'"))
        async with Retinue.open(file_url, clock=clock) as app:
            await pass_time(app, clock, 3600)
            assert (await app.get(second).outcome()).output == "new"


async def test_a_run_keeps_the_code_that_it_was_started_with(
    file_url: str, clock: SetClock, deploy: Callable[[str], None]
) -> None:
    """It was submitted before the code changed and started after it."""
    deploy(code("old"))
    async with Retinue.open(file_url, clock=clock, worker=False) as app:
        run_id = (await app.submit("function:shifting:f")).id
    deploy(code("new"))
    async with Retinue.open(file_url, clock=clock) as app:
        await drain(app)
        await pass_time(app, clock, 3600)
        assert (await app.get(run_id).outcome()).output == "new"
