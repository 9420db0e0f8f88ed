"""A request in the words of OpenAI's chat completions, encoded once."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping

import msgspec

from retinue.core.messages import AnyPart, Data, File, Message, Part, Text, Thinking, ToolCall, ToolResult
from retinue.models.sayable import Unsayable, spelled
from retinue.ports.models import ModelRequest, ModelSettings, OutputSpec, ToolSpec

AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
DOCUMENTS = ("application/pdf",)
_encoder = msgspec.json.Encoder()
_newer = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d))")
_first_to_think = re.compile(r"(?:.*/)?gpt-5(?:-(?:mini|nano)|-\d{4}|$)")

Json = dict[str, object]


def prompt(request: ModelRequest, model: str, provider: str) -> bytes:
    """The body of the request."""
    try:
        return _encoder.encode(_body(request, model, provider))
    except UnicodeEncodeError:
        raise Unsayable("a text of it has characters that Unicode does not know") from None
    except TypeError as error:
        raise Unsayable(f"it cannot be written as JSON: {error}") from None


def _body(request: ModelRequest, model: str, provider: str) -> Json:
    """What `extra` says goes over everything else; None takes a field away."""
    body: Json = {
        "model": model,
        "messages": _messages(request, provider),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.output:
        body["response_format"] = {"type": "json_schema", "json_schema": _schema(request.output)}
    _settings(body, request.settings, model)
    for name, value in request.settings.extra.items():
        if value is None:
            body.pop(name, None)
        else:
            body[name] = value
    return body


def _settings(body: Json, settings: ModelSettings, model: str) -> None:
    if settings.max_tokens is not None:
        # OpenAI's newer models refuse the old name, and many other servers do not know the new one.
        body["max_completion_tokens" if _newer.match(model) else "max_tokens"] = settings.max_tokens
    for name in ("temperature", "top_p", "seed"):
        if (value := getattr(settings, name)) is not None:
            body[name] = value
    if settings.stop:
        body["stop"] = settings.stop
    if settings.thinking:
        body["reasoning_effort"] = _effort(settings.thinking, model)
    if settings.tool_choice and "tools" in body:
        body["tool_choice"] = _choice(settings.tool_choice)


def _effort(thinking: str, model: str) -> str:
    if thinking != "off":
        return thinking
    return "minimal" if _first_to_think.match(model) else "none"


def _choice(choice: str) -> object:
    if choice in ("auto", "required", "none"):
        return choice
    return {"type": "function", "function": {"name": spelled(choice)}}


def _tool(tool: ToolSpec) -> Json:
    function: Json = {"name": spelled(tool.name), "parameters": tool.schema}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _schema(output: OutputSpec) -> Json:
    return {"name": spelled(output.name), "schema": output.schema, "strict": _strict(output.schema)}


def _strict(schema: object) -> bool:
    """Whether the format can hold the model to it: every object names all its properties and permits no others."""
    if isinstance(schema, Mapping):
        if "properties" in schema or schema.get("type") == "object":
            properties = schema.get("properties")
            names = set(properties) if isinstance(properties, Mapping) else set()
            if schema.get("additionalProperties") is not False or names != set(schema.get("required", ())):
                return False
        return all(map(_strict, schema.values()))
    return all(map(_strict, schema)) if isinstance(schema, list | tuple) else True


def _messages(request: ModelRequest, provider: str) -> list[Json]:
    said: list[Json] = []
    if request.instructions:
        said.append({"role": "system", "content": request.instructions})
    # What a model thought is only of use to it while it goes on with the same question.
    last_question = max((n for n, message in enumerate(request.messages) if message.role == "user"), default=-1)
    for n, message in enumerate(request.messages):
        match message.role:
            case "user":
                said.append({"role": "user", "content": _content(message.parts, request.files)})
            case "model":
                said.append(_answer(message, provider if n > last_question else None))
            case "tool":
                said += _results(message, request.files)
    return said


def _answer(message: Message, thinker: str | None) -> Json:
    if len(message.parts) == 1 and isinstance(message.parts[0], Text):
        return {"role": "assistant", "content": message.parts[0].text}
    text = "".join(_text(part) for part in message.parts if isinstance(part, Text | Data | File))
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    said: Json = {"role": "assistant", "content": text if text or not calls else None}
    if calls:
        said["tool_calls"] = calls
    for part in message.parts:
        if isinstance(part, Thinking) and (name := _thought_field(part, thinker)):
            said[name] = f"{said.get(name, '')}{part.text}"
    return said


def _thought_field(part: Part, thinker: str | None) -> str | None:
    """The field in which this provider gave the thought, and wants it back; nobody else gets it."""
    kept = part.provider or {}
    name = kept.get("field")
    return name if thinker and kept.get("name") == thinker and isinstance(name, str) else None


def _call(part: ToolCall) -> Json:
    # Servers that put calls into a template expect an object, also where the model gave none.
    arguments = part.arguments if isinstance(part.arguments, dict) else {"arguments": part.arguments}
    function = {"name": spelled(part.tool), "arguments": _encoder.encode(arguments).decode()}
    return {"id": part.call_id, "type": "function", "function": function}


def _results(message: Message, files: Mapping[str, bytes]) -> list[Json]:
    """A message for each result, and what else there is as one of the user, since results are text only."""
    said: list[Json] = []
    more: list[AnyPart] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            said.append({"role": "tool", "tool_call_id": part.call_id, "content": _result(part)})
            more += part.files
        else:
            more.append(part)
    if more:
        said.append({"role": "user", "content": _content(tuple(more), files)})
    return said


def _result(part: ToolResult) -> str:
    text = part.result if isinstance(part.result, str) else _encoder.encode(part.result).decode()
    return text if part.ok else f"Error: {text}"


def _content(parts: tuple[AnyPart, ...], files: Mapping[str, bytes]) -> object:
    """One text where there is only text, as every server understands it; otherwise all parts in their order."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    texts: list[str] = []
    content: list[Json] = []
    for part in parts:
        if isinstance(part, File):
            if texts:
                content.append({"type": "text", "text": "\n\n".join(texts)})
                texts = []
            content.append(_file(part, files))
        elif text := _text(part):
            texts.append(text)
    if not content:
        return "\n\n".join(texts)
    if texts:
        content.append({"type": "text", "text": "\n\n".join(texts)})
    return content


def _text(part: AnyPart) -> str:
    match part:
        case Text(text=text):
            return text
        case Data(data=data):
            return _encoder.encode(data).decode()
        case File(name=name, media_type=media_type):
            return f"[{name or media_type}]"
        case _:
            return ""


def _file(part: File, files: Mapping[str, bytes]) -> Json:
    name, kind = part.name or part.media_type, part.media_type.partition(";")[0].strip().lower()
    if part.uri not in files:
        raise Unsayable(f"the content of the file {name} is not there")
    content = files[part.uri]
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": _data_url(kind, content)}}
    if kind in AUDIO:
        return {"type": "input_audio", "input_audio": {"data": b64encode(content).decode(), "format": AUDIO[kind]}}
    if kind in DOCUMENTS:
        return {"type": "file", "file": {"filename": part.name or "file.pdf", "file_data": _data_url(kind, content)}}
    if kind.startswith("text/"):
        return {"type": "text", "text": content.decode(errors="replace")}
    raise Unsayable(f"it has no way to take {name} ({part.media_type})")


def _data_url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"
