"""An answer in the words of Pydantic AI: its events into pieces as they come, and all into the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from pydantic_ai import messages as m
from pydantic_ai.usage import RequestUsage

from retinue.core.messages import AnyPart, Data, Text, Thinking, ToolCall
from retinue.core.outcome import Usage
from retinue.models import estimate
from retinue.models.pydantic_ai.transport import Call
from retinue.models.sayable import Names
from retinue.ports.models import ModelRequest, ModelResponse, Piece, Stop

DONE = b"[DONE]"
STOPS: Mapping[str, Stop] = {"length": "length", "content_filter": "filtered"}
THOUGHTS = ("thinking_tokens", "reasoning_tokens", "thoughts_tokens")
"""What providers call the tokens that were thought."""
_fenced = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.S)


def pieces_of(event: m.ModelResponseStreamEvent) -> Iterator[Piece]:
    """What an event adds."""
    match event:
        case (
            m.PartStartEvent(part=m.TextPart(content=text))
            | m.PartDeltaEvent(delta=m.TextPartDelta(content_delta=text))
        ):
            yield from _piece(text, "text")
        case (
            m.PartStartEvent(part=m.ThinkingPart(content=text))
            | m.PartDeltaEvent(delta=m.ThinkingPartDelta(content_delta=text))
        ):
            yield from _piece(text, "thinking")
        case (
            m.PartStartEvent(part=m.ToolCallPart(args=args))
            | m.PartDeltaEvent(delta=m.ToolCallPartDelta(args_delta=args))
        ):
            yield from _piece(args if isinstance(args, str) else _json(args) if args else "", "tool_args")


def _piece(text: str | None, kind: str) -> Iterator[Piece]:
    if text:
        yield Piece(text, kind)


def ending_of(response: m.ModelResponse, call: Call) -> str | None:
    """What is wrong with how it ended: the provider must have said why, not the package, which makes one up."""
    why = (response.provider_details or {}).get("finish_reason")
    if response.finish_reason == "error":
        return f"it broke off with the reason {why}"
    said = why or response.finish_reason not in (None, "stop") or (response.finish_reason and not call.sent)
    if response.state == "complete" and (said or DONE in call.ending):
        return None
    return "it broke off in the middle: the server gave no reason for its end"


def refusal_of(response: m.ModelResponse) -> str:
    """What was said in the place of an answer, where that is no text to the package."""
    said = (response.provider_details or {}).get("refusal")
    return said if isinstance(said, str) and not response.text else ""


def whole_of(response: m.ModelResponse, request: ModelRequest, provider: str, model: str) -> ModelResponse:
    """All of it."""
    names = Names(request.tools)
    parts = [made for part in response.parts for made in _part(part, provider, names)]
    if refusal := refusal_of(response):
        parts.append(Text(text=refusal))
    stop = STOPS.get(response.finish_reason or "", "end")
    calls = any(isinstance(part, ToolCall) for part in parts)
    if request.output and not calls and stop != "filtered":
        parts = _with_data(parts)
    if stop == "end" and calls:
        stop = "tool_calls"
    return ModelResponse(
        parts=tuple(parts),
        usage=_usage(response, request),
        stop=stop,
        model=f"{provider}:{response.model_name or model}",
    )


def _part(part: m.ModelResponsePart, provider: str, names: Names) -> Iterator[AnyPart]:
    match part:
        case m.TextPart(content=text):
            if text or part.provider_details:
                yield Text(text=text, provider=_kept(part, provider))
        case m.ThinkingPart(content=text):
            yield Thinking(text=text, provider=_kept(part, provider))
        case m.ToolCallPart():
            yield ToolCall(
                call_id=part.tool_call_id,
                tool=names.meant(part.tool_name),
                arguments=_arguments(part.args),
                provider=_kept(part, provider),
            )
        case m.FilePart(content=content):
            yield Text(text=f"[{content.media_type}]")


def _kept(part: m.TextPart | m.ThinkingPart | m.ToolCallPart, provider: str) -> dict[str, object] | None:
    """What the provider gave with it, and wants back. A thought goes back to its thinker only, so that is kept too."""
    given = {
        "id": part.id,
        "signature": part.signature if isinstance(part, m.ThinkingPart) else None,
        "details": part.provider_details,
    }
    kept = {name: value for name, value in given.items() if value}
    return {"name": provider, **kept} if kept or isinstance(part, m.ThinkingPart) else None


def _arguments(args: object) -> object:
    """The arguments as a value; what cannot be read as JSON is kept as text, for the model to be told."""
    if not isinstance(args, str):
        return args or {}
    if not args.strip():
        return {}
    try:
        return msgspec.json.decode(args)
    except msgspec.DecodeError:
        return args


def _with_data(parts: list[AnyPart]) -> list[AnyPart]:
    """The value that was asked for, in the place of the text that it was said in, if it is one."""
    text = "".join(part.text for part in parts if isinstance(part, Text))
    fenced = _fenced.fullmatch(text)
    try:
        data = msgspec.json.decode(fenced[1] if fenced else text)
    except msgspec.DecodeError:
        return parts
    return [*(part for part in parts if not isinstance(part, Text)), Data(data=data)]


def _usage(response: m.ModelResponse, request: ModelRequest) -> Usage:
    used = response.usage
    if not (used.input_tokens or used.output_tokens):
        return estimate.used(request, sum(len(_said(part)) for part in response.parts))
    return Usage(
        calls=1,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cache_read_tokens,
        thinking_tokens=_thought(used),
        cost_usd=float(used.cost or 0),
    )


def _thought(used: RequestUsage) -> int:
    return next((used.details[name] for name in THOUGHTS if used.details.get(name)), 0)


def _said(part: m.ModelResponsePart) -> str:
    match part:
        case m.TextPart(content=text) | m.ThinkingPart(content=text):
            return text
        case m.ToolCallPart(args=args):
            return args if isinstance(args, str) else _json(args)
        case _:
            return ""


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
