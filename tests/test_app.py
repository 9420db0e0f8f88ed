"""The app: opened, used, closed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retinue import Agent, Event, FunctionContext, Retinue, run_sync
from retinue.errors import BadInput, IdempotencyConflict, NotStorable, NotSupported, UnknownRun, UnknownTarget
from retinue.ports.store import LetGo, Write
from retinue.store.writer import Halted
from retinue.testing import SetClock
from tests.engine.test_worker import Elsewhere
from tests.outside import ended


async def echo(ctx: FunctionContext, input: Any) -> Any:
    return input


def test_run_sync_runs_something_to_its_end(tmp_path: Path) -> None:
    outcome = run_sync(echo, {"a": 1}, url=f"sqlite:///{tmp_path / 'x.db'}")
    assert outcome.output == {"a": 1}


def test_run_sync_raises_what_is_wrong_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget):
        run_sync("nonsense", url="sqlite://")


@pytest.mark.parametrize("name", ["RETINUE_DATABASE_URL", "DATABASE_URL"])
async def test_the_database_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("RETINUE_DATABASE_URL", raising=False)
    monkeypatch.setenv(name, f"sqlite:///{tmp_path / 'named.db'}")
    async with Retinue.open() as app:
        assert (await app.run(echo, 1)).output == 1
    assert (tmp_path / "named.db").exists()


async def test_without_a_name_the_database_is_in_a_folder_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETINUE_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    async with Retinue.open() as app:
        assert (await app.run(echo, 1)).output == 1
    assert (tmp_path / ".retinue" / "retinue.db").exists()


async def test_an_app_that_is_cancelled_while_it_closes_leaves_no_connection_open(shared_url: str) -> None:
    loop, over, connections = asyncio.get_running_loop(), asyncio.Event(), list[Any]()

    def checkpoint(at: str, writes: Sequence[Write]) -> None:
        if at == "halted":
            loop.call_soon_threadsafe(over.set)
        elif any(isinstance(write, LetGo) for write in writes):
            raise Halted

    async def live() -> None:
        async with Retinue.open(shared_url, checkpoint=checkpoint) as app:
            await app.run(echo, 1)
            await app.service.runs()
            connections.extend(app.services.store._connections)  # type: ignore[attr-defined]

    life = asyncio.create_task(live())
    await over.wait()
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    assert connections
    for connection in connections:
        with pytest.raises((sqlite3.ProgrammingError, psycopg.OperationalError)):
            connection.execute("SELECT 1")


async def test_who_only_looks_writes_nothing(file_url: str) -> None:
    async with Retinue.open(file_url) as app:
        await app.run(echo, 1)
    async with Retinue.open(file_url, worker=False) as app:
        await app.service.runs()
        await app.service.workers()
        store = app.services.store
    assert store.commits == 0


@pytest.mark.parametrize("worker", [True, False])
async def test_an_error_inside_an_open_app_comes_out_as_it_is(worker: bool) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with Retinue.open("sqlite://", worker=worker):
            raise KeyError("mine")


async def test_the_same_key_and_request_give_the_same_run(app: Retinue) -> None:
    first = await app.submit(echo, 1, idempotency_key="k")
    assert (await app.submit(echo, 1, idempotency_key="k")).id == first.id
    with pytest.raises(IdempotencyConflict):
        await app.submit(echo, 2, idempotency_key="k")
    assert (await app.submit(echo, 2, idempotency_key="k", owner="ada")).id != first.id


async def test_a_run_can_be_followed_from_any_place_also_when_it_has_ended(app: Retinue) -> None:
    run = await app.submit(echo, 1)
    seen = [event async for event in run.follow() if isinstance(event, Event)]
    assert [event.type for event in seen] == ["run.queued", "run.started", "run.finished"]
    assert [event async for event in run.follow(2)] == seen[2:]
    assert (await run.outcome()).output == 1


async def test_an_unknown_run_is_a_typed_error_everywhere(app: Retinue) -> None:
    run = app.get("run_nobody")
    for ask in (run.row, run.outcome, run.cancel, run.pause, run.resume, run.retry, run.tickets):
        with pytest.raises(UnknownRun, match="run_nobody"):
            await ask()
    with pytest.raises(UnknownRun):
        await run.fork(1)
    with pytest.raises(UnknownRun):
        _ = [event async for event in run.follow()]


def cycle() -> object:
    around: list[object] = []
    around.append(around)
    return around


@pytest.mark.parametrize("input", [object(), float("nan"), {"a": [float("inf")]}, cycle(), "\udc80"])
async def test_an_input_that_cannot_be_stored_is_refused_and_nothing_is_stored(app: Retinue, input: object) -> None:
    with pytest.raises(NotStorable):
        await app.submit(echo, input)
    assert await app.service.runs() == []
    assert (await ended(app, await app.submit(echo, "next"))).output == "next"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_minutes": 0}, "more than 0"),
        ({"max_minutes": -1}, "more than 0"),
        ({"max_minutes": float("nan")}, "more than 0, not nan"),
        ({"max_minutes": float("inf")}, "more than 0, not inf"),
        ({"max_minutes": "5"}, "more than 0, not '5'"),
        ({"max_cost_usd": 0}, "more than 0"),
        ({"start_at": "tomorrow"}, "start_at, in milliseconds since 1970"),
        ({"start_at": 1.5}, "start_at, in milliseconds since 1970"),
        ({"expires_at": 2**63}, "expires_at, in milliseconds since 1970"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"priority": 2**31}, "priority must be a whole number"),
        ({"owner": None}, "owner must be text"),
        ({"owner": "a\0b"}, "owner must be text"),
        ({"idempotency_key": "\udc80"}, "idempotency_key must be text"),
        ({"idempotency_key": 7}, "idempotency_key must be text"),
        ({"max_minuets": 5}, "no option max_minuets. Did you mean max_minutes"),
        ({"durability": "sometimes"}, "effects or restart"),
    ],
)
async def test_a_wish_that_makes_no_sense_is_refused(app: Retinue, options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        await app.submit(echo, 1, **options)
    assert await app.service.runs() == []


async def test_a_platform_that_cannot_give_what_is_demanded_refuses_the_run(clock: SetClock) -> None:
    async with Retinue.open("sqlite://", clock=clock, runners=[Elsewhere()]) as app:
        with pytest.raises(NotSupported, match="promise durability: effects"):
            await app.submit("graph:far", durability="effects")
        run = await app.submit("graph:far")
        assert (await run.row()).durability == "restart"
        assert (await ended(app, run)).output == "from elsewhere"


async def test_to_steer_what_cannot_be_steered_is_refused(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(echo, 1, start_at=clock.now_ms() + 1000)
    with pytest.raises(NotSupported, match="be steered"):
        await run.steer("to the left")
    assert (await run.row()).signal_seq == 0


ECHO_RUNNER = """
from retinue.core.outcome import Outcome
from retinue.engine.description import Capabilities, Description


class EchoRunner:
    platform = "echo"
    capabilities = Capabilities()

    def describe(self, target):
        return Description(definition={"agent": target.name}, requires={"platform": "echo", "agent": target.name})

    def can_load(self, requires):
        return True

    async def run(self, ctx):
        return Outcome.completed(f"{ctx.run.target} heard {ctx.input}")

    async def cancel(self, ctx):
        pass
"""


async def test_a_package_that_is_installed_brings_its_own_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "echo_runner.py").write_text(ECHO_RUNNER)
    info = tmp_path / "echo_runner-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-runner\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[retinue.runners]\necho = echo_runner:EchoRunner\n")
    monkeypatch.syspath_prepend(tmp_path)
    parrot = Agent("parrot", description="It repeats.", platform="echo")
    async with Retinue.open("sqlite://", agents=[parrot]) as app:
        assert (await app.run("agent:parrot", "hello")).output == "agent:parrot heard hello"
