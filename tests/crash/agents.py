"""Agents whose runs are crashed everywhere, and what they act on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retinue import Done, Retinue, Run, ToolContext, tool
from retinue.core.messages import Message, ToolResult
from retinue.core.outcome import Status, Usage, Waits
from retinue.core.routing import RoutingConfig
from retinue.core.thread import characters
from retinue.engine.submit import Request
from retinue.ports.models import ModelRequest, Takes
from retinue.settings import Settings
from retinue.testing import Reply, Scenario, ScriptedModel, call
from tests.agents.acting import Line, finish, guide, reply_of


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
        super().__init__(self.reply, takes=takes)

    def reply(self, request: ModelRequest) -> Reply:
        said = sum(message.role == "model" for message in request.messages)
        return reply_of(self._lines[min(said, len(self._lines) - 1)])


TOOLS = (write, look, put, checked, confirmed)


def played(*lines: Line, **keys: Any) -> Scenario:
    """The agent `guide`, whose model says these lines; `keys` are its own."""
    return Scenario(
        target="agent:guide",
        input="Do it.",
        people=decides,
        begin=world.reset,
        models={"m": Player(*lines)},
        agents=[guide(**{"tools": TOOLS, **keys})],
    )


def routed(*lines: Line) -> Scenario:
    """One model chooses which other one says these lines."""
    chooser = ScriptedModel(lambda request: Reply(data={"model": "m", "why": "it is cheap"}))
    scenario = played(*lines, model="auto")
    routing = RoutingConfig(model="chooser", choices={"m": "for all", "chooser": "for nothing"})
    return replace(scenario, models={**(scenario.models or {}), "chooser": chooser}, settings=Settings(routing=routing))


def with_client_tool(*lines: Line) -> Scenario:
    """Whoever asks has a tool `locate`."""

    async def submit(app: Retinue) -> Run:
        theirs: tuple[dict[str, object], ...] = ({"name": "locate", "description": "Where it is."},)
        request = Request(target="agent:guide", input="Do it.", client_tools=theirs, idempotency_key="scenario")
        return app.get(await app.service.submit(request))

    return replace(played(*lines), submit=submit)


def mended(*lines: Line) -> Scenario:
    """The model fails after these lines until the world is mended; then the run is retried and ends."""
    player = Player(*lines, finish())

    def say(request: ModelRequest) -> Reply:
        reply = player.reply(request)
        done = any(call.tool == "complete_task" for call in reply.calls)
        return Reply(error=ValueError("not yet")) if done and not world.mended else reply

    return replace(played(), models={"m": ScriptedModel(say)}, then=retries)


def forked(*lines: Line) -> Scenario:
    """When the run has ended, it is forked after its first result."""

    async def fork(app: Retinue, run: Run) -> Run | None:
        if (await run.row()).source_run_id:
            return None
        events = await app.service.events(run.id)
        first = next(event.seq for event in events if event.type == "tool.finished")
        return await run.fork(first, idempotency_key="fork")

    return replace(played(*lines), then=fork)


async def decides(app: Retinue, run: Run) -> bool:
    """Approves with other arguments, answers questions, says what a client's tool gave."""
    tickets = await run.tickets()
    for ticket in tickets:
        if "?lost" in ticket.call_id:  # whoever is asked has looked
            happened = world.times("it") > 0
            await (app.deny(ticket.id) if happened else app.approve(ticket.id))
        elif ticket.kind == Waits.APPROVAL:
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


def reading(pages: int, window: int) -> Scenario:
    """So many pages of 50 kB, with a write for each."""
    agent = guide(tools=[read_much, write], limits={"max_turns": 2 * pages, "max_minutes": None})
    return Scenario(
        target="agent:guide",
        input="Read it all.",
        begin=world.reset,
        models={"m": Reader(pages, window)},
        agents=[agent],
    )
