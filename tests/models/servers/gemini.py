"""Gemini's generateContent: https://ai.google.dev/api/generate-content, and …/gemini-api/docs/thought-signatures."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from google.genai import types

from tests.models.server import Reply, failing
from tests.models.servers.script import Calls, Heard, Json, Says, Script, Thinks, all_of, sse

STOPS = {"end": "STOP", "length": "MAX_TOKENS", "filtered": "SAFETY", "calls": "STOP"}
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
CHOICES = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
ASKED = {"contents", "systemInstruction", "generationConfig", "tools", "toolConfig", "safetySettings", "cachedContent"}


class Gemini:
    ping = b'data: {"usageMetadata": {"promptTokenCount": 100}, "responseId": "response-1"}\n\n'
    variable, base = "GOOGLE_GEMINI_BASE_URL", ""
    key, provider = "GEMINI_API_KEY", "google"

    def __init__(self, model: str = "gemini-2.5-flash") -> None:
        self.model = model
        self.path = f"/v1beta/models/{model}:streamGenerateContent"

    def stream(self, script: Script) -> list[bytes]:
        parts = [part for said in script.parts for part in _parts(said)]
        if any(isinstance(said, Thinks) for said in script.parts):
            parts = _signed(parts, next(said for said in script.parts if isinstance(said, Thinks)).signature)
        chunks = [self._chunk(script, [part]) for part in parts]
        end = {**self._chunk(script, [{"text": ""}])}
        end["candidates"] = [{**end["candidates"][0], "finishReason": STOPS[script.why]}]
        return sse(*all_of(types.GenerateContentResponse, [*chunks, end]))

    def _chunk(self, script: Script, parts: list[Json]) -> dict[str, Any]:
        used = script.used
        usage = {
            "promptTokenCount": used.input,
            "cachedContentTokenCount": used.cached,
            "candidatesTokenCount": used.output - used.thought,
            "thoughtsTokenCount": used.thought,
            "totalTokenCount": used.input + used.output,
        }
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": self.model,
            "responseId": "response-1",
        }

    def trouble(self, status: int, words: str, **headers: str) -> Reply:
        status = 503 if status == 529 else status  # it has no such status, and says the same with this one
        error = {"code": status, "message": words, "status": STATUSES.get(status, "UNKNOWN")}
        return failing(status, {"error": error}, **headers)

    def interrupted(self, words: str) -> bytes:
        return sse({"error": {"code": 503, "message": words, "status": "UNAVAILABLE"}})[0]

    def hear(self, body: Json) -> Heard:
        """Google's servers take names in both spellings, and its package sends both; its types read both too."""
        assert set(body) <= ASKED, set(body) - ASKED
        heard = Heard()
        system = types.Content.model_validate(body.get("systemInstruction", {}))
        heard.system = "\n\n".join(part.text or "" for part in system.parts or ())
        for content in map(types.Content.model_validate, body["contents"]):
            who = "model" if content.role == "model" else "user"
            heard.turns += [each for part in content.parts or () for each in _heard(who, part)]
        for tool in map(types.Tool.model_validate, body.get("tools", ())):
            for function in tool.function_declarations or ():
                heard.tools[function.name or ""] = function.parameters_json_schema
        config = types.GenerationConfig.model_validate(body.get("generationConfig", {}))
        heard.output = config.response_json_schema
        named = {"max_output_tokens": "max_tokens", "stop_sequences": "stop", "thinking_config": "thinking"}
        given = config.model_dump(exclude_none=True, exclude={"response_json_schema", "response_mime_type"})
        given.pop("response_modalities")
        heard.settings = {named.get(name, name): value for name, value in given.items()}
        calling = types.ToolConfig.model_validate(body.get("toolConfig", {})).function_calling_config
        if calling and calling.mode:
            only = calling.allowed_function_names or (heard.names if len(heard.names) == 1 else [])
            heard.settings["tool_choice"] = only[0] if only else CHOICES[calling.mode]
        return heard


def _parts(said: Thinks | Says | Calls) -> Iterator[dict[str, Any]]:
    match said:
        case Thinks(pieces=pieces):
            yield from ({"text": piece, "thought": True} for piece in pieces)
        case Says(pieces=pieces):
            yield from ({"text": piece} for piece in pieces)
        case Calls(id=id, name=name, arguments=arguments):
            call = {"name": name, "args": json.loads(arguments)}
            yield {"functionCall": {"id": id, **call} if id else call}


def _signed(parts: list[dict[str, Any]], signature: str) -> list[dict[str, Any]]:
    """The first call has the signature of what was thought, or else the last part."""
    at = next((n for n, part in enumerate(parts) if "functionCall" in part), len(parts) - 1)
    return [{**part, "thoughtSignature": signature} if n == at else part for n, part in enumerate(parts)]


def _heard(who: str, part: types.Part) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if part.thought_signature:
        yield (who, ("thought", "", b64encode(part.thought_signature).decode()))
    if call := part.function_call:
        yield (who, ("call", call.id, call.name, call.args or {}))
    elif result := part.function_response:
        said = result.response or {}
        told = next(iter(said.values()), "")
        mark = ("error",) if "error" in said else ()
        yield ("tool", ("result", result.id, told if isinstance(told, str) else json.dumps(told), *mark))
        yield from (("tool", _file(inner.inline_data)) for inner in result.parts or ())
    elif part.inline_data:
        yield (who, _file(part.inline_data))
    elif part.text:
        yield (who, ("thought" if part.thought else "text", part.text))


def _file(blob: types.Blob | types.FunctionResponseBlob | None) -> tuple[Any, ...]:
    assert blob
    kind = "image" if (blob.mime_type or "").startswith("image/") else "document"
    return (kind, blob.mime_type, blob.data)
