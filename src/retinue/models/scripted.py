"""The `test` model: answers as it was told to, offline and always the same. For tests, demos and benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from retinue.core.messages import AnyPart, Data, Message, Text, Thinking, ToolCall, text_of
from retinue.core.outcome import Usage
from retinue.core.schema import misfits
from retinue.core.tool import FINISH
from retinue.errors import ModelBroken
from retinue.models.call_ids import with_ids
from retinue.models.example import example_of
from retinue.ports.clock import Clock, SystemClock
from retinue.ports.models import ModelRequest, ModelResponse, Piece, Said, Stop, Takes, ToolSpec

BREATH = 64
"""So many pieces are said in one go before others get their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer.

    `pieces` are said one by one, each after `delay` seconds, the first after `first` more; `before` is awaited before
    each. Then come the `calls` (one without an id gets one), `data` as JSON, and `parts` as they are. `error` breaks
    the answer off after all pieces, `break_after` after so many of them. What `usage` and `stop` do not say follows
    from the rest.
    """

    pieces: Sequence[str] = ()
    thinking: str = ""
    calls: Sequence[ToolCall] = ()
    data: object = None
    parts: Sequence[AnyPart] = ()
    before: Callable[[int], Awaitable[None]] | None = None
    first: float = 0.0
    delay: float = 0.0
    error: Exception | None = None
    break_after: int | None = None
    usage: Usage | None = None
    stop: Stop | None = None


def call(tool: str, **arguments: object) -> ToolCall:
    """A call for a reply; it gets its id when it is made."""
    return ToolCall(call_id="", tool=tool, arguments=arguments)


def words_of(text: str) -> list[str]:
    """A text as the pieces in which a model would say it."""
    return [word if n == 0 else f" {word}" for n, word in enumerate(text.split(" "))]


def echo(request: ModelRequest) -> Reply:
    """What the test model says when it was told nothing: what was said to it, in the form that is asked for."""
    said = f"You said: {_last_said(request.messages)}"
    if request.tools and (tool := _wanted(request)):
        return Reply(calls=[ToolCall(call_id="", tool=tool.name, arguments=_arguments(tool, said))])
    if request.output:
        return Reply(data=example_of(request.output.schema))
    return Reply(pieces=words_of(said))


class ScriptedModel:
    """Gives the reply that `script` makes of the request. Its delays pass on `clock`."""

    def __init__(
        self,
        script: Callable[[ModelRequest], Reply] = echo,
        name: str = "test",
        *,
        clock: Clock | None = None,
        takes: Takes | None = None,
    ) -> None:
        self.name, self._script = name, script
        self._clock = clock or SystemClock()
        self.takes = takes or Takes()
        self.asked = 0

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Said, None]:
        self.asked += 1
        reply = self._script(request)
        if reply.first:
            await self._clock.sleep(reply.first)
        if reply.thinking:
            yield Piece(reply.thinking, "thinking")
        pieces = reply.pieces if reply.data is None else [*reply.pieces, _json(reply.data)]
        for n, piece in enumerate(pieces[: reply.break_after]):
            if reply.before:
                await reply.before(n)
            if reply.delay:
                await self._clock.sleep(reply.delay)
            yield Piece(piece)
            if n % BREATH == BREATH - 1:
                await asyncio.sleep(0)
        if reply.error:
            raise reply.error
        if reply.break_after is not None:
            raise ModelBroken(model=self.name, problem="the stream broke off")
        calls = with_ids(reply.calls, request.messages) if reply.calls else ()
        for made in calls:
            yield Piece(_json(made.arguments), "tool_args")
        yield ModelResponse(
            parts=_parts(reply, calls),
            usage=reply.usage or Usage(calls=1, input_tokens=_tokens(request), output_tokens=len(pieces) + len(calls)),
            stop=reply.stop or ("tool_calls" if calls else "end"),
            model=self.name,
        )

    def at_most(self, request: ModelRequest) -> Usage:
        return Usage(calls=1, input_tokens=_tokens(request), output_tokens=request.settings.max_tokens or 0)


def _parts(reply: Reply, calls: Sequence[ToolCall]) -> tuple[AnyPart, ...]:
    thinking = (Thinking(text=reply.thinking),) if reply.thinking else ()
    text = "".join(reply.pieces)
    data = () if reply.data is None else (Data(data=reply.data),)
    more = (*data, *reply.parts, *calls)
    return (*thinking, Text(text=text), *more) if text or not more else (*thinking, *more)


def _wanted(request: ModelRequest) -> ToolSpec | None:
    """The tool that is called when nobody said which: the one that has to be, or the one that finishes."""
    choice = request.settings.tool_choice
    if choice == "none":
        return None
    named = {tool.name: tool for tool in request.tools}
    if choice in named:
        return named[choice]
    return named.get(FINISH) or (request.tools[0] if choice == "required" else None)


def _arguments(tool: ToolSpec, said: str) -> object:
    """An example; what was said is the `result`, when that is a text which may say it."""
    arguments = example_of(tool.schema)
    if not isinstance(arguments, dict) or not isinstance(arguments.get("result"), str):
        return arguments
    with_said = {**arguments, "result": said}
    return arguments if misfits(tool.schema, with_said) else with_said


def _last_said(messages: Sequence[Message]) -> object:
    """The text of the last message of a person, or its data."""
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    if last is None:
        return ""
    return text_of(last.parts) or next((part.data for part in last.parts if isinstance(part, Data)), "")


def _json(value: object) -> str:
    """As a model would say it. Arguments that are a text are said as they are: a script may break JSON on purpose."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _tokens(request: ModelRequest) -> int:
    return sum(len(text_of(message.parts).split()) for message in request.messages)
