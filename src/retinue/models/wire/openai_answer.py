"""An answer in the words of OpenAI's chat completions: chunks into pieces as they come, and all into the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from retinue.core.messages import AnyPart, Data, Text, Thinking, ToolCall
from retinue.core.outcome import Usage
from retinue.models import estimate
from retinue.models.sayable import Names
from retinue.models.wire.problems import Problems
from retinue.ports.models import ModelRequest, ModelResponse, Piece, Stop

STOPS: dict[str, Stop] = {
    "stop": "end",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}
BROKEN = ("error", "abort")
OPEN, CLOSE = "<think>", "</think>"


Number = int | float


class FunctionPart(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, object] | None = None


class CallPart(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: FunctionPart | None = None


class Said(msgspec.Struct):
    """A delta, or a whole message: they have the same fields. What is no text where it should be is passed over."""

    content: str | list[dict[str, object]] | None = None
    reasoning_content: object = None
    reasoning: object = None
    refusal: object = None
    tool_calls: list[CallPart] | None = None


class Choice(msgspec.Struct):
    delta: Said | None = None
    message: Said | None = None
    finish_reason: str | None = None
    error: object = None


class InputDetails(msgspec.Struct, gc=False):
    cached_tokens: Number | None = None


class OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: Number | None = None


class Used(msgspec.Struct):
    prompt_tokens: Number | None = None
    completion_tokens: Number | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: Number | None = None
    cached_tokens: Number | None = None

    @property
    def counted(self) -> bool:
        return self.prompt_tokens is not None or self.completion_tokens is not None


class GroqUsed(msgspec.Struct):
    usage: Used | None = None


class Chunk(msgspec.Struct):
    """What we read of a chunk; servers differ in what they leave out, not in what it means."""

    choices: list[Choice] | None = None
    model: str | None = None
    usage: Used | None = None
    error: object = None
    kind: str | None = msgspec.field(name="object", default=None)
    message: str | None = None
    x_groq: GroqUsed | None = None


_decode = msgspec.json.Decoder(Chunk).decode


@dataclass(slots=True)
class Call:
    """A tool call as far as it was said."""

    index: int | None
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Answer:
    """What a model has said so far."""

    def __init__(self, request: ModelRequest, provider: str, model: str, say: Problems) -> None:
        self._request, self._provider, self._model, self._say = request, provider, model, say
        self._names = Names(request.tools)
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._thought_field = ""
        self._calls: list[Call] = []
        self._fresh: list[tuple[str, str]] = []
        self._tags: Tags | None = Tags()
        self._finish: str | None = None
        self._refused = False
        self._used: Used | None = None

    def take(self, data: bytes) -> None:
        """Take in one chunk. Raises the error that the server speaks of, or that the chunk itself is."""
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._say.broken(f"a piece of it cannot be read ({error}): {_shown(data)}") from None
        if chunk.error:
            raise self._say.complained(chunk.error)
        if chunk.kind == "error":
            raise self._say.complained({"message": chunk.message})
        if chunk.choices:
            self._take(chunk.choices[0])
        used = chunk.usage or (chunk.x_groq and chunk.x_groq.usage)
        if used and used.counted:
            self._used = used
        if chunk.model and not chunk.model.startswith("/"):  # where its file is, is nobody's business
            self._model = chunk.model

    def _take(self, choice: Choice) -> None:
        said = choice.delta or choice.message
        if said:
            if said.reasoning_content or said.reasoning:
                self._think(said)
            if said.content:
                self._speak(said.content)
            if said.tool_calls:
                for part in said.tool_calls:
                    self._call(part)
            if isinstance(said.refusal, str) and said.refusal:
                self._refused = True
                self._say_more("text", self._text, said.refusal)
        if choice.error:
            raise self._say.complained(choice.error)
        if choice.finish_reason:
            if choice.finish_reason in BROKEN:
                raise self._say.broken(f"it broke off with the reason {choice.finish_reason}")
            self._finish = choice.finish_reason

    def _say_more(self, kind: str, kept: list[str], text: str) -> None:
        kept.append(text)
        self._fresh.append((kind, text))

    def _think(self, said: Said) -> None:
        for name in ("reasoning_content", "reasoning"):
            thought = getattr(said, name)
            if isinstance(thought, str) and thought:
                self._thought_field, self._tags = name, None
                self._say_more("thinking", self._thoughts, thought)
                return  # some servers say the same in both fields

    def _speak(self, content: str | list[dict[str, object]]) -> None:
        if isinstance(content, list):
            self._speak_parts(content)
        elif self._tags is None:
            self._text.append(content)
            self._fresh.append(("text", content))
        else:
            self._untag(content)

    def _speak_parts(self, content: list[dict[str, object]]) -> None:
        """Content in parts, as some servers give it: text, and thinking that is a list of texts itself."""
        for part in content:
            text, thinking = part.get("text"), part.get("thinking")
            if isinstance(text, str):
                self._say_more("text", self._text, text)
            elif isinstance(thinking, str):
                self._say_more("thinking", self._thoughts, thinking)
            elif isinstance(thinking, list):
                for inner in thinking:
                    if isinstance(inner, dict) and isinstance(inner.get("text"), str):
                        self._say_more("thinking", self._thoughts, inner["text"])

    def _untag(self, content: str) -> None:
        assert self._tags
        thought, text = self._tags.split(content)
        if thought:
            self._say_more("thinking", self._thoughts, thought)
        if text:
            self._say_more("text", self._text, text)
        if self._tags.passed:
            self._tags = None

    def _call(self, part: CallPart) -> None:
        call = self._call_of(part)
        function = part.function
        if function is None:
            return
        if function.name and not call.name:
            call.name = function.name
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        if arguments:
            self._say_more("tool_args", call.arguments, arguments)

    def _call_of(self, part: CallPart) -> Call:
        """The call that a piece belongs to: by its index, or else the last, unless it is clearly another."""
        last = self._calls[-1] if self._calls else None
        if part.index is not None:
            # A server that counts all its calls as the first gives each an id of its own.
            for call in reversed(self._calls):
                if call.index == part.index and (not part.id or not call.id or call.id == part.id):
                    call.id = call.id or part.id or ""
                    return call
        elif last and (part.id == last.id if part.id else not (part.function and part.function.name)):
            return last
        call = Call(part.index, part.id or "")
        self._calls.append(call)
        return call

    def fresh(self) -> list[Piece]:
        """What is new since the last time: what arrived together is said together."""
        fresh, self._fresh = self._fresh, []
        if len(fresh) == 1:
            return [Piece(fresh[0][1], fresh[0][0])]
        pieces: list[Piece] = []
        texts: list[str] = []
        for n, (kind, text) in enumerate(fresh):
            texts.append(text)
            if n + 1 == len(fresh) or fresh[n + 1][0] != kind:
                pieces.append(Piece("".join(texts), kind))
                texts = []
        return pieces

    @property
    def finished(self) -> bool:
        return self._finish is not None

    @property
    def empty(self) -> bool:
        return not (self._text or self._thoughts or self._calls or self._finish)

    def close(self) -> None:
        """Nothing follows: what looked like the beginning of a tag was none."""
        if self._tags:
            thought, text = self._tags.rest()
            if thought:
                self._say_more("thinking", self._thoughts, thought)
            if text:
                self._say_more("text", self._text, text)
            self._tags = None

    def response(self) -> ModelResponse:
        """The whole."""
        return ModelResponse(
            parts=self._parts(), usage=self._usage(), stop=self._stop(), model=f"{self._provider}:{self._model}"
        )

    def _parts(self) -> tuple[AnyPart, ...]:
        parts: list[AnyPart] = []
        if thought := "".join(self._thoughts):
            kept: dict[str, object] | None = None
            if self._thought_field:
                kept = {"name": self._provider, "field": self._thought_field}
            parts.append(Thinking(text=thought, provider=kept))
        if text := "".join(self._text):
            parts.append(self._data(text) or Text(text=text))
        parts += [ToolCall(call_id=c.id, tool=self._names.meant(c.name), arguments=_arguments(c)) for c in self._calls]
        return tuple(parts)

    def _data(self, text: str) -> Data | None:
        """The value, where one was asked for and is there; what is none is kept as it was said."""
        if not self._request.output or self._calls or self._refused:
            return None
        try:
            return Data(data=msgspec.json.decode(text))
        except msgspec.DecodeError:
            return None

    def _stop(self) -> Stop:
        """Why it stopped. Some servers say `stop` where there are calls."""
        stop = "filtered" if self._refused else STOPS.get(self._finish or "", "end")
        if stop in ("end", "tool_calls"):
            return "tool_calls" if self._calls else "end"
        return stop

    def _usage(self) -> Usage:
        used = self._used
        if used is None:
            said = (self._text, self._thoughts, *(call.arguments for call in self._calls))
            return estimate.used(self._request, sum(len(text) for texts in said for text in texts))
        details, thinking = used.prompt_tokens_details, used.completion_tokens_details
        cached = (details and details.cached_tokens) or used.prompt_cache_hit_tokens or used.cached_tokens
        return Usage(
            calls=1,
            input_tokens=int(used.prompt_tokens or 0),
            output_tokens=int(used.completion_tokens or 0),
            cached_tokens=int(cached or 0),
            thinking_tokens=int((thinking and thinking.reasoning_tokens) or 0),
        )


class Tags:
    """Tells thinking from text where a server leaves the tags in: `<think>` at the very beginning, until `</think>`."""

    def __init__(self) -> None:
        self.passed = False
        self._where: Literal["before", "inside", "after"] = "before"
        self._held = ""

    def split(self, content: str) -> tuple[str, str]:
        """Thought and text of what was said. What may be half a tag is held back."""
        held, self._held = self._held + content, ""
        if self._where == "before":
            begin = held.lstrip()
            if OPEN.startswith(begin):
                self._held = held
                return "", ""
            if not begin.startswith(OPEN):
                self.passed = True
                return "", held
            self._where, held = "inside", begin[len(OPEN) :]
        thought = ""
        if self._where == "inside":
            thought, closing, held = held.partition(CLOSE)
            if not closing:
                keep = len(thought) - _half(thought)
                self._held = thought[keep:]
                return thought[:keep], ""
            self._where = "after"
        text = held.lstrip()
        self.passed = bool(text)
        return thought, text

    def rest(self) -> tuple[str, str]:
        return (self._held, "") if self._where == "inside" else ("", self._held)


def _half(text: str) -> int:
    """How much of a closing tag the text ends with."""
    return next((n for n in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:n])), 0)


def _arguments(call: Call) -> object:
    """The arguments as a value; what cannot be read as JSON is kept as text, for the model to be told."""
    text = "".join(call.arguments)
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _shown(data: bytes) -> str:
    return repr(data[:80].decode(errors="replace"))
