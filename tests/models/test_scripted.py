"""The test model: it says what it was told to, and something sensible when it was told nothing."""

from __future__ import annotations

import asyncio

import jsonschema_rs
import pytest

from retinue.core.messages import Data, File, Message, Text, Thinking, ToolCall, ToolResult
from retinue.core.outcome import Usage
from retinue.errors import ModelBroken, ModelBusy, ModelError, ModelRefused, ModelUnavailable
from retinue.models.scripted import Reply, ScriptedModel, call
from retinue.ports.models import ModelRequest, ModelSettings, OutputSpec
from retinue.testing import SetClock
from tests.engine.reading import turns_of_the_loop
from tests.models.asking import Answer, ask, kinds_of, question, said, tool

FINISH = tool("complete_task", result={"type": "string", "minLength": 1})
LOOKUP = tool("lookup", city={"type": "string"})


async def test_it_echoes_in_pieces_that_make_the_text() -> None:
    answer = await ask(ScriptedModel(), "hello there")
    assert answer.text == answer.streamed() == "You said: hello there"
    assert len(answer.pieces) == 4
    assert answer.response.usage == Usage(calls=1, input_tokens=2, output_tokens=4)
    assert (answer.response.stop, answer.response.model) == ("end", "test")


async def test_it_echoes_the_last_that_a_person_said() -> None:
    result = Message(role="tool", parts=(ToolResult(call_id="c", ok=True, result="42"),))
    answer = await ask(ScriptedModel(), question("first", said("aha"), "second", said(call("x")), result))
    assert answer.text == "You said: second"
    data = Message(role="user", parts=(Data(data={"a": 1}),))
    assert (await ask(ScriptedModel(), question(data))).text == "You said: {'a': 1}"
    assert (await ask(ScriptedModel(), question())).text == "You said: "


@pytest.mark.parametrize("result", [{}, {"minLength": 1}, {"pattern": r"\S"}])
async def test_it_finishes_an_agents_task(result: dict[str, object]) -> None:
    finish = tool("complete_task", result={"type": "string", **result})
    answer = await ask(ScriptedModel(), question("hello", tools=(LOOKUP, finish)))
    assert answer.calls == [("complete_task", {"result": "You said: hello"})]
    assert answer.response.stop == "tool_calls"
    assert answer.streamed("tool_args") == '{"result":"You said: hello"}'


@pytest.mark.parametrize(
    "result",
    [
        {"type": "string", "maxLength": 5},
        {"type": "string", "minLength": 50},
        {"type": "string", "enum": ["yes", "no"]},
        {"type": "string", "pattern": "^[a-z]+$", "examples": ["abc"]},
        {"type": "string", "format": "date"},
        {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]},
        {"type": "array", "items": {"type": "integer", "minimum": 3}, "minItems": 2},
    ],
)
async def test_what_a_task_wants_that_is_no_text_is_an_example(result: dict[str, object]) -> None:
    finish = tool("complete_task", result=result)
    ((name, arguments),) = (await ask(ScriptedModel(), question("hello", tools=(finish,)))).calls
    assert name == "complete_task"
    jsonschema_rs.validate(dict(finish.schema), arguments)


async def test_tools_that_finish_nothing_are_left_alone_unless_one_must_be_called() -> None:
    async def calls(choice: str | None) -> list[tuple[str, object]]:
        settings = ModelSettings(tool_choice=choice)
        return (await ask(ScriptedModel(), question("hi", tools=(LOOKUP, FINISH), settings=settings))).calls

    assert (await ask(ScriptedModel(), question("hi", tools=(LOOKUP,)))).text == "You said: hi"
    assert await calls("none") == []
    assert await calls("lookup") == [("lookup", {"city": "example"})]
    assert [name for name, _ in await calls("required")] == ["complete_task"]
    only = question("hi", tools=(LOOKUP,), settings=ModelSettings(tool_choice="required"))
    assert (await ask(ScriptedModel(), only)).calls == [("lookup", {"city": "example"})]


async def test_structured_output_is_an_example_and_is_data() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    answer = await ask(ScriptedModel(), question("hi", output=OutputSpec(schema=schema)))
    assert answer.response.parts == (Data(data={"n": 0}),)
    assert answer.streamed() == '{"n":0}'


async def test_a_reply_has_all_kinds_of_parts() -> None:
    file = File(uri="sha256:1", media_type="image/png")
    reply = Reply(pieces=["a", "b"], thinking="hm", calls=[call("lookup", city="Porto")], parts=[file])
    answer = await ask(ScriptedModel(lambda _: reply), "hi")
    assert kinds_of(answer.response.parts) == ["Thinking", "Text", "File", "ToolCall"]
    assert answer.response.parts[:2] == (Thinking(text="hm"), Text(text="ab"))
    assert [piece.kind for piece in answer.pieces] == ["thinking", "text", "text", "tool_args"]
    assert (await ask(ScriptedModel(lambda _: Reply(data=[1, 2])), "hi")).response.parts == (Data(data=[1, 2]),)


async def test_usage_and_the_reason_to_stop_can_be_told() -> None:
    usage = Usage(calls=1, input_tokens=1000, output_tokens=7, cached_tokens=900)
    answer = await ask(ScriptedModel(lambda _: Reply(pieces=["cut"], usage=usage, stop="length")), "hi")
    assert (answer.response.usage, answer.response.stop) == (usage, "length")


async def test_ids_of_calls_are_the_same_each_time_and_never_twice_in_a_transcript() -> None:
    def two(request: ModelRequest) -> Reply:
        return Reply(calls=[call("x"), call("x"), ToolCall(call_id="mine", tool="x", arguments={})])

    async def ids(*messages: Message) -> list[str]:
        parts = (await ask(ScriptedModel(two), question("go", *messages))).response.parts
        return [part.call_id for part in parts if isinstance(part, ToolCall)]

    first = await ids()
    assert first == await ids()
    calls = [ToolCall(call_id=each, tool="x", arguments={}) for each in first]
    results = Message(role="tool", parts=tuple(ToolResult(call_id=each, ok=True) for each in first))
    second = await ids(said(*calls), results)
    assert first[2] == second[2] == "mine"
    assert len({*first[:2], *second[:2]}) == 4


@pytest.mark.parametrize(
    "error",
    [
        ModelRefused(model="test", problem="no"),
        ModelBusy(model="test", problem="later", retry_after=2.0),
        ModelUnavailable(model="test", problem="gone", retry_after=None),
        ModelBroken(model="test", problem="half"),
    ],
)
async def test_an_error_comes_after_what_was_said(error: ModelError) -> None:
    answer = Answer()
    with pytest.raises(type(error)) as caught:
        await ask(ScriptedModel(lambda _: Reply(pieces=["a", "b"], error=error)), "hi", answer)
    assert caught.value is error
    assert (answer.streamed(), answer.responses) == ("ab", [])


@pytest.mark.parametrize(("after", "heard"), [(0, ""), (2, "ab"), (3, "abc"), (9, "abc")])
async def test_a_stream_breaks_after_so_many_pieces(after: int, heard: str) -> None:
    answer = Answer()
    with pytest.raises(ModelBroken, match="test gave an answer that makes no sense: the stream broke off"):
        await ask(ScriptedModel(lambda _: Reply(pieces=list("abc"), break_after=after)), "hi", answer)
    assert (answer.streamed(), answer.responses) == (heard, [])


async def test_delays_pass_on_the_clock(clock: SetClock) -> None:
    answer = Answer()
    model = ScriptedModel(lambda _: Reply(pieces=list("abc"), first=5, delay=1), clock=clock)
    asking = asyncio.create_task(ask(model, "hi", answer))
    heard = []
    for _ in range(9):
        await turns_of_the_loop()
        heard.append(answer.streamed())
        clock.advance(1)
    assert heard == ["", "", "", "", "", "", "a", "ab", "abc"]
    assert asking.done()


async def test_others_get_their_turn_while_a_long_answer_is_given() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await ask(ScriptedModel(lambda _: Reply(pieces=["x"] * 1000)), "hi")
    task.cancel()
    assert turns >= 10
