"""People who talk in threads, models that answer when a test lets them, and durable functions that answer too."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from retinue import FunctionContext, Retinue
from retinue.core.messages import AnyPart, text_of
from retinue.core.outcome import Outcome
from retinue.core.thread import ThreadMessage
from retinue.engine.submit import Request
from retinue.ports.models import ModelRequest
from retinue.service import OnBusy, Said, Say
from retinue.service.threads import parts_of
from retinue.testing import Reply, ScriptedModel

HERE = "function:tests.threads.talk:"
ASKS, ORDERS, FAILS, KEEPS_QUIET = (f"{HERE}{name}" for name in ("asks", "orders", "fails", "keeps_quiet"))


async def asks(ctx: FunctionContext, input: Any) -> str:
    """Asks a person."""
    return f"{input} {await ctx.wait('name')}"


async def orders(ctx: FunctionContext, input: Any) -> Any:
    """Gives back what it was given."""
    return {"ordered": input}


async def fails(ctx: FunctionContext, input: Any) -> None:
    raise ValueError("no such thing")


async def keeps_quiet(ctx: FunctionContext, input: Any) -> None:
    """Gives nothing."""


class Heard(ScriptedModel):
    """Answers `NAME heard N`, and keeps what it was shown."""

    def __init__(self, name: str) -> None:
        super().__init__(self._reply, name)
        self.shown: list[ModelRequest] = []

    def _reply(self, request: ModelRequest) -> Reply:
        self.shown.append(request)
        return Reply(pieces=[f"{self.name} heard ", str(len(request.messages))])

    @property
    def turns(self) -> list[tuple[str, str]]:
        """Who said what, in the last prompt."""
        return [(message.role, text_of(message.parts)) for message in self.shown[-1].messages]


class Doors:
    """A model that answers what it is asked when the door of that name is opened: `gated`."""

    def __init__(self) -> None:
        self._doors: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._at: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.inside: list[str] = []
        self.model = ScriptedModel(self._reply, "gated")

    def _reply(self, request: ModelRequest) -> Reply:
        name = text_of(request.messages[-1].parts)

        async def before(piece: int) -> None:
            if piece == 1:
                self.inside.append(name)
                self._at[name].set()
                await self._doors[name].wait()

        return Reply(pieces=["answer to ", name], before=before)

    def open(self, *names: str) -> None:
        for name in names:
            self._doors[name].set()

    async def reached(self, *names: str) -> None:
        """Wait until all of these are being answered."""
        for name in names:
            await self._at[name].wait()


async def say(
    app: Retinue,
    said: object,
    *targets: str,
    thread: str | Said | None = None,
    parent: str | None = None,
    on_busy: OnBusy = OnBusy.QUEUE,
    **request: Any,
) -> Said:
    """Say something, in a thread (where it ends, unless a parent is named) or in a new one."""
    return await app.service.threads.say(
        Say(
            targets=targets or ("model:test",),
            parts=parts_of(said),
            thread_id=thread.thread_id if isinstance(thread, Said) else thread,
            parent_id=parent,
            on_busy=on_busy,
            request=Request(target="", **request),
        )
    )


async def ends(app: Retinue, said: Said, which: int = 0) -> Outcome:
    """How an answer ended."""
    async with asyncio.timeout(20):
        return await app.get(said.answers[which].run_id).outcome()


async def told(app: Retinue, said: Said, leaf: str | None = None) -> list[str]:
    """What a branch says, line by line."""
    return words(await app.service.threads.branch(said.thread_id, leaf))


def words(messages: Sequence[ThreadMessage]) -> list[str]:
    return [_words(message.parts) for message in messages]


def _words(parts: tuple[AnyPart, ...]) -> str:
    return text_of(parts) or str(next((getattr(part, "data", "") for part in parts), ""))


async def answer(app: Retinue, said: Said, which: int = 0) -> ThreadMessage:
    return await app.service.threads.message(said.answers[which].message_id)


async def counts(app: Retinue) -> dict[str, int]:
    """How many rows there are of what a conversation leaves."""
    rows = (await app.service.stats()).rows
    tables = ("threads", "messages", "runs", "events", "partials", "signals", "tickets", "files")
    return {table: rows[table] for table in tables if rows[table]}
