"""OpenAI's chat completions: https://platform.openai.com/docs/api-reference/chat-streaming."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from tests.models.server import Reply, chunk, failing
from tests.models.servers.script import Calls, Heard, Json, Says, Script, Thinks, all_of, checked, sse

STOPS = {"end": "stop", "length": "length", "filtered": "content_filter", "calls": "tool_calls"}
KINDS = {400: "invalid_request_error", 401: "invalid_request_error", 429: "rate_limit_error", 500: "server_error"}
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class OpenAIChat:
    ping = b": ping\n\n"
    variable, path, base = "OPENAI_BASE_URL", "/v1/chat/completions", "/v1"
    key, model = "OPENAI_API_KEY", "gpt-4o"

    def __init__(self, provider: str) -> None:
        self.provider = provider

    def stream(self, script: Script) -> list[bytes]:
        used = script.used
        usage = {
            "prompt_tokens": used.input,
            "completion_tokens": used.output,
            "total_tokens": used.input + used.output,
            "prompt_tokens_details": {"cached_tokens": used.cached},
            "completion_tokens_details": {"reasoning_tokens": used.thought},
        }
        chunks = [chunk({"role": "assistant", "content": ""}), *self._chunks(script)]
        chunks += [chunk({}, STOPS[script.why]), chunk(usage=usage)]
        return [*sse(*all_of(ChatCompletionChunk, chunks)), b"data: [DONE]\n\n"]

    def _chunks(self, script: Script) -> Iterator[Json]:
        calls = [part for part in script.parts if isinstance(part, Calls)]
        for part in script.parts:
            match part:
                case Thinks(pieces=pieces):  # not OpenAI's own, but what servers of its format say
                    yield from (chunk({"reasoning_content": piece}) for piece in pieces)
                case Says(pieces=pieces):
                    yield from (chunk({"content": piece}) for piece in pieces)
                case Calls(id=id, name=name, pieces=pieces):
                    at = calls.index(part)
                    head = {"index": at, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
                    yield chunk({"tool_calls": [head]})
                    for piece in pieces:
                        yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})

    def trouble(self, status: int, words: str, **headers: str) -> Reply:
        error = {"message": words, "type": KINDS.get(status), "param": None, "code": CODES.get(status)}
        return failing(status, {"error": error}, **headers)

    def interrupted(self, words: str) -> bytes:
        return sse({"error": {"message": words, "type": "server_error", "param": None, "code": None}})[0]

    def hear(self, body: Json) -> Heard:
        checked(CompletionCreateParamsStreaming, body)
        heard = Heard()
        for message in body["messages"]:
            self._message(message, heard)
        for tool in body.get("tools", ()):
            heard.tools[tool["function"]["name"]] = tool["function"]["parameters"]
        if given := body.get("response_format"):
            heard.output = given["json_schema"]["schema"]
        named = {"max_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "stop": "stop"}
        named |= {"temperature": "temperature", "top_p": "top_p", "tool_choice": "tool_choice"}
        heard.settings = {ours: body[theirs] for theirs, ours in named.items() if theirs in body}
        if isinstance(choice := heard.settings.get("tool_choice"), dict):
            heard.settings["tool_choice"] = choice["function"]["name"]
        return heard

    def _message(self, message: Json, heard: Heard) -> None:
        match message["role"]:
            case "system" | "developer":
                heard.system = message["content"]
            case "user":
                heard.turns += [("user", said) for said in _content(message["content"])]
            case "tool":
                heard.turns.append(("tool", ("result", message["tool_call_id"], message["content"])))
            case "assistant":
                if message.get("reasoning_content"):
                    heard.turns.append(("model", ("thought", message["reasoning_content"], "")))
                if message.get("content"):
                    heard.turns += [("model", said) for said in _content(message["content"])]
                for call in message.get("tool_calls", ()):
                    arguments = json.loads(call["function"]["arguments"])
                    heard.turns.append(("model", ("call", call["id"], call["function"]["name"], arguments)))


def _content(content: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(content, str):
        yield ("text", content)
        return
    for part in content:
        match part["type"]:
            case "text":
                yield ("text", part["text"])
            case "image_url":
                yield _file("image", part["image_url"]["url"])
            case "file":
                yield _file("document", part["file"]["file_data"])


def _file(kind: str, url: str) -> tuple[Any, ...]:
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    return (kind, media_type, b64decode(data))
