"""Anthropic's messages: https://platform.claude.com/docs/en/build-with-claude/streaming, and …/api/errors."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from anthropic.types.beta import BetaRawMessageStreamEvent
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming

from tests.models.server import Reply, failing
from tests.models.servers.script import Calls, Heard, Json, Says, Script, Thinks, all_of, checked, sse

STOPS = {"end": "end_turn", "length": "max_tokens", "filtered": "refusal", "calls": "tool_use"}
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class Anthropic:
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    variable, path, base = "ANTHROPIC_BASE_URL", "/v1/messages", ""
    key, model, provider = "ANTHROPIC_API_KEY", "claude-sonnet-4-6", "anthropic"

    def stream(self, script: Script) -> list[bytes]:
        used = script.used
        usage = {
            "input_tokens": used.input - used.cached,
            "cache_read_input_tokens": used.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": 1,
        }
        message: Json = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        counted = {"output_tokens": used.output, "output_tokens_details": {"thinking_tokens": used.thought}}
        delta = {"stop_reason": STOPS[script.why], "stop_sequence": None}
        events: list[Json] = [{"type": "message_start", "message": message}]
        for at, part in enumerate(script.parts):
            events += [{"index": at, **event} for event in _block(part)]
        events += [{"type": "message_delta", "delta": delta, "usage": counted}, {"type": "message_stop"}]
        first, *others = sse(*all_of(BetaRawMessageStreamEvent, events), named=True)
        return [first, self.ping, *others]

    def trouble(self, status: int, words: str, **headers: str) -> Reply:
        error = {"type": KINDS.get(status, "api_error"), "message": words}
        return failing(status, {"type": "error", "error": error, "request_id": "req_1"}, **headers)

    def interrupted(self, words: str) -> bytes:
        return sse({"type": "error", "error": {"type": "overloaded_error", "message": words}}, named=True)[0]

    def hear(self, body: Json) -> Heard:
        checked(MessageCreateParamsStreaming, body)
        heard = Heard()
        system = body.get("system", "")
        heard.system = system if isinstance(system, str) else "\n\n".join(part["text"] for part in system)
        for message in body["messages"]:
            who = "model" if message["role"] == "assistant" else "user"
            heard.turns += [each for block in message["content"] for each in _heard(who, block)]
        for tool in body.get("tools", ()):
            heard.tools[tool["name"]] = tool["input_schema"]
        heard.output = body.get("output_config", {}).get("format", {}).get("schema")
        named = {"max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
        named |= {"stop_sequences": "stop", "tool_choice": "tool_choice", "thinking": "thinking"}
        heard.settings = {ours: body[theirs] for theirs, ours in named.items() if theirs in body}
        if choice := heard.settings.get("tool_choice"):
            heard.settings["tool_choice"] = choice.get("name", {"any": "required"}.get(choice["type"], choice["type"]))
        return heard


def _block(part: Thinks | Says | Calls) -> Iterator[Json]:
    match part:
        case Thinks(pieces=pieces, signature=signature):
            block: Json = {"type": "thinking", "thinking": "", "signature": ""}
            deltas: list[Json] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            deltas.append({"type": "signature_delta", "signature": signature})
        case Says(pieces=pieces):
            block = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        case Calls(id=id, name=name, pieces=pieces):
            block = {"type": "tool_use", "id": id, "name": name, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
    yield {"type": "content_block_start", "content_block": block}
    yield from ({"type": "content_block_delta", "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop"}


def _heard(who: str, block: Json) -> Iterator[tuple[str, tuple[Any, ...]]]:
    match block["type"]:
        case "tool_result":
            parts = list(_content(block["content"]))
            said = "\n".join(part[1] for part in parts if part[0] == "text")
            mark = ("error",) if block["is_error"] else ()
            yield ("tool", ("result", block["tool_use_id"], said, *mark))
            yield from (("tool", part) for part in parts if part[0] != "text")
        case "tool_use":
            yield (who, ("call", block["id"], block["name"], block["input"]))
        case "thinking":
            yield (who, ("thought", block["thinking"], block["signature"]))
        case "redacted_thinking":
            yield (who, ("thought", "", block["data"]))
        case _:
            yield from ((who, said) for said in _content([block]))


def _content(content: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(content, str):
        yield ("text", content)
        return
    for block in content:
        if block["type"] == "text":
            yield ("text", block["text"])
        else:
            source = block["source"]
            yield (block["type"], source["media_type"], b64decode(source["data"]))
