"""Scripts in YAML: which answer is given when, and what is said about mistakes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retinue.core.messages import Data, Message
from retinue.core.outcome import Usage
from retinue.errors import BadSettings, ModelBusy, ModelRefused, ModelUnavailable, UnknownModel
from retinue.models.script import Script, scripted_model
from retinue.models.scripted import ScriptedModel
from retinue.testing import SetClock
from tests.engine.reading import turns_of_the_loop
from tests.models.asking import Answer, ask, question, said, tool


def model(text: str, clock: SetClock | None = None) -> ScriptedModel:
    return ScriptedModel(Script.parse(text), clock=clock)


async def test_replies_are_given_in_order_of_the_conversation() -> None:
    test = model("""
    - text: one
    - pieces: [t, wo]
    """)
    assert (await ask(test, "a")).text == "one"
    assert (await ask(test, question("a", said("one"), "b"))).streamed() == "two"


async def test_each_conversation_goes_through_the_script_for_itself() -> None:
    test = model("[{text: one}, {text: two}]")
    assert (await ask(test, "a")).text == "one"
    assert (await ask(test, "b")).text == "one"
    assert (await ask(test, "a")).text == "one", "the same question again, as a crash or a regeneration makes it"
    assert (await ask(model("[{text: one}, {text: two}]"), question("a", said("one"), "more"))).text == "two"


async def test_the_end_of_a_script_is_said() -> None:
    with pytest.raises(ModelRefused, match=r"script has no reply for turn 2\. Add one, or `repeat: true`"):
        await ask(model("- text: one"), question("a", said("one"), "b"))


async def test_a_reply_that_repeats_answers_all_that_comes() -> None:
    test = model("""
    - text: one
    - text: more
      repeat: true
    """)
    assert (await ask(test, question("a", said("one"), "b"))).text == "more"
    assert (await ask(test, question("a", said("one"), "b", said("more"), "c"))).text == "more"


async def test_conditions_choose_among_the_replies() -> None:
    test = model("""
    - when: {text: weather|rain}
      text: It rains.
    - when: {tools: lookup}
      calls: [{tool: lookup, arguments: {city: Porto, on: 2030-01-01, deep: [1, 2.5, null, true]}}]
    - when: {tools: [lookup, other], turn: 2}
      text: both
    - text: else
    """)
    tools = (tool("lookup"), tool("other"))
    assert (await ask(test, "Will it RAIN?")).text == "It rains."
    assert (await ask(test, "Hm")).text == "else"
    calls = (await ask(test, question("Hm", tools=tools))).calls
    assert calls == [("lookup", {"city": "Porto", "on": "2030-01-01", "deep": [1, 2.5, None, True]})]
    assert (await ask(test, question("Hm", said("x"), "Hm", tools=tools))).text == "both"


async def test_failures_are_given_once_before_what_follows() -> None:
    text = """
    - error: {kind: busy, message: too many, retry_after: 1.5}
    - pieces: [half]
      error: {kind: unavailable}
    - text: whole
    """
    test = model(text)
    with pytest.raises(ModelBusy, match="takes no more requests now: too many") as busy:
        await ask(test, "a")
    assert busy.value.retry_after == 1.5
    answer = Answer()
    with pytest.raises(ModelUnavailable, match="the script says so"):
        await ask(test, "a", answer)
    assert answer.streamed() == "half"
    assert (await ask(test, "a")).text == "whole"
    with pytest.raises(ModelBusy):
        await ask(test, question(Message(role="user", parts=(Data(data={"another": "conversation"}),))))


async def test_a_failure_may_repeat() -> None:
    test = model("- {error: {kind: refused, message: never}, repeat: true}")
    for _ in range(3):
        with pytest.raises(ModelRefused, match="never"):
            await ask(test, "a")


async def test_everything_about_an_answer_can_be_told() -> None:
    answer = await ask(
        model("""
        - thinking: Let me see
          data: {total: 3}
          calls:
            - {tool: add, arguments: {n: 1}, id: first}
            - tool: add
          usage: {input_tokens: 10, output_tokens: 5, cached_tokens: 2, thinking_tokens: 1}
          stop: length
        """),
        "hi",
    )
    assert answer.streamed("thinking") == "Let me see"
    assert answer.response.parts[1] == Data(data={"total": 3})
    assert answer.calls == [("add", {"n": 1}), ("add", {})]
    assert answer.response.usage == Usage(calls=1, input_tokens=10, output_tokens=5, cached_tokens=2, thinking_tokens=1)
    assert answer.response.stop == "length"


async def test_delays_are_seconds_on_the_clock(clock: SetClock) -> None:
    answer = Answer()
    asking = asyncio.create_task(ask(model("- {pieces: [a, b], delay: {first: 9, each: 1}}", clock), "hi", answer))
    await turns_of_the_loop()
    clock.advance(9)
    await turns_of_the_loop()
    clock.advance(1)
    await turns_of_the_loop()
    assert answer.streamed() == "a"
    clock.advance(1)
    await asking
    other = asyncio.create_task(ask(model("- {text: at last, delay: 60}", clock), "hi"))
    await turns_of_the_loop()
    clock.advance(60)
    await turns_of_the_loop()
    clock.advance(60)
    assert (await other).text == "at last"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- txt: a", "script:1: `txt` is no key of a reply; did you mean `text`?"),
        ("- text: a\n- colour: b", "script:2: `colour` is no key of a reply; there is: when, text,"),
        ("- when: {tern: 1}", "script:1: `tern` is no key of `when`; did you mean `turn`?"),
        ("- when:\n    text: '['", "script:2: `text` is no regular expression: unterminated"),
        ("- when: {turn: 0}", "script:1: `turn` is a whole number, 1 or more"),
        ("- calls: [{arguments: {}}]", "script:1: a call needs `tool`"),
        ("- calls: {tool: x}", "script:1: `calls` is a list"),
        ("- error: {message: x}", "script:1: `error` needs a `kind`: refused, busy, unavailable, broken"),
        ("- error: {kind: bussy}", "script:1: `bussy` is no `kind`; did you mean `busy`?"),
        ("- error: {kind: refused, retry_after: 1}", "`retry_after` goes with busy and unavailable, not with refused"),
        ("- {text: a, stop: now}", "script:1: `now` is no `stop`; there is: end, length, tool_calls, filtered."),
        ("- {text: a, delay: soon}", "script:1: `delay` is a number of seconds"),
        ("- {text: a, delay: .inf}", "script:1: JSON has no `.inf`"),
        ("- {text: a, break_after: -1}", "script:1: `break_after` is a whole number, 0 or more"),
        ("- {text: a, repeat: 3}", "script:1: `repeat` is true or false"),
        ("- {text: a, pieces: [b]}", "give either `text` or `pieces`, not both"),
        ("- {text: a, data: {}}", "give either `data` or a text, not both"),
        ("- {text: [a]}", "script:1: `text` is a text"),
        ("- {text: a, text: b}", "script:1: `text` stands here twice"),
        ("- usage: {tokens: 3}", "script:1: `tokens` is no key of `usage`; did you mean"),
        ("- hello", "script:1: a reply is a mapping with some of: when, text"),
        ("text: a", "script:1: a script is a list"),
        ("", "script: the script is empty"),
        ("- {text: a", "script:1: this is no YAML"),
        ("- \x00", "script: this is no YAML"),
        ("- {text: a, repeat: !!int x}", "script:1: `x` is not what its tag says"),
        ("- data: &a [*a]", "script:1: this is nested too deeply"),
        ("- data: {[1]: 2}", "script:1: `a key` is a text"),
    ],
)
def test_mistakes_are_said_with_line_and_key(text: str, problem: str) -> None:
    with pytest.raises(BadSettings) as caught:
        Script.parse(text)
    assert problem in str(caught.value)


async def test_a_script_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETINUE_TEST_SCRIPT", raising=False)
    assert (await ask(scripted_model(), "a")).text == "You said: a"
    script = tmp_path / "replies.yaml"
    script.write_text("- text: scripted")
    monkeypatch.setenv("RETINUE_TEST_SCRIPT", str(script))
    assert (await ask(scripted_model(), "a")).text == "scripted"
    script.write_text("- txt: scripted")
    with pytest.raises(BadSettings, match=r"replies\.yaml:1: `txt`"):
        scripted_model()
    script.write_bytes(b"- text: \xff")
    with pytest.raises(BadSettings, match="it is no text in UTF-8"):
        scripted_model()
    script.unlink()
    with pytest.raises(BadSettings, match="the script cannot be read: No such file"):
        scripted_model()


async def test_a_script_is_named_by_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_TEST_SCRIPTS", str(tmp_path / "scripts"))
    with pytest.raises(UnknownModel, match=r"there is no script weather.yaml in .*scripts/\.$"):
        scripted_model("test:weather")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "weather.yaml").write_text("- text: It rains.")
    (tmp_path / "outside.yaml").write_text("- text: no")
    test = scripted_model("test:weather")
    assert (test.name, (await ask(test, "a")).text) == ("test:weather", "It rains.")
    with pytest.raises(UnknownModel, match="There is: weather"):
        scripted_model("test:wether")
    with pytest.raises(UnknownModel, match="There is: weather"):
        scripted_model("test:../outside")


async def test_a_question_without_any_message_is_answered_too() -> None:
    assert (await ask(model("- text: one"), question())).text == "one"
    assert (await ask(model("- text: one"), question(Message(role="user", parts=())))).text == "one"
