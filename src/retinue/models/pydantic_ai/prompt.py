"""A request in the words of Pydantic AI: its messages, its settings and its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2s
from typing import Any, cast

import msgspec
from pydantic_ai import messages as m
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings as Settings
from pydantic_ai.tools import ToolDefinition

from retinue.core.messages import AnyPart, Data, File, Message, Part, Text, Thinking, ToolCall, ToolResult
from retinue.models.sayable import Unsayable, spelled
from retinue.ports.models import ModelRequest, ModelSettings, OutputSpec, ToolSpec

SAMPLING = ("temperature", "top_p")
KINDS = ("image/", "audio/", "video/", "application/pdf")
"""Files that there is a word for."""
EVERYWHERE: Mapping[str, object] = {"framing_announcement": "never"}
"""The package would explain to some models how it marks words of its own, of which there are none."""
CLOSES = ("anthropic", "bedrock")
"""They close every object of a schema: one whose names are free would have to stay empty."""
ALWAYS: Mapping[str, Mapping[str, object]] = {
    "openai-responses": {"openai_store": False},
    "azure-responses": {"openai_store": False},
}
"""The history is ours: a server that would keep it, is told not to."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model class of the package is given."""

    messages: list[m.ModelMessage]
    settings: Settings
    parameters: ModelRequestParameters


def prompt_of(request: ModelRequest, provider: str, model: Model[Any]) -> Prompt:
    """Raises `Unsayable` where the provider has no words for it."""
    try:
        return Prompt(
            messages=list(_Messages(request, provider, model).all()),
            settings=_settings(request, provider, model),
            parameters=_parameters(request, model),
        )
    except UnicodeEncodeError:
        raise Unsayable("a text of it has characters that Unicode does not know") from None
    except TypeError as error:
        raise Unsayable(f"it cannot be written as JSON: {error}") from None


# What is asked for


def _parameters(request: ModelRequest, model: Model[Any]) -> ModelRequestParameters:
    output = request.output
    return ModelRequestParameters(
        function_tools=[_tool(tool) for tool in request.tools],
        output_mode=_mode(output, request.tools, model) if output else "text",
        output_object=OutputObjectDefinition(json_schema=_plain(output.schema), name=spelled(output.name))
        if output
        else None,
        instruction_parts=[m.InstructionPart(content=request.instructions)] if request.instructions else None,
    )


def _tool(tool: ToolSpec) -> ToolDefinition:
    schema = {"type": "object", "properties": {}, **_plain(tool.schema)}
    return ToolDefinition(name=spelled(tool.name), description=tool.description, parameters_json_schema=schema)


def _plain(schema: Mapping[str, object]) -> dict[str, Any]:
    """A copy: the package adapts schemas to what each provider understands."""
    return cast(dict[str, Any], msgspec.to_builtins(schema))


def _mode(output: OutputSpec, tools: Sequence[ToolSpec], model: Model[Any]) -> Any:
    """By the provider's own means; in words where it has none, or where they would bend the schema."""
    profile = cast(Mapping[str, object], model.profile)
    if not profile.get("supports_json_schema_output", False):
        return "prompted"
    if tools and model.system.startswith("google") and not profile.get("google_supports_tool_combination", False):
        return "prompted"
    return "prompted" if model.system in CLOSES and _is_open(output.schema) else "native"


def _is_open(schema: object) -> bool:
    """Whether there is an object in it that permits other names than its own."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" and not schema.get("properties") and "$ref" not in schema:
            return True
        return schema.get("additionalProperties", False) is not False or any(map(_is_open, schema.values()))
    return any(map(_is_open, schema)) if isinstance(schema, list | tuple) else False


# How it is asked


def _settings(request: ModelRequest, provider: str, model: Model[Any]) -> Settings:
    wanted = request.settings
    ignored = model.unsupported_settings | set(_profile(model).get("openai_unsupported_model_settings") or ())
    said: dict[str, object] = {**EVERYWHERE, **ALWAYS.get(provider, {})}
    if not hasattr(getattr(model, "client", None), "max_retries") and "max_retries" not in ignored:
        said["max_retries"] = 0
    for name in ("max_tokens", "seed", *(() if _samples_itself(wanted, model) else SAMPLING)):
        if (value := getattr(wanted, name)) is not None:
            said[name] = value
    if wanted.stop:
        _must("stop_sequences", "stop", ignored)
        said["stop_sequences"] = list(wanted.stop)
    if wanted.thinking:
        said["thinking"] = False if wanted.thinking == "off" else wanted.thinking
    if wanted.tool_choice and request.tools:
        choice = wanted.tool_choice
        said["tool_choice"] = choice if choice in ("auto", "required", "none") else [spelled(choice)]
    if wanted.extra:
        _must("extra_body", "extra", ignored)
        said["extra_body"] = dict(wanted.extra)
    return cast(Settings, said)


def _must(setting: str, ours: str, ignored: Any) -> None:
    """A setting that changes what is answered is not left out in silence."""
    if setting in ignored:
        raise Unsayable(f"it has no way to be told `{ours}`")


def _samples_itself(wanted: ModelSettings, model: Model[Any]) -> bool:
    """Models that think choose for themselves; the package would leave such settings out too, and complain."""
    profile = _profile(model)
    if profile.get("anthropic_disallows_sampling_settings"):
        return True
    if not profile.get("openai_supports_reasoning"):
        return False
    efforts = profile.get("openai_reasoning_efforts")
    stops = "none" in efforts if efforts is not None else profile.get("openai_supports_reasoning_effort_none", False)
    if wanted.thinking:
        return not stops or wanted.thinking != "off" or bool(profile.get("thinking_always_enabled"))
    return not stops or bool(profile.get("thinking_enabled_by_default"))


def _profile(model: Model[Any]) -> dict[str, Any]:
    return cast(dict[str, Any], model.profile)


# What was said


class _Messages:
    """A transcript as the package's messages. What one side says in a row is one message."""

    def __init__(self, request: ModelRequest, provider: str, model: Model[Any]) -> None:
        self._request, self._provider, self._model = request, provider, model
        self._id_length = _profile(model).get("tool_call_id_length")
        self._tools: dict[str, str] = {}
        """Who was called, by the call's id: results go back under the name too."""

    def all(self) -> Iterator[m.ModelMessage]:
        asked: list[Any] = []
        for message in self._request.messages:
            if message.role != "model":
                asked += self._asked(message)
                continue
            if asked:
                yield m.ModelRequest(parts=asked)
                asked = []
            if parts := list(self._answered(message)):
                yield self._response(parts)
        if asked:
            yield m.ModelRequest(parts=asked)

    def _response(self, parts: list[Any]) -> m.ModelResponse:
        return m.ModelResponse(
            parts=parts,
            provider_name=self._model.system,
            provider_url=self._model.base_url,
            canonical_system=self._model.canonical_system,
        )

    def _asked(self, message: Message) -> Iterator[m.ModelRequestPart]:
        """Results first: they belong to the calls before them."""
        more: list[AnyPart] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                yield self._result(part)
            else:
                more.append(part)
        content = [each for part in more for each in self._content(part)]
        if content:
            alone = content[0] if len(content) == 1 else None
            yield m.UserPromptPart(content=alone if isinstance(alone, str) else content)

    def _content(self, part: AnyPart) -> Iterator[m.UserContent]:
        match part:
            case Text(text=text):
                if text:
                    yield _sound(text)
            case Data(data=data):
                yield _json(data)
            case File():
                yield self._file(part)

    def _file(self, file: File) -> m.UserContent:
        kind = file.media_type.partition(";")[0].strip().lower()
        if file.uri not in self._request.files:
            raise Unsayable(f"the content of the file {file.name or kind} is not there")
        content = self._request.files[file.uri]
        if kind.startswith("text/"):
            return content.decode(errors="replace")
        if not kind.startswith(KINDS):
            raise Unsayable(f"it has no way to take {file.name or 'a file'} ({kind})")
        return m.BinaryContent(data=content, media_type=kind)

    def _result(self, part: ToolResult) -> m.ToolReturnPart:
        files = [self._file(file) for file in part.files]
        result = _sound(part.result) if isinstance(part.result, str) else msgspec.json.decode(_json(part.result))
        return m.ToolReturnPart(
            tool_name=self._tools.get(part.call_id, "unknown"),
            content=cast(Any, [result, *files] if files else result),
            tool_call_id=self._id(part.call_id),
            outcome="success" if part.ok else "failed",
        )

    def _answered(self, message: Message) -> Iterator[Any]:
        for part in message.parts:
            kept = self._kept(part)
            match part:
                case Text(text=text):
                    if text:
                        yield m.TextPart(content=_sound(text), **kept)
                case Data(data=data):
                    yield m.TextPart(content=_json(data), **kept)
                case File(name=name, media_type=kind):
                    yield m.TextPart(content=f"[{name or kind}]")
                case Thinking(text=text):
                    if kept:
                        yield m.ThinkingPart(content=text, **kept)
                case ToolCall():
                    yield self._call(part, kept)

    def _call(self, part: ToolCall, kept: dict[str, Any]) -> m.ToolCallPart:
        self._tools[part.call_id] = spelled(part.tool)
        # Formats demand an object, also where the model gave none.
        arguments = part.arguments if isinstance(part.arguments, dict) else {"arguments": part.arguments}
        return m.ToolCallPart(tool_name=spelled(part.tool), args=arguments, tool_call_id=self._id(part.call_id), **kept)

    def _kept(self, part: Part) -> dict[str, Any]:
        """What this provider gave with a part, and wants back; nobody else gets it."""
        kept = part.provider or {}
        if kept.get("name") != self._provider:
            return {}
        given = {name: kept[name] for name in ("id", "signature") if kept.get(name)}
        details = {"provider_details": kept["details"]} if kept.get("details") else {}
        return {"provider_name": self._model.system, **given, **details}

    def _id(self, call_id: str) -> str:
        """Ids of other providers may have characters that this one does not permit, or be too long."""
        if self._id_length and not (call_id.isalnum() and len(call_id) == self._id_length):
            return blake2s(call_id.encode(errors="replace"), digest_size=32).hexdigest()[: self._id_length]
        return spelled(call_id)


def _sound(text: str) -> str:
    """The text, if it can be sent. Not every package looks: some send half a character, which only a server notices."""
    if not text.isascii():
        text.encode()
    return text


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
