"""Agents whose runs are crashed everywhere, and what they act on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from retinue import Done, Retinue, Run, ToolContext, tool
from retinue.core.messages import Message, ToolResult
from retinue.core.outcome import Status, Usage, Waits
from retinue.core.thread import characters
from retinue.ports.models import ModelRequest, Takes
from retinue.testing import Reply, Scenario, ScriptedModel, call
from retinue.testing.crash import nobody, nothing
from tests.agents.acting import Line, finish, guide, reply_of

People = Callable[[Retinue, Run], Awaitable[bool]]
Then = Callable[[Retinue, Run], Awaitable[Run | None]]


class World:
    """What was done, by idempotency key."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.mended = False

    def act(self, what: str, key: str) -> str:
        self.done.append((what, key))
        return f"did {what}"

    def times(self, what: str) -> int:
        return sum(done == what for done, _ in self.done)

    def knows(self, key: str) -> bool:
        return any(key == known for _, known in self.done)


world = World()


@tool
async def write(what: str, context: ToolContext) -> str:
    """Do something."""
    return world.act(what, context.idempotency_key)


@tool(effect="read")
async def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool(effect="idempotent")
async def put(what: str, context: ToolContext) -> str:
    """Do something that can be done again."""
    return f"did {what}" if world.knows(context.idempotency_key) else world.act(what, context.idempotency_key)


async def happened(key: str) -> Done | None:
    return Done("did it") if world.knows(key) else None


@tool(check=happened)
async def checked(what: str, context: ToolContext) -> str:
    """Do something that can be looked for."""
    return world.act(what, context.idempotency_key)


@tool
async def confirmed(what: str, context: ToolContext) -> str:
    """Do something when a person agrees."""
    answer = await context.ask(f"Shall I {what}?")
    return world.act(f"{what}: {answer}", context.idempotency_key)


@tool(effect="read")
async def read_much(page: int) -> str:
    """Read a page."""
    return f"page {page} " + "x" * 50_000


class Player(ScriptedModel):
    """Says the line that is next, by what was said before: asked again after a crash, it says the same again."""

    def __init__(self, *lines: Line, takes: Takes | None = None) -> None:
        self._lines = lines
        super().__init__(self._say, takes=takes)

    def _say(self, request: ModelRequest) -> Reply:
        said = sum(message.role == "model" for message in request.messages)
        return reply_of(self._lines[min(said, len(self._lines) - 1)])


TOOLS = (write, look, put, checked, confirmed)


def played(*lines: Line, people: People = nobody, then: Then = nothing, **keys: Any) -> Scenario:
    """The agent `guide`, whose model says these lines; `keys` are its own."""
    return Scenario(
        target="agent:guide",
        input="Do it.",
        people=people,
        then=then,
        begin=world.reset,
        models={"m": Player(*lines)},
        agents=[guide(**{"tools": TOOLS, **keys})],
    )


async def decides(app: Retinue, run: Run) -> bool:
    """Approves with other arguments, answers questions, says what a client's tool gave."""
    tickets = await run.tickets()
    for ticket in tickets:
        if ticket.kind == Waits.APPROVAL:
            await app.approve(ticket.id, arguments={"what": "half of it"})
        else:
            await app.answer(ticket.id, "yes")
    return bool(tickets)


async def retries(app: Retinue, run: Run) -> Run | None:
    """Retries what failed, once the world is mended."""
    if (await run.outcome()).status is Status.COMPLETED:
        return None
    world.mended = True
    return await run.retry(idempotency_key=f"retry-{run.id}")


class Reader(ScriptedModel):
    """Reads one page after the other, whatever its prompt still has of those before; sums up when it is told to."""

    def __init__(self, pages: int, window: int) -> None:
        self._pages = pages
        super().__init__(self._say, takes=Takes(context_tokens=window))

    def _say(self, request: ModelRequest) -> Reply:
        length = Usage(calls=1, input_tokens=characters(request.messages) // 4, output_tokens=1)
        if not request.tools:
            return Reply(pieces=["all pages so far had an x"], usage=length)
        page = _last_page(request.messages)
        if page == self._pages:
            return Reply(calls=[finish(f"read {page} pages")], usage=length)
        return Reply(calls=[call("read_much", page=page + 1), call("write", what=f"page {page + 1}")], usage=length)


def _last_page(messages: Sequence[Message]) -> int:
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    pages = [str(result.result).split()[1] for result in results if str(result.result).startswith("page ")]
    return int(pages[-1]) if pages else 0


def reading(pages: int, window: int = 150_000) -> Scenario:
    """So many pages of 50 kB, with a write for each."""
    agent = guide(tools=[read_much, write], limits={"max_turns": 2 * pages, "max_minutes": None})
    return Scenario(
        target="agent:guide",
        input="Read it all.",
        begin=world.reset,
        models={"m": Reader(pages, window)},
        agents=[agent],
    )
