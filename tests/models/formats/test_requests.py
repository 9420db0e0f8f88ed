"""What a provider is asked, whatever its format: each server refuses what its provider does not document."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from retinue.core.messages import Data, File, Message, Text, Thinking, ToolCall, ToolResult
from retinue.errors import ModelRefused
from retinue.ports.models import ModelSettings, OutputSpec, ToolSpec
from tests.models.asking import ask, question, said, tool
from tests.models.formats.conftest import Provider, without
from tests.models.servers.script import Calls, Heard, Thinks

WEATHER = tool("weather", city={"type": "string"})
PDF = b"%PDF-1.4\n%%EOF"


def png() -> bytes:
    """One grey dot."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0\x7f")),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def calls(call_id: str, name: str = "weather", arguments: Any = None, **more: Any) -> ToolCall:
    return ToolCall(call_id=call_id, tool=name, arguments={"city": "Paris"} if arguments is None else arguments, **more)


def gave(*results: ToolResult) -> Message:
    return Message(role="tool", parts=results)


def texts(heard: Heard) -> list[tuple[str, str]]:
    return [(who, what[1]) for who, what in heard.turns if what[0] == "text"]


async def test_turns_keep_their_roles_and_their_order(provider: Provider) -> None:
    heard = await provider.send(question("one", said("two"), "three", instructions="Be brief."))
    assert heard.system == "Be brief."
    assert texts(heard) == [("user", "one"), ("model", "two"), ("user", "three")]


async def test_the_key_goes_where_the_provider_wants_it(provider: Provider) -> None:
    await provider.send(question("hello"))
    (headers,) = provider.server.headers
    assert "sk-very-secret-key" in str(dict(headers))
    assert "sk-very-secret-key" not in provider.server.paths[0]
    assert headers["User-Agent"].startswith("retinue/")
    assert provider.server.paths[0].startswith(provider.format.path)


async def test_calls_and_results_belong_together(provider: Provider) -> None:
    transcript: list[Any] = ["hello", said("Well.", calls("call_1"), calls("call_2", arguments={"city": "Rom"}))]
    results = gave(
        ToolResult(call_id="call_1", ok=True, result="sunny"), ToolResult(call_id="call_2", ok=True, result="rain")
    )
    heard = await provider.send(question(*transcript, results, tools=(WEATHER,)))
    asked = [call[1:] for call in heard.of("call")]
    assert asked == [("call_1", "weather", {"city": "Paris"}), ("call_2", "weather", {"city": "Rom"})]
    assert [result[1:3] for result in heard.of("result")] == [("call_1", "sunny"), ("call_2", "rain")]


async def test_a_result_that_is_an_error_is_told_as_one(provider: Provider) -> None:
    failed = gave(ToolResult(call_id="call_1", ok=False, result="no such city"))
    heard = await provider.send(question("hello", said(calls("call_1")), failed, tools=(WEATHER,)))
    ((_, _, told, *mark),) = heard.of("result")
    assert "no such city" in told
    assert mark == ["error"] or "rror" in told


@pytest.mark.parametrize("result", [{"degrees": 20.5}, [1, None], 7, None, "", True])
async def test_results_may_be_any_value(provider: Provider, result: object) -> None:
    done = gave(ToolResult(call_id="call_1", ok=True, result=result))
    heard = await provider.send(question("hello", said(calls("call_1")), done, tools=(WEATHER,)))
    assert len(heard.of("result")) == 1


async def test_words_after_results_come_after_them(provider: Provider) -> None:
    done = gave(ToolResult(call_id="call_1", ok=True, result="sunny"))
    heard = await provider.send(question("hello", said(calls("call_1")), done, "And now?", tools=(WEATHER,)))
    kinds = [what[0] for _, what in heard.turns if what[0] != "thought"]
    assert kinds == ["text", "call", "result", "text"]
    assert texts(heard)[-1] == ("user", "And now?")


async def test_images_and_documents_stand_where_they_were(provider: Provider) -> None:
    parts = (
        Text(text="See"),
        File(uri="f:1", media_type="image/png"),
        Text(text="and"),
        File(uri="f:2", media_type="application/pdf", name="a.pdf"),
    )
    asked = question(Message(role="user", parts=parts), files={"f:1": png(), "f:2": PDF})
    heard = await provider.send(asked)
    assert [what for _, what in heard.turns] == [
        ("text", "See"),
        ("image", "image/png", png()),
        ("text", "and"),
        ("document", "application/pdf", PDF),
    ]


async def test_an_image_in_a_result_reaches_the_model(provider: Provider) -> None:
    shot = ToolResult(call_id="call_1", ok=True, result="a picture", files=(File(uri="f:1", media_type="image/png"),))
    asked = question("hello", said(calls("call_1")), gave(shot), tools=(WEATHER,), files={"f:1": png()})
    heard = await provider.send(asked)
    assert heard.of("image") == [("image", "image/png", png())]
    assert "a picture" in str(heard.of("result"))


async def test_text_files_and_values_are_told_as_text(provider: Provider) -> None:
    parts = (File(uri="f:1", media_type="text/plain; charset=utf-8"), Data(data={"a": 1}))
    heard = await provider.send(question(Message(role="user", parts=parts), files={"f:1": "Grüß Gott".encode()}))
    told = " ".join(text for _, text in texts(heard))
    assert "Grüß Gott" in told
    assert '{"a":1}' in told


async def test_a_file_whose_content_is_not_there_is_refused(provider: Provider) -> None:
    asked = question(Message(role="user", parts=(File(uri="f:1", media_type="image/png", name="a.png"),)))
    with pytest.raises(ModelRefused, match=r"the content of the file a\.png is not there"):
        await ask(provider.model(), asked)
    assert provider.server.asked == []


async def test_a_file_of_a_kind_that_no_format_knows_is_refused(provider: Provider) -> None:
    if provider.format.provider == "google":
        return  # it is sent on: Gemini takes many kinds, and says itself which it does not
    asked = question(Message(role="user", parts=(File(uri="f:1", media_type="application/zip"),)), files={"f:1": b"PK"})
    with pytest.raises(ModelRefused):
        await ask(provider.model(), asked)
    assert provider.server.asked == []


async def test_thinking_goes_back_to_who_thought_it(provider: Provider) -> None:
    provider.says(Thinks(["Hm."], "c2lnbmVk"), Calls("call_1", "weather", ['{"city": "Paris"}']))
    answer = await provider.ask(tools=(WEATHER,))
    done = gave(ToolResult(call_id="call_1", ok=True, result="sunny"))
    heard = await provider.send(question("hello", said(*answer.response.parts), done, tools=(WEATHER,)))
    thoughts = heard.of("thought")
    assert "Hm." in [thought[1] for thought in thoughts]
    signed = "" if "chat" in provider.format.path else "c2lnbmVk"  # OpenAI's chat completions sign nothing
    assert signed in [signature for thought in thoughts for signature in thought[1:]]


async def test_what_somebody_else_thought_is_dropped(provider: Provider) -> None:
    """Neither as a thought nor as text; nor goes over what its provider gave with calls and text."""
    foreign: dict[str, object] = {"name": "somebody", "id": "rs_9", "signature": "Zm9yZWlnbg==", "details": {"a": "b"}}
    thought = said(
        Thinking(text="A secret thought", provider=foreign),
        Text(text="Well.", provider=foreign),
        calls("call_1", provider=foreign),
    )
    done = gave(ToolResult(call_id="call_1", ok=True, result="sunny"))
    await provider.send(question("hello", thought, done, tools=(WEATHER,)))
    sent = str(provider.server.asked[-1])
    assert "secret" not in sent
    assert "Zm9yZWlnbg" not in sent
    assert "rs_9" not in sent


async def test_a_turn_of_nothing_but_foreign_thoughts_is_none(provider: Provider) -> None:
    heard = await provider.send(question("one", said(Thinking(text="Hm.", provider={"name": "somebody"})), "two"))
    assert [text for who, text in texts(heard) if who == "user"] == ["one", "two"]


async def test_settings_are_told_in_the_provider_s_words(provider: Provider) -> None:
    heard = await provider.send(question("hello", settings=ModelSettings(max_tokens=50, temperature=0.5, top_p=0.9)))
    assert heard.settings["max_tokens"] == 50
    assert (heard.settings["temperature"], heard.settings["top_p"]) == (0.5, 0.9)


STOPS, EXTRA = ModelSettings(stop=("END", "STOP")), ModelSettings(extra={"metadata": {"user_id": "7"}})


@without("responses")
async def test_where_to_stop_is_told(provider: Provider) -> None:
    assert (await provider.send(question("hello", settings=STOPS))).settings["stop"] == ["END", "STOP"]


@without("gemini")
async def test_extra_goes_into_the_request_as_it_is(provider: Provider) -> None:
    await provider.send(question("hello", settings=EXTRA))
    assert provider.server.asked[-1]["metadata"] == {"user_id": "7"}


@pytest.mark.parametrize(("format", "settings"), [("responses", STOPS), ("gemini", EXTRA)], indirect=["format"])
async def test_what_a_format_has_no_word_for_is_refused(provider: Provider, settings: ModelSettings) -> None:
    with pytest.raises(ModelRefused, match=r"it has no way to be told `(stop|extra)`"):
        await provider.send(question("hello", settings=settings))
    assert provider.server.asked == []


@pytest.mark.parametrize("choice", ["auto", "required", "none", "weather"])
async def test_which_tool_is_to_be_called(provider: Provider, choice: str) -> None:
    asked = question("hello", tools=(WEATHER, tool("now")), settings=ModelSettings(tool_choice=choice))
    assert (await provider.send(asked)).settings["tool_choice"] == choice


async def test_nothing_is_set_that_was_not(provider: Provider) -> None:
    settings = (await provider.send(question("hello"))).settings
    assert not set(settings) - {"max_tokens", "store"}


async def test_tools_go_over_with_names_descriptions_and_schemas(provider: Provider) -> None:
    heard = await provider.send(question("hello", tools=(WEATHER, ToolSpec(name="now", schema={"type": "object"}))))
    assert heard.names == ["weather", "now"]
    assert heard.tools["weather"]["properties"] == {"city": {"type": "string"}}
    assert heard.tools["weather"]["required"] == ["city"]
    assert heard.tools["now"]["type"] == "object"
    assert "What weather does." in str(provider.server.asked[-1])


@pytest.mark.parametrize("name", ["grüße", "mcp:files/read file", "x" * 100, "2fa", "-x", "…"])
async def test_strange_names_are_spelled_differently_there_and_back_here(provider: Provider, name: str) -> None:
    asked = question(
        "hello", said(calls("call_1", name)), gave(ToolResult(call_id="call_1", ok=True)), tools=(tool(name),)
    )
    (there,) = (await provider.send(asked)).names
    assert there != name
    assert len(there) <= 64
    assert there.isascii()
    assert there[0].isalpha() or there[0] == "_"
    assert provider.heard.of("call")[0][2] == there
    provider.says(Calls("call_1", there, ["{}"]))
    assert (await ask(provider.model(), asked)).calls == [(name, {})]


@without("chat, by hand")  # there, ids go back as they came
async def test_ids_of_other_providers_are_spelled_as_all_permit(provider: Provider) -> None:
    asked = question(
        "hello", said(calls("functions.weather:0")), gave(ToolResult(call_id="functions.weather:0", ok=True))
    )
    heard = await provider.send(asked)
    (call,), (result,) = heard.of("call"), heard.of("result")
    assert call[1] == result[1]
    assert call[1].replace("_", "").replace("-", "").isalnum()


@pytest.mark.parametrize("arguments", ['{"city": "Lon', "", ["London"], None, 7])
async def test_arguments_that_were_no_object_go_back_as_one(provider: Provider, arguments: object) -> None:
    asked = question("hello", said(ToolCall(call_id="call_1", tool="weather", arguments=arguments)))
    asked = question(
        *asked.messages, gave(ToolResult(call_id="call_1", ok=False, result="no object")), tools=(WEATHER,)
    )
    ((_, _, _, told),) = (await provider.send(asked)).of("call")
    assert told == {"arguments": arguments}


async def test_a_schema_of_an_answer_goes_over(provider: Provider) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    heard = await provider.send(question("hello", output=OutputSpec(schema=schema, name="my answer")))
    assert heard.output["properties"] == {"a": {"type": "string"}}


async def test_a_lone_surrogate_is_refused_and_not_sent(provider: Provider) -> None:
    provider.says("well")
    with pytest.raises(ModelRefused):
        await ask(provider.model(), question("a \ud800 text"))
    assert provider.server.asked == []


async def test_half_a_character_in_a_result_is_refused_and_not_sent(provider: Provider) -> None:
    done = gave(ToolResult(call_id="call_1", ok=True, result={"a": ["\ud800"]}))
    with pytest.raises(ModelRefused):
        await ask(provider.model(), question("hello", said(calls("call_1")), done, tools=(WEATHER,)))
    assert provider.server.asked == []


async def test_a_long_history_is_sent_whole(provider: Provider) -> None:
    turns: list[Any] = [each for n in range(50) for each in (f"question {n}", said(f"answer {n}"))]
    heard = await provider.send(question(*turns, "last"))
    assert len(texts(heard)) == 101
