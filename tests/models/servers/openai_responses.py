"""OpenAI's Responses: https://platform.openai.com/docs/api-reference/responses-streaming."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from tests.models.server import Reply
from tests.models.servers.openai_chat import OpenAIChat, _file
from tests.models.servers.script import Calls, Heard, Json, Says, Script, Thinks, Used, all_of, checked, sse

REASONS = {"length": "max_output_tokens", "filtered": "content_filter"}


class OpenAIResponses:
    ping = b": ping\n\n"
    variable, path, base = "OPENAI_BASE_URL", "/v1/responses", "/v1"
    key, model, provider = "OPENAI_API_KEY", "gpt-5.1", "openai-responses"

    def stream(self, script: Script) -> list[bytes]:
        items: list[Json] = []
        events: list[Json] = [{"type": "response.created", "response": _response("in_progress")}]
        for at, part in enumerate(script.parts):
            events += _item(at, part, items)
        status = "incomplete" if script.stop in REASONS else "completed"
        why = {"reason": REASONS[script.stop]} if script.stop in REASONS else None
        whole = _response(status, output=items, incomplete_details=why, usage=_usage(script.used))
        events.append({"type": f"response.{status}", "response": whole})
        numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
        return sse(*all_of(ResponseStreamEvent, numbered), named=True)

    def trouble(self, status: int, words: str, **headers: str) -> Reply:
        return OpenAIChat("openai").trouble(status, words, **headers)

    def interrupted(self, words: str) -> bytes:
        error = {"type": "error", "code": "server_error", "message": words, "param": None, "sequence_number": 9}
        return sse(checked(ResponseStreamEvent, error), named=True)[0]

    def hear(self, body: Json) -> Heard:
        checked(ResponseCreateParamsStreaming, body)
        heard = Heard(system=body.get("instructions", ""))
        for item in body["input"]:
            heard.turns += _heard(item)
        for tool in body.get("tools", ()):
            heard.tools[tool["name"]] = tool["parameters"]
        if given := body.get("text", {}).get("format"):
            heard.output = given["schema"]
        named = {"max_output_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
        named |= {"tool_choice": "tool_choice", "store": "store", "reasoning": "reasoning"}
        heard.settings = {ours: body[theirs] for theirs, ours in named.items() if theirs in body}
        if isinstance(choice := heard.settings.get("tool_choice"), dict):
            heard.settings["tool_choice"] = choice["name"]
        return heard


def _response(status: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1893456000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-5.1-2025-11-13",
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        **more,
    }


def _usage(used: Used) -> Json:
    return {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": 0},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": used.thought},
        "total_tokens": used.input + used.output,
    }


def _item(at: int, part: Thinks | Says | Calls, items: list[Json]) -> Iterator[Json]:
    """The events of one item of the output, which is added to the others."""
    match part:
        case Thinks():
            yield from _reasoning(at, part, items)
        case Says():
            yield from _message(at, part, items)
        case Calls():
            yield from _call(at, part, items)


def _reasoning(at: int, part: Thinks, items: list[Json]) -> Iterator[Json]:
    id, text = f"rs_{at}", "".join(part.pieces)
    where = {"item_id": id, "output_index": at, "summary_index": 0}
    yield _added(at, {"id": id, "type": "reasoning", "summary": []})
    yield {**where, "type": "response.reasoning_summary_part.added", "part": {"type": "summary_text", "text": ""}}
    for piece in part.pieces:
        yield {**where, "type": "response.reasoning_summary_text.delta", "delta": piece}
    yield {**where, "type": "response.reasoning_summary_text.done", "text": text}
    summary = {"type": "summary_text", "text": text}
    yield {**where, "type": "response.reasoning_summary_part.done", "part": summary}
    whole = {"id": id, "type": "reasoning", "summary": [summary], "encrypted_content": part.signature}
    yield _done(at, whole, items)


def _message(at: int, part: Says, items: list[Json]) -> Iterator[Json]:
    id, text = f"msg_{at}", "".join(part.pieces)
    where = {"item_id": id, "output_index": at, "content_index": 0}
    message = {"id": id, "type": "message", "role": "assistant"}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield _added(at, {**message, "status": "in_progress", "content": []})
    yield {**where, "type": "response.content_part.added", "part": empty}
    for piece in part.pieces:
        yield {**where, "type": "response.output_text.delta", "delta": piece, "logprobs": []}
    yield {**where, "type": "response.output_text.done", "text": text, "logprobs": []}
    yield {**where, "type": "response.content_part.done", "part": {**empty, "text": text}}
    yield _done(at, {**message, "status": "completed", "content": [{**empty, "text": text}]}, items)


def _call(at: int, part: Calls, items: list[Json]) -> Iterator[Json]:
    id = f"fc_{at}"
    where = {"item_id": id, "output_index": at}
    call = {"id": id, "type": "function_call", "call_id": part.id, "name": part.name}
    yield _added(at, {**call, "arguments": "", "status": "in_progress"})
    for piece in part.pieces:
        yield {**where, "type": "response.function_call_arguments.delta", "delta": piece}
    yield {
        **where,
        "type": "response.function_call_arguments.done",
        "arguments": part.arguments,
        "name": part.name,
    }
    yield _done(at, {**call, "arguments": part.arguments, "status": "completed"}, items)


def _added(at: int, item: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": at, "item": item}


def _done(at: int, item: Json, items: list[Json]) -> Json:
    items.append(item)
    return {"type": "response.output_item.done", "output_index": at, "item": item}


def _heard(item: Json) -> Iterator[tuple[str, tuple[Any, ...]]]:
    match item.get("type", "message"):
        case "reasoning":
            text = "".join(part["text"] for part in item["summary"])
            yield ("model", ("thought", text, item.get("encrypted_content") or ""))
        case "function_call":
            yield ("model", ("call", item["call_id"], item["name"], json.loads(item["arguments"])))
        case "function_call_output":
            yield from _output(item)
        case "message":
            who = "model" if item["role"] == "assistant" else "user"
            yield from ((who, said) for said in _content(item["content"]))


def _output(item: Json) -> Iterator[tuple[str, tuple[Any, ...]]]:
    said = item["output"]
    parts = list(_content(said))
    texts = [part[1] for part in parts if part[0] == "text"]
    yield ("tool", ("result", item["call_id"], "\n".join(texts)))
    yield from (("tool", part) for part in parts if part[0] != "text")


def _content(content: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(content, str):
        yield ("text", content)
        return
    for part in content:
        match part["type"]:
            case "input_text" | "output_text":
                yield ("text", part["text"])
            case "input_image":
                yield _file("image", part["image_url"])
            case "input_file":
                yield _file("document", part["file_data"])
