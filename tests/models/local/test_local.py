"""The real local model, in this process."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import aiohttp
import pytest

from retinue.core.messages import Data, File, Message, Text, ToolCall, ToolResult
from retinue.errors import BadFile, ModelBroken, ModelRefused, UnknownModel
from retinue.models.llama import CONTEXT
from retinue.models.local import LocalModel, local_model
from retinue.ports.models import ModelSettings, OutputSpec, ToolSpec
from tests.models.asking import ask, question, said, tool
from tests.models.peer import peer
from tests.models.test_pull import gguf

WEATHER = ToolSpec(
    name="get_weather",
    description="The weather in a city. Ask for one city at a time.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def short(**settings: object) -> ModelSettings:
    return ModelSettings(**{"max_tokens": 24, **settings})  # type: ignore[arg-type]


async def test_it_answers_the_same_each_time_piece_by_piece(smollm2: LocalModel) -> None:
    first = await ask(smollm2, question("What is the capital of Japan?", settings=short()))
    again = await ask(smollm2, question("What is the capital of Japan?", settings=short()))
    assert "Tokyo" in first.text
    assert first.text == again.text == first.streamed()
    assert len(first.pieces) > 3
    usage = first.response.usage
    assert (usage.calls, usage.estimated, first.response.model) == (1, False, "local:smollm2")
    assert usage.input_tokens > 20
    assert 3 < usage.output_tokens <= 24


async def test_its_answer_ends_where_it_must(smollm2: LocalModel) -> None:
    cut = await ask(smollm2, question("Tell me a long story.", settings=short(max_tokens=5)))
    assert (cut.response.stop, cut.response.usage.output_tokens) == ("length", 5)
    stopped = await ask(smollm2, question("Count: one two three four five", settings=short(stop=(" ",))))
    assert (stopped.response.stop, " " in stopped.text) == ("end", False)


async def test_it_calls_a_tool_and_goes_on_with_the_result(smollm2: LocalModel) -> None:
    asked = await ask(smollm2, question("What is the weather in Porto?", tools=(WEATHER,), settings=short()))
    assert asked.calls == [("get_weather", {"city": "Porto"})]
    assert asked.response.stop == "tool_calls"
    assert asked.streamed("tool_args") == '{"city": "Porto"}'
    (call,) = asked.response.parts
    assert isinstance(call, ToolCall)
    assert call.call_id
    finish = tool("complete_task", result={"type": "string"})
    result = Message(role="tool", parts=(ToolResult(call_id=call.call_id, ok=True, result="It rains, 14 degrees."),))
    settings = short(tool_choice="complete_task")
    messages = ("What is the weather in Porto?", said(call), result)
    done = await ask(smollm2, question(*messages, tools=(WEATHER, finish), settings=settings))
    ((name, arguments),) = done.calls
    assert name == "complete_task"
    assert "rain" in str(arguments)


async def test_it_can_be_made_to_call_or_not_to(smollm2: LocalModel) -> None:
    other = tool("look-up/thing", count={"type": "integer", "minimum": 5, "maximum": 9})
    tools = (WEATHER, other)
    required = await ask(smollm2, question("Hello!", tools=tools, settings=short(tool_choice="required")))
    assert len(required.calls) == 1
    named = await ask(smollm2, question("Hello!", tools=tools, settings=short(tool_choice="look-up/thing")))
    ((name, arguments),) = named.calls
    assert name == "look-up/thing"
    assert isinstance(arguments, dict)
    assert arguments["count"] in range(5, 10)
    none = await ask(smollm2, question("Hello!", tools=tools, settings=short(tool_choice="none")))
    assert none.calls == []
    assert none.text == none.streamed() != ""


async def test_it_keeps_to_a_schema(smollm2: LocalModel) -> None:
    schema = {
        "$defs": {"mood": {"enum": ["good", "bad"]}},
        "type": "object",
        "properties": {"mood": {"$ref": "#/$defs/mood"}, "stars": {"type": "integer", "minimum": 1, "maximum": 5}},
        "required": ["mood", "stars"],
        "if": {"properties": {"mood": {"const": "bad"}}},
        "then": {"properties": {"stars": {"maximum": 2}}},
    }
    request = question("I love it!", output=OutputSpec(schema=schema), settings=short())
    answer = await ask(smollm2, request)
    (data,) = answer.response.parts
    assert isinstance(data, Data)
    assert isinstance(data.data, dict)
    assert data.data["mood"] in ("good", "bad")
    assert data.data["stars"] in range(1, 6)
    assert answer.streamed().startswith('{"mood": "')
    both = await ask(
        smollm2, question("I love it!", output=OutputSpec(schema=schema), tools=(WEATHER,), settings=short())
    )
    assert both.calls or isinstance(both.response.parts[0], Data)
    assert both.streamed() or both.streamed("tool_args")


async def test_what_is_cut_off_is_there_as_far_as_it_goes(smollm2: LocalModel) -> None:
    call = await ask(
        smollm2, question("Weather in Porto?", tools=(WEATHER,), settings=short(max_tokens=11, tool_choice="required"))
    )
    assert call.response.stop == "length"
    ((name, arguments),) = call.calls
    assert name == "get_weather"
    assert isinstance(arguments, str)
    schema = {"type": "object", "properties": {"poem": {"type": "string", "minLength": 200}}, "required": ["poem"]}
    data = await ask(smollm2, question("A poem", output=OutputSpec(schema=schema), settings=short(max_tokens=9)))
    assert data.response.stop == "length"
    assert data.text.startswith('{"poem": "')


async def test_all_kinds_of_parts_can_be_in_its_past(smollm2: LocalModel) -> None:
    messages = (
        Message(role="user", parts=(Text(text="Look"), Data(data={"a": 1}), File(uri="x", media_type="image/png"))),
        said("Well", Data(data=[1]), ToolCall(call_id="c", tool="t", arguments={"x": 1})),
        Message(role="tool", parts=(ToolResult(call_id="c", ok=False, result="no"), ToolResult(call_id="d", ok=True))),
        Message(role="user", parts=(Text(text="Say hi"),)),
    )
    settings = short(max_tokens=2, top_p=0.5, thinking="off", extra={"top_k": 3, "seed": None})
    assert (await ask(smollm2, question(*messages, settings=settings))).text


async def test_an_answer_that_is_left_stops_at_once(smollm2: LocalModel) -> None:
    answer = smollm2.ask(question("Tell me a very long story.", settings=short(max_tokens=400)))
    await anext(answer)
    await answer.aclose()
    after = await ask(smollm2, question("Hello", settings=short(max_tokens=2)))
    assert after.response.usage.output_tokens <= 2
    left = asyncio.create_task(ask(smollm2, question("long " * 1500, settings=short(max_tokens=400))))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    assert (await ask(smollm2, question("Hello", settings=short(max_tokens=2)))).text
    for thread in threading.enumerate():
        if thread.name == "retinue-llama":
            thread.join(10)
            assert not thread.is_alive()


async def test_several_ask_at_once_and_all_are_answered(smollm2: LocalModel) -> None:
    questions = [question(f"Say {word}.", settings=short(max_tokens=3)) for word in ("one", "two", "three", "four")]
    answers = await asyncio.gather(*(ask(smollm2, each) for each in questions))
    assert all(answer.text for answer in answers)


def test_it_serves_one_event_loop_after_the_other(smollm2: LocalModel) -> None:
    for _ in range(2):
        assert asyncio.run(ask(smollm2, question("Hello", settings=short(max_tokens=2)))).text


async def test_what_it_cannot_take_is_refused(smollm2: LocalModel) -> None:
    with pytest.raises(ModelRefused, match=rf"the conversation has \d+ tokens, and room for {CONTEXT}"):
        await ask(smollm2, question("word " * 9000))
    bad = OutputSpec(schema={"type": "nonsense"}, name="mine")
    with pytest.raises(ModelRefused, match="the schema of mine is none: "):
        await ask(smollm2, question("Hello", output=bad))
    with pytest.raises(ModelRefused, match="characters that Unicode does not know"):
        await ask(smollm2, question("odd \udc80"))
    with pytest.raises(ModelRefused, match="local:smollm2 refused the request: "):
        await ask(smollm2, question("Hello", settings=short(extra={"messages": "none"})))


@pytest.mark.parametrize("max_tokens", [4, 40])
async def test_a_grammar_that_the_library_does_not_know_is_noticed(smollm2: LocalModel, max_tokens: int) -> None:
    unknown = {"grammar": '%llguidance {}\nstart: %json {"type": "string", "pattern": "(?=a)b"}'}
    request = question("Say hello.", tools=(WEATHER,), settings=short(max_tokens=max_tokens, extra=unknown))
    with pytest.raises(ModelBroken, match="it did not keep to the schema"):
        await ask(smollm2, request)


async def test_silence_is_an_end(smollm2: LocalModel) -> None:
    with pytest.raises(ModelBroken, match=r"it broke off: nothing came any more for 0\.001 s"):
        await ask(smollm2, question("word " * 300, settings=short(timeout=0.001)))


def test_it_opens_no_port(smollm2: LocalModel) -> None:
    asyncio.run(ask(smollm2, question("Hello", settings=short(max_tokens=1))))
    mine = {link.stat().st_ino for link in Path("/proc/self/fd").iterdir() if link.exists() or link.is_symlink()}
    listening = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
    ]
    assert not [fields for fields in listening if fields[3] == "0A" and int(fields[9]) in mine]


def test_its_limits_are_known(smollm2: LocalModel) -> None:
    assert smollm2.takes.context_tokens == CONTEXT
    assert not smollm2.takes.takes("image/png")
    assert smollm2.at_most(question("Hello", settings=short())).output_tokens == 24
    assert smollm2.at_most(question("Hello")).output_tokens == 512


async def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="retinue models pull"):
        local_model("local:hf:owner/name/nothing.gguf")
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"<html>")
    with pytest.raises(BadFile, match="it is no GGUF file"):
        local_model(f"local:{file}")
    file.write_bytes(gguf())
    with pytest.raises(ModelBroken, match=r"llama\.cpp cannot load .*mine\.gguf"):
        await ask(local_model(f"local:{file}"), "Hello")


LEAVING = """
import asyncio, os, signal, sys
from retinue.models.local import local_model
from retinue.ports.models import ModelRequest, ModelSettings
from retinue.core.messages import Message, Text

async def main():
    request = ModelRequest(messages=(Message(role="user", parts=(Text(text="Tell a long story."),)),),
                           settings=ModelSettings(max_tokens=500))
    async for piece in local_model("local:smollm2").ask(request):
        print("piece", flush=True)
        if sys.argv[1] == "exit":
            os.kill(os.getpid(), signal.SIGINT)
        if sys.argv[1] == "forget":
            loop = asyncio.get_running_loop()
            loop.stop()

if sys.argv[1] == "forget":
    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    loop.run_forever()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # asyncio will say that it was forgotten
else:
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize(("how", "ends"), [("exit", "interrupted"), ("forget", "piece")])
async def test_a_process_ends_well_while_it_talks(smollm2_file: Path, how: str, ends: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEAVING, how, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")
    assert out.decode().split()[-1] == ends
    assert out.decode().count("piece") < 20


async def test_a_peer_serves_it_over_http(smollm2_file: Path) -> None:
    async with peer(smollm2_file) as served, aiohttp.ClientSession() as session:
        body = {"model": served.model, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 4}
        url = f"{served.base_url}/chat/completions"
        async with session.post(url, json=body, headers={"Authorization": f"Bearer {served.key}"}) as response:
            answer = await response.json()
        async with session.post(url, json=body) as refused:
            assert refused.status == 401
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] == 4
