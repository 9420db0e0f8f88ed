"""Local models: real ones, in this process, without a key and without a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from retinue.core.messages import AnyPart, Data, File, Text, Thinking, ToolCall, ToolResult
from retinue.core.outcome import Usage
from retinue.errors import ExtraMissing, ModelBroken, ModelError, ModelRefused
from retinue.models.call_ids import with_ids
from retinue.models.constrained import BadSchema, Held, grammar, may_answer, offered_tools
from retinue.models.llama import Failed, Rejected, context_here, llama_of
from retinue.models.pull import path_of
from retinue.ports.models import ModelRequest, ModelResponse, Piece, Said, Stop, Takes, ToolSpec

PREFIX = "local:"
LONGEST = 512
"""Tokens of an answer, unless the request says otherwise: a small model does not always know when to stop."""
FREE: Mapping[str, object] = {"repeat_penalty": 1.05, "dry_multiplier": 0.8}
HELD: Mapping[str, object] = {
    "repeat_penalty": 1.0,
    "dry_multiplier": 0.8,
    "dry_allowed_length": 3,
    "dry_sequence_breakers": ['"'],
}
"""Small models at temperature 0 get into loops. Sequences that come again are held against them; single words only
where nothing has to be copied out of the question, as the arguments of a call are."""
CACHED_FROM = 4000
"""Characters. A prompt whose beginning is in the cache gives slightly other numbers than one that is read as a whole.
So short ones are read anew each time: the same question gets the same answer."""
INSTRUCTIONS = "You are a helpful assistant."
"""What a model is told that nobody told anything. Small ones need it."""

Json = dict[str, Any]


def local_model(name: str) -> LocalModel:
    """`local:smollm2`, another that was pulled, or `local:` and the path of a GGUF file.

    Raises `UnknownModel`, which says how to get it, `BadFile` or `ExtraMissing`. Nothing is loaded before it is asked.
    """
    if find_spec("xllamacpp") is None:
        raise ExtraMissing(what="A local model", extra="local")
    return LocalModel(path_of(name.removeprefix(PREFIX)), name)


class LocalModel:
    """A GGUF file that answers. It is asked one question at a time; who comes meanwhile waits in order."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.takes = Takes(context_tokens=context_here(path))
        self._llama = llama_of(path.resolve())

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Said, None]:
        spent = Usage()
        while True:
            answer = _Answer(request, self.name)
            async with aclosing(self._pieces(request, answer)) as pieces:
                async for piece in pieces:
                    yield piece
            response = answer.response()
            if (repeated := _repeated(request, response)) is None:
                break
            spent += response.usage
            request = replace(request, tools=tuple(tool for tool in request.tools if tool.name != repeated))
        for piece in answer.rest():
            yield piece
        yield replace(response, usage=spent + response.usage)

    async def _pieces(self, request: ModelRequest, answer: _Answer) -> AsyncGenerator[Piece, None]:
        try:
            question = _question(request)
        except BadSchema as error:
            raise self._refused(str(error)) from None
        except UnicodeEncodeError:
            raise self._refused("a text of it has characters that Unicode does not know") from None
        chunks = self._llama.chunks(question, request.settings.timeout)
        try:
            async for chunk in chunks:
                for piece in answer.take(chunk):
                    yield piece
        except Rejected as error:
            raise self._refused(str(error)) from None
        except Failed as error:
            raise ModelBroken(model=self.name, problem=str(error)) from None
        except TimeoutError:
            problem = f"it broke off: nothing came any more for {request.settings.timeout:g} s"
            raise ModelBroken(model=self.name, problem=problem) from None
        finally:
            await chunks.aclose()

    def at_most(self, request: ModelRequest) -> Usage:
        characters = sum(len(str(part)) for message in request.messages for part in message.parts)
        return Usage(calls=1, input_tokens=characters // 3, output_tokens=request.settings.max_tokens or LONGEST)

    def _refused(self, problem: str) -> ModelRefused:
        return ModelRefused(model=self.name, problem=problem)


# The question


def _repeated(request: ModelRequest, response: ModelResponse) -> str | None:
    """The tool of a call that has just been made, with the same arguments, and whose result is here.

    Small models go on as they began, for ever. So the question is asked once more without that tool."""
    last = next((message for message in reversed(request.messages) if message.role == "model"), None)
    if last is None or request.messages[-1].role != "tool":
        return None
    if not may_answer(request) and len(offered_tools(request)) == 1:
        return None  # there is nothing else that it may do
    made = [(part.tool, part.arguments) for part in last.parts if isinstance(part, ToolCall)]
    calls = [part for part in response.parts if isinstance(part, ToolCall)]
    return next((call.tool for call in calls if (call.tool, call.arguments) in made), None)


def _question(request: ModelRequest) -> Json:
    settings = request.settings
    held, turns = grammar(request), _turns(request)
    question: Json = {
        "messages": turns,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "cache_prompt": sum(len(turn["content"]) for turn in turns) >= CACHED_FROM,
        "max_tokens": settings.max_tokens or LONGEST,
        "temperature": settings.temperature or 0.0,
        "seed": settings.seed or 0,
        **(HELD if held else FREE),
    }
    if held:
        question["grammar"] = held
    if settings.top_p is not None:
        question["top_p"] = settings.top_p
    if settings.stop:
        question["stop"] = list(settings.stop)
    if settings.thinking:
        question["chat_template_kwargs"] = {"enable_thinking": settings.thinking != "off"}
    _json(question)
    return {name: value for name, value in {**question, **settings.extra}.items() if value is not None}


def _turns(request: ModelRequest) -> list[dict[str, str]]:
    """Roles by turns, as every template takes them: the user speaks for the tools too."""
    system = "\n\n".join(filter(None, (request.instructions, _about_tools(request))))
    turns = [{"role": "system", "content": system or INSTRUCTIONS}]
    words = _words if offered_tools(request) else _words_without_calls
    for message in request.messages:
        role = "assistant" if message.role == "model" else "user"
        text = "\n".join(filter(None, map(words, message.parts)))
        if turns[-1]["role"] == role:
            turns[-1]["content"] += f"\n{text}"
        elif text or words is _words:
            turns.append({"role": role, "content": text})
    return turns


def _words_without_calls(part: AnyPart) -> str:
    """Where nothing can be called any more, a call would only be an example of how to answer."""
    return "" if isinstance(part, ToolCall) else _words(part)


def _words(part: AnyPart) -> str:
    match part:
        case Text(text=text):
            return text
        case Data(data=data):
            return _json(data)
        case ToolCall(tool=tool, arguments=arguments):
            return f'{{"tool": {_json(tool)}, "arguments": {_json(arguments)}}}'
        case ToolResult(ok=ok, result=result):
            return f"{'Result' if ok else 'Error'}: {result if isinstance(result, str) else _json(result)}"
        case File(name=name, media_type=media_type):
            return f"[{name or media_type}]"
        case Thinking():
            return ""


def _about_tools(request: ModelRequest) -> str:
    tools = offered_tools(request)
    if not tools:
        return ""
    lines = "\n".join(_about_tool(tool) for tool in tools)
    how = 'To call one, say {"tool": its name, "arguments": {...}}.'
    return f"You can call these tools:\n{lines}\n{how}" + (
        ' When you know enough, say {"answer": "..."}.' if may_answer(request) else ""
    )


def _about_tool(tool: ToolSpec) -> str:
    properties = tool.schema.get("properties")
    names = properties if isinstance(properties, Mapping) else {}
    return f"- {tool.name}({', '.join(names)})" + (f": {_first_sentence(tool.description)}" if tool.description else "")


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# The answer


@dataclass(slots=True)
class _Answer:
    """What was said so far."""

    request: ModelRequest
    model: str
    _text: list[str] = field(default_factory=list)
    _thinking: list[str] = field(default_factory=list)
    _finish: str | None = None
    _usage: Mapping[str, Any] = field(default_factory=dict)
    _held: Held | None = None

    def __post_init__(self) -> None:
        if offered_tools(self.request) or self.request.output:
            self._held = Held(self.request)

    def take(self, chunk: Mapping[str, Any]) -> list[Piece]:
        """The pieces of a chunk. An error is a chunk like others."""
        if error := chunk.get("error"):
            raise self._error(error)
        self._usage = chunk.get("usage") or self._usage
        pieces: list[Piece] = []
        for choice in chunk.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
            delta = choice.get("delta") or {}
            if thought := delta.get("reasoning_content"):
                self._thinking.append(thought)
                pieces.append(Piece(thought, "thinking"))
            if text := delta.get("content"):
                self._text.append(text)
                pieces += self._held.add(text) if self._held else [Piece(text)]
        return pieces

    def rest(self) -> list[Piece]:
        return list(self._held.rest()) if self._held else []

    def response(self) -> ModelResponse:
        if self._finish is None:
            raise ModelBroken(model=self.model, problem="the answer broke off")
        parts = self._parts()
        calls = [part for part in parts if isinstance(part, ToolCall)]
        others = [part for part in parts if not isinstance(part, ToolCall)]
        thinking = [Thinking(text="".join(self._thinking))] if self._thinking else []
        details = self._usage.get("prompt_tokens_details") or {}
        return ModelResponse(
            parts=(*thinking, *others, *with_ids(calls, self.request.messages)),
            usage=Usage(
                calls=1,
                input_tokens=self._usage.get("prompt_tokens", 0),
                output_tokens=self._usage.get("completion_tokens", 0),
                cached_tokens=details.get("cached_tokens", 0),
            ),
            stop=self._stop(bool(calls)),
            model=self.model,
        )

    def _parts(self) -> tuple[AnyPart, ...]:
        if self._held is None:
            return (Text(text="".join(self._text)),)
        parts = self._held.parts()
        if parts is None and (self._finish != "length" or not self._held.begins_well):
            problem = "it did not keep to the schema that it was held to, which the library may not know how to do"
            raise ModelBroken(model=self.model, problem=problem)
        return parts or (Text(text="".join(self._text)),)

    def _stop(self, calls: bool) -> Stop:
        if self._finish == "length":
            return "length"
        return "tool_calls" if calls else "end"

    def _error(self, error: Mapping[str, Any]) -> ModelError:
        if error.get("type") == "exceed_context_size_error":
            problem = f"the conversation has {error.get('n_prompt_tokens')} tokens, and room for {error.get('n_ctx')}"
            return ModelRefused(model=self.model, problem=problem)
        kind = ModelRefused if error.get("code") == 400 else ModelBroken
        return kind(model=self.model, problem=str(error.get("message")))
