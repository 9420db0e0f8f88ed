"""An agent whose model says what a list says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from retinue import Agent, Retinue
from retinue.core.messages import Message, ToolCall, ToolResult, text_of
from retinue.ports.models import ModelRequest, Takes
from retinue.ports.store import Append, Write
from retinue.store.writer import Checkpoint
from retinue.testing import Reply, ScriptedModel, SetClock, call

Line = Reply | str | ToolCall | Sequence[ToolCall]


class Actor(ScriptedModel):
    """Says one line after the other, the last one again and again: a text, calls, or a whole reply."""

    def __init__(self, *lines: Line, takes: Takes | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self._lines = list(lines)
        super().__init__(self._next, takes=takes)

    def _next(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        return reply_of(self._lines[min(len(self.requests), len(self._lines)) - 1])


def reply_of(line: Line) -> Reply:
    match line:
        case Reply():
            return line
        case str():
            return Reply(pieces=[line])
        case ToolCall():
            return Reply(calls=[line])
        case calls:
            return Reply(calls=calls)


def finish(result: object = "done") -> ToolCall:
    """A call that completes the task."""
    return call("complete_task", result=result)


def guide(**keys: Any) -> Agent:
    """An agent that the actor plays. What its model says wrong is wrong at once: on a set clock no time passes between
    tries. With `retry=None` it has the patience that agents have."""
    patience = {"retry": {"tries": 1}}
    return Agent("guide", **{"description": "Guides.", "instructions": "You guide.", "model": "m", **patience, **keys})


@asynccontextmanager
async def acting(
    clock: SetClock, actor: ScriptedModel, url: str = "sqlite://", checkpoint: Checkpoint | None = None, **keys: Any
) -> AsyncIterator[Retinue]:
    """An app with the agent `guide`; `keys` are its own."""
    async with Retinue.open(
        url, clock=clock, grace=0, agents=[guide(**keys)], models={"m": actor}, checkpoint=checkpoint
    ) as app:
        yield app


class Commits:
    """A checkpoint that remembers the types of the events of each commit."""

    def __init__(self) -> None:
        self.types: list[list[str]] = []

    def __call__(self, at: str, writes: Sequence[Write]) -> None:
        appends = [write for write in writes if isinstance(write, Append)]
        if at == "after" and appends:
            self.types.append([draft.data.type for append in appends for draft in append.drafts])


def results_in(request: ModelRequest) -> list[ToolResult]:
    """What the model is told of the calls of its last answer."""
    tools = [message for message in request.messages if message.role == "tool"]
    return [part for part in tools[-1].parts if isinstance(part, ToolResult)] if tools else []


def told(request: ModelRequest) -> list[object]:
    """The results alone."""
    return [result.result for result in results_in(request)]


def last_said(messages: Sequence[Message]) -> str:
    """The text of the last message."""
    return text_of(messages[-1].parts)
