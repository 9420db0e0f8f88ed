"""What goes wrong with a server is said in words that help, and as the right kind of error."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from retinue.errors import ModelBroken, ModelBusy, ModelError, ModelRefused, ModelUnavailable
from retinue.models.wire.problems import Problems
from retinue.ports.models import ModelSettings
from retinue.testing import SetClock
from tests.models.server import Reply, Server, answer, chunk, failing, saying, sse
from tests.models.wire.conftest import KEY, Wire, asks, told

HTML = b"<!DOCTYPE html><html><head><title>502 Bad\n Gateway &amp; so on</title></head><body>x</body></html>"


async def problem(wire: Wire, **chat: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await wire.ask(**chat)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


def openai_error(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (400, ModelRefused, "refused the request: no such thing (400)"),
        (401, ModelRefused, "Check ACME_API_KEY"),
        (403, ModelRefused, "Check ACME_API_KEY"),
        (404, ModelRefused, "Check the model's name, and base_url"),
        (405, ModelRefused, "no such thing (405)"),
        (413, ModelRefused, "no such thing (413)"),
        (422, ModelRefused, "no such thing (422)"),
        (402, ModelBusy, "no quota is left"),
        (429, ModelBusy, "no such thing (429)"),
        (408, ModelUnavailable, "no such thing (408)"),
        (409, ModelUnavailable, "no such thing (409)"),
        (500, ModelUnavailable, "no such thing (500)"),
        (503, ModelUnavailable, "no such thing (503)"),
        (529, ModelUnavailable, "no such thing (529)"),
    ],
)
async def test_each_status_is_its_kind_of_error(
    server: Server, wire: Wire, status: int, kind: type[ModelError], says: str
) -> None:
    server.will(failing(status, openai_error("no such thing.")))
    error = await problem(wire)
    assert type(error) is kind
    assert says in str(error)
    assert str(error).startswith("acme:any ")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"error": {"message": "as OpenAI says it"}}, "as OpenAI says it (400)"),
        ({"error": "as Ollama says it"}, "as Ollama says it (400)"),
        ({"object": "error", "message": "as vLLM said it", "code": 400}, "as vLLM said it (400)"),
        ({"message": "as Mistral says it"}, "as Mistral says it (400)"),
        ({"detail": [{"msg": "as FastAPI says it"}]}, '[{"msg":"as FastAPI says it"}] (400)'),
        ([{"error": {"code": 400, "message": "as Google says it", "status": "X"}}], "as Google says it (400)"),
        ({"error": {"message": "Provider error", "metadata": {"raw": "inner"}}}, "Provider error: inner (400)"),
        (HTML, 'a web page ("502 Bad Gateway & so on") (400)'),
        (b"<html><script>var x</script><p>Sorry,\n<b>not here</b></html>", 'a web page ("Sorry, not here") (400)'),
        (b"plain\n words", '"plain words" (400)'),
        (b'{"error": {"mess', '"{"error": {"mess" (400)'),
        (b"", "nothing (400)"),
        (b"[]", '"[]" (400)'),
        (b'{"error": 5}', '"{"error": 5}" (400)'),
        (b"\xff\xfe", "(400)"),
    ],
)
async def test_the_providers_own_words_are_found(server: Server, wire: Wire, body: object, says: str) -> None:
    server.will(failing(400, body))
    assert says in str(await problem(wire))


async def test_a_long_complaint_is_cut_and_what_to_do_is_not(server: Server, wire: Wire) -> None:
    server.will(failing(401, b"x" * 1_000_000))
    said = str(await problem(wire))
    assert len(said) < 700
    assert said.endswith("Check ACME_API_KEY")


@pytest.mark.parametrize("at", [0, 490, 498])
async def test_a_server_that_repeats_the_key_does_not_get_it_into_a_message(
    server: Server, wire: Wire, at: int
) -> None:
    server.will(failing(401, openai_error(f"{'x' * at} bad key {KEY}.")))
    assert KEY[:9] not in str(await problem(wire))


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
async def test_no_quota_is_told_from_too_many_requests(server: Server, wire: Wire, code: str) -> None:
    server.will(failing(429, openai_error("You exceeded your current quota", code=code), **{"Retry-After": "1"}))
    error = await problem(wire)
    assert isinstance(error, ModelBusy)
    assert (error.no_quota, error.retry_after) == (True, None)
    assert "plan and billing" in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:29:00 GMT"}, 0.0),
        ({"Retry-After": "Tue, 01 Jan 2030 00:00:07 GMT", "Date": "nonsense"}, 7.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "nan"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_when_to_come_again_is_understood(
    server: Server, wire: Wire, status: int, headers: dict[str, str], seconds: float | None
) -> None:
    server.will(failing(status, openai_error("later"), **headers))
    error = await problem(wire)
    assert isinstance(error, ModelBusy | ModelUnavailable)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("event", "kind", "says"),
    [
        ({"error": {"message": "it is down", "type": "server_error"}}, ModelUnavailable, "it is down"),
        ({"error": {"message": "slower", "code": "rate_limit_exceeded"}}, ModelBusy, "slower"),
        ({"error": {"message": "slower", "code": 429}}, ModelBusy, "slower"),
        ({"error": {"message": "too long", "type": "invalid_request_error"}}, ModelRefused, "too long"),
        ({"error": {"message": "upstream", "code": 502}}, ModelUnavailable, "upstream"),
        ({"error": "some words"}, ModelUnavailable, "some words"),
        ({"error": {}, "object": "error", "message": "as vLLM said it"}, ModelUnavailable, "as vLLM said it"),
        ({"error": {"type": "x"}}, ModelUnavailable, "without a word"),
        (chunk({}, "error"), ModelBroken, "the reason error"),
        (
            chunk({}, "stop", choices=[{"error": {"code": 502, "message": "in a choice"}}]),
            ModelUnavailable,
            "in a choice",
        ),
    ],
)
async def test_an_error_in_the_middle_is_an_error(
    server: Server, wire: Wire, event: dict[str, Any], kind: type[ModelError], says: str
) -> None:
    server.will(sse(chunk({"content": "some words"}), event, "[DONE]"))
    said, error = await until_problem(wire)
    assert said == "some words"
    assert type(error) is kind
    assert says in str(error)


async def until_problem(wire: Wire) -> tuple[str, ModelError]:
    """What was said until it broke, and why it did."""
    said = []
    try:
        async for piece in wire.chat().ask(asks("hello")):
            said.append(piece)
    except ModelError as error:
        return "".join(piece.text for piece in said if hasattr(piece, "text")), error
    raise AssertionError(f"no problem: {said}")


START = sse(chunk({"content": "some words"}))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (START, "neither gave a reason nor said [DONE]"),
        (START + b'data: {"choices": [{"de', "a piece of it cannot be read"),
        (START + b'data: {"choices": [{"delta": {"content": "sch\xc3', "a piece of it cannot be read"),
        (START + b"data: nonsense\n\n" + answer(), "a piece of it cannot be read"),
        (START + b'data: {"choices": 5}\n\n', "a piece of it cannot be read"),
        (START + b"data: [1]\n\n", "a piece of it cannot be read"),
    ],
)
async def test_a_stream_that_ends_in_the_middle_is_broken(server: Server, wire: Wire, body: bytes, says: str) -> None:
    server.will(body)
    said, error = await until_problem(wire)
    assert said == "some words"
    assert type(error) is ModelBroken
    assert says in str(error)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "but nothing"),
        (b"data: [DONE]\n\n", "but "),
        (b": hello\n\n", 'but ": hello"'),
        (b"data: {}\n\n", "but "),
        (sse(chunk({})), "but "),
        (b"<html><title>Hi</title></html>", 'but a web page ("Hi")'),
    ],
)
async def test_an_empty_stream_is_broken(server: Server, wire: Wire, body: bytes, says: str) -> None:
    server.will(body)
    error = await problem(wire)
    assert type(error) is ModelBroken
    assert f"there was no answer in it, {says}" in str(error)


@pytest.mark.parametrize(
    "body", ['{"error": {"code": 503, "message": "loading"}}', 'error: {"code": 503, "message": "loading"}\n\n']
)
async def test_an_error_in_a_form_of_its_own_is_understood(server: Server, wire: Wire, body: str) -> None:
    server.will(body.encode())
    error = await problem(wire)
    assert type(error) is ModelUnavailable
    assert "loading" in str(error)


@pytest.mark.parametrize("length", range(0, len(saying("Hello")), 7))
async def test_a_connection_that_is_lost_anywhere_is_an_error(server: Server, wire: Wire, length: int) -> None:
    body = saying("Hello")[:length]
    server.will(Reply([body], hangs_up=True))
    error = await problem(wire)
    assert type(error) is ModelBroken
    assert "broke off" in str(error)


async def test_a_web_page_is_no_answer(server: Server, wire: Wire) -> None:
    server.will(Reply([HTML], content_type="text/html"))
    error = await problem(wire)
    assert type(error) is ModelBroken
    assert 'a web page ("502 Bad Gateway & so on"). Check base_url under [providers.acme]' in str(error)


async def test_half_an_answer_in_one_piece_is_broken(server: Server, wire: Wire) -> None:
    server.will(Reply([b'{"choices": [{"mess'], content_type="application/json"))
    assert type(await problem(wire)) is ModelBroken


async def test_an_error_with_a_good_status_is_an_error(server: Server, wire: Wire) -> None:
    server.will(failing(200, openai_error("as OpenRouter does", code=429)))
    assert type(await problem(wire)) is ModelBusy


async def test_an_event_without_end_is_given_up(server: Server, wire: Wire) -> None:
    server.will(Reply([b"data: " + b"x" * 1024 * 1024] + [b"x" * 1024 * 1024] * 20))
    error = await problem(wire)
    assert type(error) is ModelBroken
    assert "more than 16 MiB" in str(error)


@pytest.mark.parametrize("status", [301, 307])
async def test_a_server_that_sends_on_is_not_followed(server: Server, wire: Wire, status: int) -> None:
    server.will(failing(status, b"", Location="https://elsewhere.example/v1"))
    error = await problem(wire)
    assert type(error) is ModelRefused
    assert "sends on to https://elsewhere.example/v1" in str(error)
    assert len(server.asked) == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_where_nothing_listens(wire: Wire) -> None:
    error = await problem(wire, url=f"http://127.0.0.1:{free_port()}/v1")
    assert type(error) is ModelUnavailable
    assert "Is the server running? Check base_url under [providers.acme]" in str(error)


async def test_a_host_that_does_not_exist(wire: Wire) -> None:
    error = await problem(wire, url="http://no-such-host.invalid/v1")
    assert type(error) is ModelUnavailable
    assert "the host no-such-host.invalid is not known" in str(error)


@pytest.mark.parametrize("url", ["http://", "nonsense", "ftp://host/v1", "http://a:b:c/v1"])
async def test_an_address_that_is_none(wire: Wire, url: str) -> None:
    error = await problem(wire, url=url)
    assert type(error) is ModelRefused
    assert "is no address. Check base_url under [providers.acme]" in str(error)


async def test_a_server_without_tls(server: Server, wire: Wire) -> None:
    error = await problem(wire, url=server.url.replace("http:", "https:"))
    assert type(error) is ModelUnavailable
    assert "no secure connection" in str(error)


async def test_a_certificate_that_nobody_vouches_for(wire: Wire, certificate: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    listening = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        error = await problem(wire, url=f"https://127.0.0.1:{port}/v1")
    assert type(error) is ModelUnavailable
    assert re.search(r"the certificate of 127\.0\.0\.1 is not trusted: .*self.signed", str(error))


async def test_a_server_that_hangs_up_at_once(wire: Wire) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        error = await problem(wire, url=f"http://127.0.0.1:{port}/v1")
    assert type(error) is ModelUnavailable
    assert "the connection broke before an answer began" in str(error)


async def test_a_server_that_does_not_speak_http(wire: Wire) -> None:
    async def mumble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async with await asyncio.start_server(mumble, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        error = await problem(wire, url=f"http://127.0.0.1:{port}/v1")
    assert type(error) is ModelUnavailable


@pytest.mark.parametrize("proxy", ["http://user:sk-very-secret-key@127.0.0.1:1", "http://127.0.0.1:1"])
async def test_a_proxy_that_is_not_there(wire: Wire, proxy: str) -> None:
    error = await problem(wire, proxy=proxy)
    assert type(error) is ModelUnavailable
    assert "the proxy does not let it through" in str(error)


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (Reply([], before=asyncio.Event()), ModelUnavailable, "it said nothing for 120 s"),
        (Reply([asyncio.Event()]), ModelUnavailable, "it said nothing for 120 s"),
        (Reply([START, asyncio.Event()]), ModelBroken, "nothing came any more for 120 s"),
        (Reply([b"half", asyncio.Event()], status=500), ModelBroken, "nothing came any more for 120 s"),
    ],
)
async def test_silence_is_an_error_once_it_is_too_long(
    server: Server, wire: Wire, clock: SetClock, reply: Reply, kind: type[ModelError], says: str
) -> None:
    server.will(reply)
    asking = asyncio.create_task(until_problem(wire))
    await server.came.wait()
    while not asking.done():
        await asyncio.sleep(0)
        clock.advance(40)
    _, error = asking.result()
    assert type(error) is kind
    assert says in str(error)
    await server.left.wait()


async def test_a_request_may_be_less_patient(server: Server, wire: Wire, clock: SetClock) -> None:
    server.will(Reply([asyncio.Event()]))
    request = asks("hello", settings=ModelSettings(timeout=5))
    asking = asyncio.create_task(told(wire.chat(), request))
    await server.came.wait()
    while not asking.done():
        await asyncio.sleep(0)
        clock.advance(1)
    assert "nothing for 5 s" in str(asking.exception())


async def test_words_now_and_then_are_no_silence(server: Server, wire: Wire, clock: SetClock) -> None:
    go_on = [asyncio.Event() for _ in range(5)]
    body: list[bytes | asyncio.Event] = []
    for n, event in enumerate(go_on):
        body += [sse(chunk({"content": str(n)})), event]
    server.will(Reply([*body, saying("!")]))
    said = wire.chat().ask(asks("hello"))
    for event in go_on:
        await anext(said)
        clock.advance(119)
        event.set()
    assert [piece async for piece in said][-1].parts[0].text == "01234!"  # type: ignore[union-attr]


async def test_a_reader_who_takes_his_time_does_not_break_an_answer(
    server: Server, wire: Wire, clock: SetClock
) -> None:
    server.will(Reply([START, saying("!")]))
    said = wire.chat().ask(asks("hello"))
    await anext(said)
    for _ in range(10):
        clock.advance(100)
    assert [piece async for piece in said]


def test_an_error_says_nothing_of_a_secret_in_json() -> None:
    """The words come out of JSON: they are cleaned after that, so that escapes hide nothing."""
    say = Problems("m", "http://x", key_from="K", url_from="U", secrets=("käy/with",), now_ms=lambda: 0)
    body = json.dumps({"error": {"message": "bad: käy/with"}}).encode()
    assert "with" not in str(say.answered(400, {}, body))
