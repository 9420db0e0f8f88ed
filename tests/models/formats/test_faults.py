"""What goes wrong with a provider, whatever its format: a clear word, of the right kind, without a secret."""

from __future__ import annotations

import asyncio
import re

import pytest

from retinue.errors import ModelBroken, ModelBusy, ModelError, ModelRefused, ModelUnavailable
from retinue.ports.models import ModelRequest, ModelSettings, Retry
from retinue.testing import SetClock
from tests.models.asking import Answer, ask, question, tool
from tests.models.formats.conftest import KEY, Provider, without
from tests.models.server import Reply, failing
from tests.models.servers.script import Calls, Says, Script

TEXT = Script([Says(["Once ", "upon a time"])])
PAGE = b"<html><head><title>Sign in</title></head><body>" + b"x" * 200 + b"</body></html>"


async def problem(provider: Provider, request: ModelRequest | str = "hello", into: Answer | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(provider.model(), request, into)
    assert KEY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (400, ModelRefused, "that is wrong (400)"),
        (401, ModelRefused, "the key is not accepted: that is wrong (401)"),
        (404, ModelRefused, "that is wrong (404). Check the model's name"),
        (429, ModelBusy, "that is wrong (429)"),
        (500, ModelUnavailable, "that is wrong (500)"),
        (529, ModelUnavailable, "that is wrong ("),
    ],
)
async def test_each_status_has_its_meaning(provider: Provider, status: int, kind: type[ModelError], says: str) -> None:
    provider.server.will(provider.format.trouble(status, "that is wrong."))
    error = await problem(provider)
    assert type(error) is kind
    assert says in str(error)
    assert str(error).startswith(f"{provider.format.provider}:{provider.format.model}")


async def test_where_the_key_comes_from_is_said(provider: Provider) -> None:
    provider.server.will(provider.format.trouble(401, f"wrong key {KEY}"))
    error = await problem(provider)
    assert f"Check {provider.format.key}" in str(error)
    assert "wrong key ***" in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "Wed, 01 Jan 2031 00:00:09 GMT", "Date": "Wed, 01 Jan 2031 00:00:00 GMT"}, 9),
        ({"Retry-After": "soon"}, None),
    ],
)
async def test_when_to_come_back_is_kept(provider: Provider, headers: dict[str, str], seconds: float | None) -> None:
    provider.server.will(provider.format.trouble(429, "slow down", **headers))
    error = await problem(provider)
    assert isinstance(error, ModelBusy)
    assert error.retry_after == seconds


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_packages_do_not_ask_again_by_themselves(provider: Provider, status: int) -> None:
    provider.server.will(provider.format.trouble(status, "no"))
    await problem(provider)
    assert len(provider.server.asked) == 1


async def test_the_guard_asks_again(provider: Provider, clock: SetClock) -> None:
    provider.server.will(provider.format.trouble(500, "no"), Reply(provider.format.stream(TEXT)))
    said = provider.model(retry={"tries": 2}).ask(question("hello"))
    assert isinstance(await anext(said), Retry)
    going_on = asyncio.ensure_future(anext(said))
    while not going_on.done():
        await asyncio.sleep(0)
        clock.advance(0.1)
    assert [await going_on, *[each async for each in said]][-1].stop == "end"  # type: ignore[union-attr]
    assert len(provider.server.asked) == 2


async def test_an_error_in_the_middle_of_an_answer(provider: Provider) -> None:
    begun = provider.format.stream(TEXT)
    where = next(n for n, event in enumerate(begun) if b"Once" in event) + 1
    provider.will(*begun[:where], provider.format.interrupted("too many people"))
    heard = Answer()
    error = await problem(provider, into=heard)
    assert type(error) is ModelUnavailable
    assert "too many people" in str(error)
    assert heard.streamed() == "Once "


@pytest.mark.parametrize("hangs_up", [True, False])
async def test_an_answer_that_breaks_off_in_an_event(provider: Provider, hangs_up: bool) -> None:
    whole = b"".join(provider.format.stream(TEXT))
    provider.will(whole[: whole.index(b"upon") + 2], hangs_up=hangs_up)
    heard = Answer()
    error = await problem(provider, into=heard)
    assert type(error) is ModelBroken
    assert "it broke off" in str(error) or "cannot be read" in str(error)
    assert heard.streamed() == "Once "


@pytest.mark.parametrize("hangs_up", [True, False])
async def test_an_answer_that_breaks_off_between_events(provider: Provider, hangs_up: bool) -> None:
    events = provider.format.stream(TEXT)
    where = next(n for n, event in enumerate(events) if b"upon" in event)
    provider.will(*events[:where], hangs_up=hangs_up)
    error = await problem(provider)
    assert type(error) is ModelBroken
    assert "it broke off" in str(error)


async def test_an_answer_that_breaks_off_in_a_character(provider: Provider) -> None:
    whole = b"".join(provider.format.stream(Script([Says(["Once ", "🌍 "])])))
    provider.will(whole[: whole.index("🌍".encode()) + 2])
    error = await problem(provider)
    assert type(error) is ModelBroken


async def test_bytes_that_are_no_text(provider: Provider) -> None:
    whole = b"".join(provider.format.stream(TEXT))
    provider.will(whole.replace(b"upon", b"\xff\xfe\xff"))
    error = await problem(provider)
    assert type(error) is ModelBroken


async def test_an_event_that_is_no_json(provider: Provider) -> None:
    whole = b"".join(provider.format.stream(TEXT))
    at = whole.index(b"upon")
    provider.will(whole[:at] + b'"' + whole[at:])
    error = await problem(provider)
    assert type(error) is ModelBroken
    assert "cannot be read" in str(error)


@pytest.mark.parametrize("event", [b"data: []\n\n", b"data: 7\n\n", b"data: null\n\n", b'data: {"a": 1}\n\n'])
async def test_an_event_that_is_something_else(provider: Provider, event: bytes) -> None:
    provider.will(event)
    assert type(await problem(provider)) is ModelBroken


async def test_a_web_page_is_no_answer(provider: Provider) -> None:
    provider.will(PAGE, content_type="text/html")
    error = await problem(provider)
    assert type(error) is ModelBroken
    assert 'answered with a web page ("Sign in")' in str(error)
    assert provider.format.variable in str(error)


async def test_a_web_page_with_an_error_is_told_by_its_title(provider: Provider) -> None:
    provider.will(b"<html><title>Bad gateway</title></html>", content_type="text/html", status=502)
    error = await problem(provider)
    assert type(error) is ModelUnavailable
    assert "Bad gateway" in str(error)


@pytest.mark.parametrize("body", [b"", b"\n\n", b": ping\n\n", b"data: [DONE]\n\n"])
async def test_nothing_is_no_answer(provider: Provider, body: bytes) -> None:
    provider.will(body)
    error = await problem(provider)
    assert type(error) is ModelBroken


async def test_an_error_in_the_place_of_an_answer(provider: Provider) -> None:
    provider.will(b'{"error": {"message": "no such model", "code": 404}}', content_type="application/json")
    error = await problem(provider)
    assert "no such model" in str(error)


async def test_a_server_that_sends_on_is_not_followed(provider: Provider) -> None:
    provider.server.will(failing(307, b"", Location="http://elsewhere.example/"))
    error = await problem(provider)
    assert type(error) is ModelRefused
    assert "sends on to http://elsewhere.example/ (307)" in str(error)
    assert len(provider.server.asked) == 1


async def test_a_server_that_is_not_there(provider: Provider) -> None:
    environment = {provider.format.key: KEY, provider.format.variable: "http://127.0.0.1:9"}
    with pytest.raises(ModelUnavailable, match=r"nothing listens at http://127\.0\.0\.1:9"):
        await ask(provider.model(environment=environment), "hello")


async def test_a_server_that_hangs_up_at_once(provider: Provider) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        environment = {provider.format.key: KEY, provider.format.variable: f"http://127.0.0.1:{port}"}
        with pytest.raises(ModelUnavailable, match="the connection broke before an answer began"):
            await ask(provider.model(environment=environment), "hello")


@pytest.mark.parametrize("begun", [True, False])
async def test_silence_is_an_error_once_it_is_too_long(provider: Provider, clock: SetClock, begun: bool) -> None:
    events = provider.format.stream(TEXT)
    where = next(n for n, event in enumerate(events) if b"Once" in event) + 1
    provider.will(*(events[:where] if begun else []), asyncio.Event())
    asking = asyncio.create_task(problem(provider))
    await provider.server.came.wait()
    while not asking.done():
        await asyncio.sleep(0)
        clock.advance(40)
    kind, says = (ModelBroken, "nothing came any more") if begun else (ModelUnavailable, "it said nothing")
    assert type(await asking) is kind
    assert f"{says} for 120 s" in str(await asking)
    await provider.server.left.wait()


async def test_a_request_may_be_less_patient(provider: Provider, clock: SetClock) -> None:
    provider.will(asyncio.Event())
    asking = asyncio.create_task(problem(provider, question("hello", settings=ModelSettings(timeout=5))))
    await provider.server.came.wait()
    while not asking.done():
        await asyncio.sleep(0)
        clock.advance(1)
    assert "for 5 s" in str(await asking)


async def test_signs_of_life_without_words_are_no_silence(provider: Provider, clock: SetClock) -> None:
    go_on = [asyncio.Event() for _ in range(4)]
    pings: list[bytes | asyncio.Event] = [each for event in go_on for each in (provider.format.ping, event)]
    first, *others = provider.format.stream(TEXT)
    provider.will(first, *pings, *others)
    asking = asyncio.create_task(ask(provider.model(), "hello"))
    await provider.server.came.wait()
    for event in go_on:
        for _ in range(200):
            await asyncio.sleep(0)
        clock.advance(100)
        event.set()
    assert (await asking).streamed() == "Once upon a time"


async def test_who_closes_an_answer_hangs_up(provider: Provider) -> None:
    events = provider.format.stream(TEXT)
    where = next(n for n, event in enumerate(events) if b"Once" in event) + 1
    provider.will(*events[:where], asyncio.Event())
    said = provider.model().ask(question("hello"))
    await anext(said)
    await said.aclose()
    await provider.server.left.wait()


@pytest.mark.parametrize("begun", [True, False])
async def test_who_is_cancelled_hangs_up(provider: Provider, begun: bool) -> None:
    provider.will(*(provider.format.stream(TEXT)[:1] if begun else []), asyncio.Event())
    asking = asyncio.create_task(ask(provider.model(), "hello"))
    await provider.server.came.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await provider.server.left.wait()


@without("gemini")  # its arguments are a value
async def test_arguments_that_are_no_json_come_as_they_are(provider: Provider) -> None:
    """The model is told of it: they reach who performs calls as text, which is no object."""
    provider.says(Calls("call_1", "weather", ['{"city": "Lon']), stop="length")
    answer = await provider.ask(tools=(tool("weather"),))
    assert answer.calls == [("weather", '{"city": "Lon')]
    assert answer.response.stop == "length"


@without("gemini")
@pytest.mark.parametrize("arguments", ['["London"]', "7", '"London"', "null"])
async def test_arguments_that_are_no_object_come_as_they_are(provider: Provider, arguments: str) -> None:
    provider.says(Calls("call_1", "weather", [arguments]))
    ((_, came),) = (await provider.ask(tools=(tool("weather"),))).calls
    assert not isinstance(came, dict)


async def test_an_error_has_no_lines_of_a_trace(provider: Provider) -> None:
    provider.will(b"data: {\n\n")
    assert not re.search(r"Traceback|\n", str(await problem(provider)))
