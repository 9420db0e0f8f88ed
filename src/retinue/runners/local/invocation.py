"""One call of a tool: until it has a result, its time is over, or it turns out that it never ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from retinue.core import events as e
from retinue.core import notes
from retinue.core.delta import Progress
from retinue.core.messages import File
from retinue.core.outcome import Effect, Failure, Waits
from retinue.core.policy import ASK_FOR_SECONDS
from retinue.core.run import Call
from retinue.core.schema import wrong_schema
from retinue.engine.alarm import Alarm
from retinue.engine.context import RunContext, failure_of
from retinue.errors import NotStorable, ToolFailed, Unwind
from retinue.ports.tools import Content, Tool

log = logging.getLogger("retinue")

TIMEOUT = 120.0
PATIENCE = 5.0
"""Seconds after its timeout in which a tool that was told to stop may still give its result."""
LONGEST_MESSAGE = 2_000


@dataclass
class Asks(Unwind):
    """A tool asks a person something that nobody has answered yet. It is called again with the answer."""

    ticket: e.TicketOpened


class CallContext:
    """What a tool is given beside its arguments, for as long as somebody waits for the call."""

    def __init__(self, ctx: RunContext, call: Call) -> None:
        self._ctx, self._call = ctx, call
        self._questions = 0
        self.over = False

    @property
    def run_id(self) -> str:
        return self._ctx.run.id

    @property
    def call_id(self) -> str:
        return self._call.call_id

    @property
    def idempotency_key(self) -> str:
        return self._call.key

    @property
    def deadline(self) -> int | None:
        return self._ctx.deadline

    def progress(self, message: str = "", *, done: float | None = None, of: float | None = None) -> None:
        if self.over:
            return
        at = Progress(run_id=self.run_id, call_id=self.call_id, tool=self._call.tool, message=message, done=done, of=of)
        self._ctx.progress(at)

    async def ask(self, question: str, schema: Mapping[str, object] | None = None) -> object:
        self._look_whether_over()
        self._questions += 1
        asked = f"{self.call_id}?{self._questions}"
        ticket = self._ctx.state.ticket_of_call.get(asked) or self._ctx.past.ticket(asked)
        if ticket is None or ticket.decision is None:
            raise Asks(self._question(asked, question, schema))
        if ticket.decision not in ("answered", "approved"):
            why = f": {ticket.message}" if ticket.message else ""
            raise ToolFailed(f"Nobody answered the question {question!r} ({ticket.decision}{why}).")
        return ticket.value

    def _question(self, asked: str, question: str, schema: Mapping[str, object] | None) -> e.TicketOpened:
        if schema is not None and (wrong := wrong_schema(schema)):
            raise ToolFailed(f"The schema of the question {question!r} is no JSON schema: {wrong}")
        tool, as_dict = self._call.tool, dict(schema) if schema is not None else None
        return self._ctx.ticket(asked, Waits.INPUT, question, tool=tool, schema=as_dict, expires_in=ASK_FOR_SECONDS)

    async def artifact(self, data: bytes, media_type: str, name: str = "") -> str:
        self._look_whether_over()
        uri = await self._ctx.files.put(data)
        self._look_whether_over()
        self._ctx.note(e.ArtifactAdded(uri=uri, media_type=media_type, name=name), files=((uri, len(data)),))
        return uri

    def _look_whether_over(self) -> None:
        """What a call leaves behind, or one that was given up, changes nothing in the run any more."""
        if self.over:
            raise ToolFailed("its call is over")


async def invoke(ctx: RunContext, tool: Tool, call: Call, alarm: Alarm) -> e.ToolFinished | Asks:
    """Call it. Whatever it does, there is one result; `alarm` tells that the time of the whole run is over."""
    assert isinstance(call.arguments, Mapping)
    context = CallContext(ctx, call)
    task = asyncio.create_task(_call(tool, call.arguments, context))
    watch = _Watch(ctx, task, tool)
    try:
        with alarm.calling(lambda: watch.cut("the time of the run is over")):
            await watch.until_over()
    except BaseException:
        task.cancel()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait({task}, timeout=PATIENCE)
        raise
    finally:
        context.over = True
    if not task.done():
        task.cancel()
        task.add_done_callback(lambda _: log.warning("run %s: a late result of %s is discarded", ctx.run.id, tool.name))
        return _failed(call, Failure(kind="abandoned", message=f"It did not stop: {watch.why}."), lost=True)
    return await _result(ctx, call, task, watch.why)


async def _call(tool: Tool, arguments: Mapping[str, object], context: CallContext) -> object:
    try:
        return await tool.call(arguments, context)
    except SystemExit as error:  # it would end the process
        raise ToolFailed(f"{tool.name} ended itself ({error.code}).") from None


class _Watch:
    """Looks after a call that is under way."""

    def __init__(self, ctx: RunContext, task: asyncio.Task[object], tool: Tool) -> None:
        self._clock, self._task, self._stops, self._woken = ctx.clock, task, tool.stops, asyncio.Event()
        timeout = TIMEOUT if tool.timeout is None else tool.timeout
        self._ends = self._clock.now_ms() + int(timeout * 1000)
        self._gone = False
        self._timer = self._clock.call_later(timeout, lambda: self.cut(f"it gave no result within {timeout:g} s"))
        self.why = ""
        task.add_done_callback(lambda _: self._woken.set())

    def cut(self, why: str) -> None:
        """Tell it to stop, if it can; what still runs some time after its own timeout is given up."""
        if self.why:
            return
        self.why = why
        self._timer.cancel()
        if self._stops:
            self._task.cancel()
        left = max(0.0, (self._ends - self._clock.now_ms()) / 1000)
        self._timer = self._clock.call_later(left + PATIENCE, self._give_up)

    def _give_up(self) -> None:
        self._gone = True
        self._woken.set()

    async def until_over(self) -> None:
        try:
            while not (self._task.done() or self._gone):
                await self._woken.wait()
                self._woken.clear()
        finally:
            self._timer.cancel()


async def _result(ctx: RunContext, call: Call, task: asyncio.Task[object], why: str) -> e.ToolFinished | Asks:
    if task.cancelled():
        message = f"It was stopped: {why}." if why else "It cancelled itself."
        return _failed(call, Failure(kind="timeout" if why else "CancelledError", message=message), lost=bool(why))
    match task.exception():
        case None:
            return await _finished(ctx, call, task.result())
        case Asks() as asks:
            return asks
        case ToolFailed() as failed:
            return _failed(call, Failure(kind="failed", message=failure_of(failed).message))
        case BaseException() as error:
            return _failed(call, _without_internals(error))


def _without_internals(error: BaseException) -> Failure:
    """What the model is told of an error: its kind and first line."""
    failure = failure_of(error)
    line = failure.message.strip().partition("\n")[0][:LONGEST_MESSAGE]
    return Failure(kind=failure.kind, message=line if line == failure.kind else f"{failure.kind}: {line}")


def _failed(call: Call, failure: Failure, *, lost: bool = False) -> e.ToolFinished:
    """A write that was stopped may have taken effect all the same."""
    unknown = lost and call.effect is Effect.WRITE
    if unknown:
        failure = Failure(kind=failure.kind, message=f"{failure.message} {notes.unknown(call.tool)}")
    return e.ToolFinished(call_id=call.call_id, ok=False, error=failure, unknown=unknown)


async def _finished(ctx: RunContext, call: Call, value: object) -> e.ToolFinished:
    finished = e.ToolFinished(call_id=call.call_id, ok=True)
    if isinstance(value, Content):
        texts, files = await _kept(ctx, value)
        finished, value = replace(finished, files=files), "\n".join(texts)
    try:
        plain = msgspec.json.decode(e.encode_json(value, f"What {call.tool} gave"))
        e.encode_json(finished.files, f"A name or media type that {call.tool} gave")
    except NotStorable as error:
        return _failed(call, Failure(kind="NotStorable", message=failure_of(error).message))
    return replace(finished, result=plain)


async def _kept(ctx: RunContext, content: Content) -> tuple[list[str], tuple[File, ...]]:
    """Texts, and bytes as files; in the texts a note stands where a file was."""
    texts: list[str] = []
    files: list[File] = []
    for part in content.parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        uri = await ctx.files.put(part.data)
        ctx.note(files=((uri, len(part.data)),))
        files.append(File(uri=uri, media_type=part.media_type, name=part.name))
        texts.append(f"[{part.name or part.media_type}: shown below]")
    return texts, tuple(files)
