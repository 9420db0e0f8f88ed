"""Answers as servers give them, the documented way and their own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk

from retinue.core.messages import Data, Text, Thinking, ToolCall
from retinue.core.outcome import Usage
from retinue.ports.models import OutputSpec, Piece, ToolSpec
from tests.models.server import USAGE, Reply, Server, answer, calling, chunk, saying, sse
from tests.models.wire.conftest import Wire, asks

CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":'}}
MORE = {"index": 0, "function": {"arguments": ' "moon"}'}}
CALLED = ToolCall(call_id="call_1", tool="look", arguments={"at": "moon"})


def function(name: str | None = None, arguments: object = None, **more: object) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


@pytest.mark.parametrize(
    "said",
    [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "a"}),
        chunk({"refusal": "no"}),
        calling(CALL, {**MORE, "index": 1}),
        chunk({}, "stop"),
        chunk(usage=USAGE),
    ],
)
def test_the_test_server_speaks_as_openai_documents_it(said: dict[str, Any]) -> None:
    read = ChatCompletionChunk.model_validate(said, strict=True)
    assert not read.model_extra
    assert not [choice.delta.model_extra for choice in read.choices if choice.delta.model_extra]


async def test_text_comes_in_pieces_and_then_whole(server: Server, wire: Wire) -> None:
    server.will(saying("Hello", " there", "!"))
    pieces, response = await wire.ask()
    assert "".join(piece.text for piece in pieces) == "Hello there!"
    assert {piece.kind for piece in pieces} == {"text"}
    assert response.parts == (Text(text="Hello there!"),)
    assert (response.stop, response.model) == ("end", "acme:served-1")
    assert response.usage == Usage(calls=1, input_tokens=7, output_tokens=3)


async def test_pieces_are_said_when_they_come(server: Server, wire: Wire) -> None:
    second = asyncio.Event()
    server.will(Reply([sse(chunk({"content": "first"})), second, saying(" second")]))
    said = wire.chat().ask(asks("hello"))
    assert await anext(said) == Piece("first")
    second.set()
    assert await anext(said) == Piece(" second")
    await said.aclose()


async def test_a_tool_call_is_put_together_from_its_pieces(server: Server, wire: Wire) -> None:
    server.will(answer({"tool_calls": [CALL]}, {"tool_calls": [MORE]}, finish="tool_calls"))
    pieces, response = await wire.ask()
    assert "".join(piece.text for piece in pieces if piece.kind == "tool_args") == '{"at": "moon"}'
    assert response.parts == (CALLED,)
    assert response.stop == "tool_calls"


async def test_parallel_calls_are_told_apart_by_their_index(server: Server, wire: Wire) -> None:
    other = {**CALL, "index": 1, "id": "call_2", "function": {"name": "hear", "arguments": ""}}
    deltas = [
        [CALL, other],
        [{"index": 1, "function": {"arguments": "[1"}}],
        [MORE],
        [{"index": 1, **function(arguments="]")}],
    ]
    server.will(answer({"content": "Let me see."}, *({"tool_calls": calls} for calls in deltas), finish="tool_calls"))
    _, response = await wire.ask()
    hear = ToolCall(call_id="call_2", tool="hear", arguments=[1])
    assert response.parts == (Text(text="Let me see."), CALLED, hear)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([[function("look", '{"at": "moon"}'), function("hear", "{}")]], id="whole, without index or id"),
        pytest.param([[function("look", '{"at": "moon"}')], [function("hear", "{}")]], id="one after the other"),
        pytest.param([[function("look", '{"at":')], [function(None, ' "moon"}')], [function("hear")]], id="in pieces"),
        pytest.param([[function("look", {"at": "moon"}), function("hear", {})]], id="arguments as an object"),
    ],
)
async def test_calls_without_index_and_id_are_told_apart(server: Server, wire: Wire, parts: list[Any]) -> None:
    server.will(answer(*({"tool_calls": calls} for calls in parts)))
    _, response = await wire.ask()
    look = ToolCall(call_id="", tool="look", arguments={"at": "moon"})
    assert response.parts == (look, ToolCall(call_id="", tool="hear", arguments={}))
    assert response.stop == "tool_calls"


@pytest.mark.parametrize("index", [{"index": 0}, {}])
async def test_calls_that_are_all_the_first_are_told_apart_by_their_ids(
    server: Server, wire: Wire, index: dict[str, int]
) -> None:
    calls = [function("look", "{", id="a"), function(None, "}", id="a"), function("look", "{}", id="b")]
    server.will(answer(*({"tool_calls": [{**call, **index}]} for call in calls)))
    _, response = await wire.ask()
    assert response.parts == tuple(ToolCall(call_id=id, tool="look", arguments={}) for id in "ab")


@pytest.mark.parametrize("arguments", ['{"at": "mo', "not json", '{"at": \x01}'])
async def test_arguments_that_are_no_json_are_kept_as_text(server: Server, wire: Wire, arguments: str) -> None:
    server.will(answer({"tool_calls": [function("look", arguments, index=0, id="a")]}))
    _, response = await wire.ask()
    assert response.parts == (ToolCall(call_id="a", tool="look", arguments=arguments),)


async def test_a_tool_with_an_odd_name_is_called_by_its_own_name(server: Server, wire: Wire) -> None:
    request = asks("hello", tools=(ToolSpec(name="mcp.server/look-up"), ToolSpec(name="plain")))
    await wire.ask(request)
    odd, plain = (tool["function"]["name"] for tool in server.asked[0]["tools"])
    server.will(answer({"tool_calls": [function(odd, "{}"), function(plain, "{}")]}))
    _, response = await wire.ask(request)
    assert [part.tool for part in response.parts if isinstance(part, ToolCall)] == ["mcp.server/look-up", "plain"]


@pytest.mark.parametrize(
    ("deltas", "field"),
    [
        ([{"reasoning_content": "hm"}, {"reasoning_content": "m"}], "reasoning_content"),
        ([{"reasoning": "hm"}, {"reasoning": "m", "content": ""}], "reasoning"),
        ([{"reasoning": "hmm", "reasoning_content": "hmm"}], "reasoning_content"),
    ],
)
async def test_thinking_is_told_from_text(server: Server, wire: Wire, deltas: list[Any], field: str) -> None:
    server.will(answer(*deltas, {"content": "Yes"}))
    pieces, response = await wire.ask()
    assert "".join(piece.text for piece in pieces if piece.kind == "thinking") == "hmm"
    assert response.parts == (Thinking(text="hmm", provider={"name": "acme", "field": field}), Text(text="Yes"))


async def test_fields_that_are_no_text_are_passed_over(server: Server, wire: Wire) -> None:
    odd = {"content": "Yes", "reasoning": {"a": 1}, "reasoning_content": [], "refusal": False}
    server.will(answer(odd, {"content": None, "reasoning": None}))
    _, response = await wire.ask()
    assert (response.parts, response.stop) == ((Text(text="Yes"),), "end")


async def test_a_heartbeat_says_nothing(server: Server, wire: Wire) -> None:
    server.will(b": wait\n\ndata: \n\ndata:\n\n" + saying("Yes"))
    _, response = await wire.ask()
    assert response.parts == (Text(text="Yes"),)


@pytest.mark.parametrize(
    ("texts", "thought", "text"),
    [
        (["<think>hm", "m</think>\n\nYes"], "hmm", "Yes"),
        (list("<think>hmm</think>\nYes"), "hmm", "Yes"),
        (["\n<think>", "hmm", "</think>", "\n", "Yes"], "hmm", "Yes"),
        (["<think>a </th b</think>Yes"], "a </th b", "Yes"),
        (["<think>cut off</thi"], "cut off</thi", ""),
        (["<", "think", "ing> is a tag"], "", "<thinking> is a tag"),
        (["<thi"], "", "<thi"),
        (["Yes <think>no</think>"], "", "Yes <think>no</think>"),
    ],
)
async def test_thinking_in_tags_counts_at_the_beginning_only(
    server: Server, wire: Wire, texts: list[str], thought: str, text: str
) -> None:
    server.will(saying(*texts))
    pieces, response = await wire.ask()
    assert "".join(piece.text for piece in pieces if piece.kind == "thinking") == thought
    assert "".join(piece.text for piece in pieces if piece.kind == "text") == text
    assert "".join(part.text for part in response.parts if isinstance(part, Thinking)) == thought
    assert "".join(part.text for part in response.parts if isinstance(part, Text)) == text


async def test_content_in_parts_is_read_too(server: Server, wire: Wire) -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]}
    server.will(answer({"content": [thinking]}, {"content": [{"type": "text", "text": "Yes"}]}))
    _, response = await wire.ask()
    assert response.parts == (Thinking(text="hmm"), Text(text="Yes"))


async def test_a_refusal_is_text_that_was_filtered(server: Server, wire: Wire) -> None:
    server.will(answer({"refusal": "I will "}, {"refusal": "not."}))
    _, response = await wire.ask()
    assert (response.parts, response.stop) == ((Text(text="I will not."),), "filtered")


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("content_filter", "filtered"),
        ("max_tokens", "length"),
        ("tool_calls", "end"),
        ("eos", "end"),
    ],
)
async def test_the_reason_to_stop_is_known(server: Server, wire: Wire, finish: str, stop: str) -> None:
    server.will(saying("a", finish=finish))
    _, response = await wire.ask()
    assert response.stop == stop


async def test_a_call_that_was_cut_off_is_no_reason_to_call(server: Server, wire: Wire) -> None:
    server.will(answer({"tool_calls": [CALL]}, finish="length"))
    _, response = await wire.ask()
    assert response.stop == "length"


SPEC = OutputSpec(schema={"type": "object", "properties": {"n": {"type": "integer"}}})


@pytest.mark.parametrize(
    ("text", "part"), [('{"n": 5}', Data(data={"n": 5})), ("{}", Data(data={})), ('{"n": ', Text(text='{"n": '))]
)
async def test_output_that_was_asked_for_is_a_value(server: Server, wire: Wire, text: str, part: object) -> None:
    server.will(saying(text))
    _, response = await wire.ask(asks("hello", output=SPEC))
    assert response.parts == (part,)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                **USAGE,
                "prompt_tokens_details": {"cached_tokens": 5, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(calls=1, input_tokens=7, output_tokens=3, cached_tokens=5, thinking_tokens=2),
        ),
        ({**USAGE, "prompt_tokens_details": None}, Usage(calls=1, input_tokens=7, output_tokens=3)),
        ({**USAGE, "prompt_cache_hit_tokens": 4}, Usage(calls=1, input_tokens=7, output_tokens=3, cached_tokens=4)),
        ({"prompt_tokens": 7.0, "completion_tokens": 3.0}, Usage(calls=1, input_tokens=7, output_tokens=3)),
        ({**USAGE, "cached_tokens": 4}, Usage(calls=1, input_tokens=7, output_tokens=3, cached_tokens=4)),
    ],
)
async def test_usage_is_what_the_provider_counted(
    server: Server, wire: Wire, usage: dict[str, Any], expected: Usage
) -> None:
    server.will(saying("a", usage=usage))
    _, response = await wire.ask()
    assert response.usage == expected


async def test_usage_beside_each_chunk_is_not_added_up(server: Server, wire: Wire) -> None:
    chunks = [chunk({"content": "a"}, usage={**USAGE, "completion_tokens": n}) for n in (1, 2)]
    server.will(sse(*chunks, chunk({}, "stop", usage={}), "[DONE]"))
    _, response = await wire.ask()
    assert response.usage == Usage(calls=1, input_tokens=7, output_tokens=2)


async def test_usage_in_another_place_is_found(server: Server, wire: Wire) -> None:
    server.will(sse(chunk({"content": "a"}), chunk({}, "stop", x_groq={"id": "x", "usage": USAGE}), "[DONE]"))
    _, response = await wire.ask()
    assert response.usage == Usage(calls=1, input_tokens=7, output_tokens=3)


async def test_usage_that_nobody_counted_is_estimated_and_marked(server: Server, wire: Wire) -> None:
    server.will(saying("twelve chars", usage=None))
    _, response = await wire.ask(asks("four" * 10))
    assert response.usage == Usage(calls=1, input_tokens=18, output_tokens=3, estimated=True)


@pytest.mark.parametrize("type_", ["application/json", "application/json; charset=utf-8"])
async def test_an_answer_in_one_piece_is_taken_too(server: Server, wire: Wire, type_: str) -> None:
    message = {"role": "assistant", "content": "Hello", "tool_calls": [CALL]}
    whole = {
        "model": "served-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    server.will(Reply([json.dumps(whole).encode()], content_type="application/json"))
    pieces, response = await wire.ask()
    assert Piece("Hello") in pieces
    assert response.parts == (Text(text="Hello"), ToolCall(call_id="call_1", tool="look", arguments='{"at":'))
    assert response.usage == Usage(calls=1, input_tokens=7, output_tokens=3)


@pytest.mark.parametrize(("served", "name"), [("org/model-1", "org/model-1"), ("/srv/a.gguf", "any"), (None, "any")])
async def test_who_answered_is_called_as_the_server_calls_it(
    server: Server, wire: Wire, served: str | None, name: str
) -> None:
    server.will(sse(chunk({"content": "a"}, "stop", model=served)))
    _, response = await wire.ask()
    assert response.model == f"acme:{name}"


async def test_an_empty_answer_with_a_reason_is_an_answer(server: Server, wire: Wire) -> None:
    server.will(answer())
    pieces, response = await wire.ask()
    assert (pieces, response.parts, response.stop) == ([], (), "end")


@pytest.mark.parametrize("end", [[chunk({}, "stop")], ["[DONE]"]])
async def test_a_reason_or_the_last_word_is_enough_of_an_end(server: Server, wire: Wire, end: list[Any]) -> None:
    server.will(sse(chunk({"content": "all"}), *end))
    _, response = await wire.ask()
    assert response.parts == (Text(text="all"),)


async def test_a_character_may_arrive_in_two_halves(server: Server, wire: Wire) -> None:
    body, go_on = saying("schön 🌕"), asyncio.Event()
    middle = body.index("🌕".encode()) + 2
    server.will(Reply([body[:middle], go_on, body[middle:]]))
    said = wire.chat().ask(asks("hello"))
    go_on.set()
    assert [piece async for piece in said][-1].parts == (Text(text="schön 🌕"),)  # type: ignore[union-attr]
