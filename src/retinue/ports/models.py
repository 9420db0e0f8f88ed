"""What answers a prompt: pieces as they come, then the whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from retinue.core.messages import AnyPart, Message
from retinue.core.outcome import Failure, Usage

Stop = Literal["end", "length", "tool_calls", "filtered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that the model may ask for. `schema` is the JSON schema of its arguments, an object."""

    name: str
    description: str = ""
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "object", "properties": {}})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """The answer is to be JSON of this schema."""

    schema: Mapping[str, object]
    name: str = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How the answer is made. None leaves it to the provider; `extra` goes into the request as it is."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    thinking: Literal["off", "low", "medium", "high"] | None = None
    tool_choice: str | None = None
    """`auto`, `required`, `none`, or the name of a tool."""
    timeout: float | None = None
    """Seconds without a piece after which the answer counts as broken off."""
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model. `files` has the bytes of the messages' file parts, by their URI."""

    messages: tuple[Message, ...]
    instructions: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    settings: ModelSettings = ModelSettings()
    files: Mapping[str, bytes] = field(default_factory=dict)
    deadline: int | None = None
    """When the answer is of no use any more, by the engine's clock: no try begins that could only end later."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some more of the answer. `kind` is text, thinking or tool_args."""

    text: str
    kind: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """What was said so far counts no longer: this try failed, and `model` is asked next, after `delay` seconds."""

    error: Failure
    delay: float
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """The whole answer. Always the last thing that a model yields. `model` is who gave it, by its provider's name."""

    parts: tuple[AnyPart, ...]
    usage: Usage
    stop: Stop = "end"
    model: str = ""


Said = Piece | Retry | ModelResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """What a model can be given. `media` has the media types that it takes as they are, `image/*` for all of a kind."""

    media: frozenset[str] = frozenset()
    tools: bool = True
    output: bool = True
    context_tokens: int | None = None

    def takes(self, media_type: str) -> bool:
        return media_type in self.media or f"{media_type.partition('/')[0]}/*" in self.media


class Patience(Protocol):
    """How often a model is asked, and how many seconds are waited in between: twice as long each time."""

    @property
    def tries(self) -> int: ...
    @property
    def first_delay(self) -> float: ...
    @property
    def longest_delay(self) -> float: ...


class Model(Protocol):
    """Something that answers. `ask` raises `ModelError`; closing the iterator stops the answer at its source."""

    name: str
    """With its provider: `openai:gpt-5-mini`."""

    @property
    def takes(self) -> Takes: ...

    def ask(self, request: ModelRequest) -> AsyncGenerator[Said, None]: ...

    def at_most(self, request: ModelRequest) -> Usage:
        """What the call can use at the most, for a budget: counted input, and `max_tokens` or all it can say."""


class Models(Protocol):
    """Names to models."""

    def resolve(self, name: str, *, fallback: Sequence[str] = (), patience: Patience | None = None) -> Model:
        """The model of that name or alias. Raises `UnknownModel` or `KeyMissing` before anything is asked.

        `fallback` are asked instead when it gives no answer, and `patience` says how often it is asked; where they are
        left out, the settings hold.
        """
