"""Requests as OpenAI documents them, whatever a conversation is made of."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from retinue.core.messages import AnyPart, Data, File, Message, Text, Thinking, ToolCall, ToolResult
from retinue.models.sayable import Unsayable, spelled
from retinue.models.wire.openai_prompt import prompt
from retinue.ports.models import ModelRequest, ModelSettings, OutputSpec, ToolSpec
from tests.models.wire.conftest import asks

documented = TypeAdapter(CompletionCreateParamsStreaming)
PNG = b"\x89PNG\r\n"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
CLOSED = {**SCHEMA, "required": ["n"], "additionalProperties": False}
CALL = ToolCall(call_id="call_1", tool="look", arguments={"at": "moon"})


def sent(request: ModelRequest, model: str = "any") -> dict[str, Any]:
    """What goes over the wire, after the library of the format's makers has agreed to all of it."""
    body: dict[str, Any] = json.loads(prompt(request, model, "acme"))
    assert whole(documented.validate_python(body)) == body
    return body


def whole(agreed: Any) -> Any:
    """What was agreed to, to its ends: what the library calls iterable is checked when it is gone through."""
    if isinstance(agreed, dict):
        return {name: whole(value) for name, value in agreed.items()}
    if isinstance(agreed, Iterable) and not isinstance(agreed, str):
        return [whole(value) for value in agreed]
    return agreed


def messages(*parts: AnyPart, role: str = "user", files: dict[str, bytes] | None = None) -> list[dict[str, Any]]:
    message = Message(role=role, parts=parts)  # type: ignore[arg-type]
    said: list[dict[str, Any]] = sent(ModelRequest(messages=(message,), files=files or {}))["messages"]
    return said


def content(*parts: AnyPart, **files: bytes) -> Any:
    (message,) = messages(*parts, files={f"file:{name}": content for name, content in files.items()})
    return message["content"]


def test_a_question_is_streamed_with_usage() -> None:
    assert sent(asks("hello")) == {
        "model": "any",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_each_message_keeps_its_role_and_the_instructions_come_first() -> None:
    turns = (("user", "a"), ("model", "b"), ("user", "c"))
    said = tuple(Message(role=role, parts=(Text(text=text),)) for role, text in turns)  # type: ignore[arg-type]
    assert sent(ModelRequest(messages=said, instructions="Be brief."))["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]


def test_texts_and_values_of_a_turn_are_combined_in_order() -> None:
    assert content(Text(text="first"), Data(data={"n": [1]}), Text(text="last")) == 'first\n\n{"n":[1]}\n\nlast'


def test_a_turn_with_nothing_in_it_is_empty_text() -> None:
    assert content() == ""


def test_an_image_stands_between_the_texts_around_it() -> None:
    image = File(uri="file:a", media_type="image/png", name="moon.png")
    before, shown, after = content(Text(text="Look:"), image, Text(text="What is it?"), a=PNG)
    assert (before, after) == ({"type": "text", "text": "Look:"}, {"type": "text", "text": "What is it?"})
    head, _, encoded = shown["image_url"]["url"].partition(",")
    assert (shown["type"], head, b64decode(encoded)) == ("image_url", "data:image/png;base64", PNG)


@pytest.mark.parametrize(
    ("media_type", "form"), [("audio/wav", "wav"), ("audio/x-wav", "wav"), ("audio/mpeg", "mp3"), ("AUDIO/MP3", "mp3")]
)
def test_sound_is_sent_in_its_form(media_type: str, form: str) -> None:
    (part,) = content(File(uri="file:a", media_type=media_type), a=b"sound")
    assert part == {"type": "input_audio", "input_audio": {"data": "c291bmQ=", "format": form}}


def test_a_document_is_sent_with_its_name() -> None:
    (part,) = content(File(uri="file:a", media_type="application/pdf", name="a.pdf"), a=b"%PDF")
    assert part == {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}}


def test_a_text_file_is_text() -> None:
    (part,) = content(File(uri="file:a", media_type="text/plain; charset=utf-8"), a="schön".encode())
    assert part == {"type": "text", "text": "schön"}


@pytest.mark.parametrize(
    "file",
    [
        File(uri="file:/srv/secret/a.zip", media_type="application/zip", name="a.zip"),
        File(uri="file:/srv/secret/a.png", media_type="image/png", name="a.png"),
    ],
)
def test_a_file_that_cannot_be_sent_is_named_and_not_where_it_is(file: File) -> None:
    files = {file.uri: b""} if file.name == "a.zip" else {}
    with pytest.raises(Unsayable, match=file.name) as caught:
        prompt(asks(file, files=files), "any", "acme")
    assert "srv" not in str(caught.value)


def test_calls_and_their_results_go_together() -> None:
    other = ToolCall(call_id="call_2", tool="hear", arguments={})
    asked = Message(role="model", parts=(Text(text="Let me see."), CALL, other))
    results = (
        ToolResult(call_id="call_1", ok=True, result={"far": True}),
        ToolResult(call_id="call_2", ok=False, result="it is silent"),
    )
    said = sent(ModelRequest(messages=(asked, Message(role="tool", parts=results))))["messages"]
    functions = [{"name": "look", "arguments": '{"at":"moon"}'}, {"name": "hear", "arguments": "{}"}]
    calls = [{"id": f"call_{n}", "type": "function", "function": f} for n, f in enumerate(functions, 1)]
    assert said == [
        {"role": "assistant", "content": "Let me see.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"far":true}'},
        {"role": "tool", "tool_call_id": "call_2", "content": "Error: it is silent"},
    ]


def test_a_call_without_a_word_has_no_content() -> None:
    assert messages(CALL, role="model")[0]["content"] is None


def test_arguments_that_were_no_object_are_put_into_one() -> None:
    (said,) = messages(ToolCall(call_id="a", tool="look", arguments='{"at'), role="model")
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"arguments": '{"at'}


def test_an_image_that_a_tool_gave_follows_its_result() -> None:
    image = File(uri="file:a", media_type="image/png")
    result, shown = messages(ToolResult(call_id="a", ok=True, result="here"), image, role="tool", files={"file:a": PNG})
    assert (result["role"], shown["role"], shown["content"][0]["type"]) == ("tool", "user", "image_url")


def test_a_file_that_a_model_gave_is_mentioned() -> None:
    image = File(uri="file:a", media_type="image/png", name="moon.png")
    assert messages(Text(text="Here: "), image, role="model")[0]["content"] == "Here: [moon.png]"


def thinker(name: str) -> Message:
    thought = Thinking(text="hm", provider={"name": name, "field": "reasoning_content"})
    return Message(role="model", parts=(thought, CALL))


def test_thinking_goes_back_to_the_provider_that_gave_it_while_it_goes_on() -> None:
    said = sent_unchecked(thinker("acme"), Message(role="tool", parts=(ToolResult(call_id="call_1", ok=True),)))
    assert said[0]["reasoning_content"] == "hm"


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param((thinker("other"),), id="another provider's"),
        pytest.param((thinker("acme"), Message(role="user", parts=())), id="of an earlier question"),
        pytest.param((Message(role="model", parts=(Thinking(text="hm"),)),), id="nobody's"),
    ],
)
def test_other_thinking_is_dropped(turns: tuple[Message, ...]) -> None:
    assert "hm" not in json.dumps(sent(ModelRequest(messages=turns)))


def sent_unchecked(*turns: Message) -> list[dict[str, Any]]:
    """With a field that OpenAI itself does not know."""
    said: list[dict[str, Any]] = json.loads(prompt(ModelRequest(messages=turns), "any", "acme"))["messages"]
    return said


def test_tools_are_functions() -> None:
    tools = (ToolSpec(name="look", description="Looks.", schema=SCHEMA), ToolSpec(name="hear"))
    look, hear = sent(asks("hello", tools=tools))["tools"]
    assert look == {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}
    assert hear["function"] == {"name": "hear", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        ("look", {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_the_choice_of_a_tool(choice: str, said: object) -> None:
    request = asks("hello", tools=(ToolSpec(name="look"),), settings=ModelSettings(tool_choice=choice))
    assert sent(request)["tool_choice"] == said
    assert "tool_choice" not in sent(asks("hello", settings=ModelSettings(tool_choice=choice)))


def test_names_that_the_format_does_not_permit_are_spelled_differently_each() -> None:
    names = ["a.b", "a/b", "a b", "ä", "x" * 65, "x" * 64 + "y", "fine-1_"]
    tools = tuple(ToolSpec(name=name) for name in names)
    said = [tool["function"]["name"] for tool in sent(asks("hello", tools=tools))["tools"]]
    assert len(set(said)) == len(names)
    assert all(name.isascii() and len(name) <= 64 and not set(name) & set("./ ") for name in said)
    assert said[-1] == spelled("fine-1_") == "fine-1_"


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        (SCHEMA, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "properties": {"n": SCHEMA}}, False),
        ({**CLOSED, "properties": {"n": {"type": "array", "items": CLOSED}}}, True),
        ({"anyOf": [CLOSED, SCHEMA]}, False),
    ],
)
def test_a_schema_is_strict_if_it_can_be(schema: dict[str, object], strict: bool) -> None:
    said = sent(asks("hello", output=OutputSpec(schema=schema, name="the answer")))["response_format"]
    assert (said["type"], said["json_schema"]["schema"]) == ("json_schema", schema)
    assert said["json_schema"]["strict"] is strict
    assert " " not in said["json_schema"]["name"]


def test_settings_have_their_names() -> None:
    settings = ModelSettings(max_tokens=5, temperature=0.0, top_p=0.5, seed=7, stop=("x", "y"))
    body = sent(asks("hello", settings=settings))
    said = {name: body[name] for name in ("max_tokens", "temperature", "top_p", "seed", "stop")}
    assert said == {"max_tokens": 5, "temperature": 0.0, "top_p": 0.5, "seed": 7, "stop": ["x", "y"]}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-5-mini", "max_completion_tokens"),
        ("gpt-6.1-sol", "max_completion_tokens"),
        ("openai/o3", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("gpt-4.1", "max_tokens"),
        ("gpt-oss-20b", "max_tokens"),
        ("olmo-2", "max_tokens"),
        ("llama", "max_tokens"),
    ],
)
def test_newer_models_have_a_new_name_for_the_longest_answer(model: str, name: str) -> None:
    body = sent(asks("hello", settings=ModelSettings(max_tokens=5)), model)
    assert {key: value for key, value in body.items() if key.startswith("max_")} == {name: 5}


@pytest.mark.parametrize(
    ("model", "thinking", "effort"),
    [
        ("any", "low", "low"),
        ("any", "high", "high"),
        ("any", "off", "none"),
        ("gpt-5", "off", "minimal"),
        ("gpt-5-mini", "off", "minimal"),
        ("gpt-5-2025-08-07", "off", "minimal"),
        ("gpt-5.1", "off", "none"),
    ],
)
def test_thinking_has_an_effort(model: str, thinking: Any, effort: str) -> None:
    assert sent(asks("hello", settings=ModelSettings(thinking=thinking)), model)["reasoning_effort"] == effort


def test_extra_goes_over_everything_and_takes_away() -> None:
    extra = {"store": True, "temperature": 1.0, "stream_options": None, "nothing": None}
    body = sent(asks("hello", settings=ModelSettings(temperature=0.2, extra=extra)))
    assert (body["store"], body["temperature"]) == (True, 1.0)
    assert not {"stream_options", "nothing"} & set(body)


@pytest.mark.parametrize(
    "request_",
    [
        asks("odd \udc80"),
        asks(Data(data="odd \udc80")),
        asks("hello", settings=ModelSettings(extra={"x": object()})),
    ],
)
def test_what_cannot_be_written_is_the_callers_mistake(request_: ModelRequest) -> None:
    with pytest.raises(Unsayable):
        prompt(request_, "any", "acme")
