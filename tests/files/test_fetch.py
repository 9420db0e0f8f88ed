"""The guarded fetcher, on real servers. What is asked of a server that must not be asked is seen by that server."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp.web import Request, Response, StreamResponse
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from retinue.errors import BadAddress
from retinue.files.config import FetchConfig
from retinue.files.fetch import Fetched, fetch, guarded_connector
from tests.files.servers import Names, Web, raw_server, web_server


@pytest.fixture
async def other() -> AsyncIterator[Web]:
    """A second server, which nobody may ask."""
    async with web_server() as server:
        server.at["/"] = Response(text="an inner secret")
        yield server


def redirect(url: str, status: int = 302) -> Response:
    return Response(status=status, headers={"Location": url})


async def refused(url: str, config: FetchConfig | None = None, names: Names | None = None) -> str:
    """Why it is not fetched."""
    with pytest.raises(BadAddress) as caught:
        await fetch(url, config, resolver=names)
    return caught.value.problem


async def test_what_is_at_a_url_comes_with_its_type_charset_and_name(web: Web) -> None:
    web.at["/docs/a%20page.txt"] = web.at["/docs/a page.txt"] = Response(
        body=b"caf\xe9", headers={"Content-Type": "text/plain; charset=ISO-8859-1"}
    )
    assert await fetch(f"{web.url}/docs/a%20page.txt?q=1", web.allowed()) == Fetched(
        body=b"caf\xe9",
        media_type="text/plain",
        charset="ISO-8859-1",
        url=f"{web.url}/docs/a%20page.txt?q=1",
        name="a page.txt",
    )


async def test_a_server_may_name_the_file(web: Web) -> None:
    web.at["/1"] = Response(body=b"x", headers={"Content-Disposition": 'attachment; filename="report.pdf"'})
    assert (await fetch(f"{web.url}/1", web.allowed())).name == "report.pdf"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://127.0.0.1:{port}/", "loopback"),
        ("http://[::1]:{port}/", "loopback"),
        ("http://[::ffff:127.0.0.1]:{port}/", "loopback"),
        ("http://[64:ff9b::7f00:1]:{port}/", "loopback"),
        ("http://0.0.0.0:{port}/", "this host"),
        ("http://localhost:{port}/", "loopback"),
        ("http://0x7f.1:{port}/", "loopback"),
        ("http://127.1:{port}/", "no valid URL"),
        ("http://2130706433:{port}/", "no valid URL"),
        ("http://①②⑦.⓪.⓪.①:{port}/", "loopback"),
        ("http://10.1.2.3/", "private"),
        ("http://172.20.0.1/", "private"),
        ("http://192.168.1.1/", "private"),
        ("http://100.64.0.1/", "provider's network"),
        ("http://169.254.169.254/latest/meta-data/", "link-local"),
        ("http://[fd00:ec2::254]/", "private"),
        ("http://[fe80::1]/", "link-local"),
        ("http://168.63.129.16/", "cloud's own"),
        ("http://224.0.0.1/", "multicast"),
        ("http://[ff02::1]/", "multicast"),
        ("http://255.255.255.255/", "reserved"),
    ],
)
async def test_an_address_that_is_not_public_is_refused(web: Web, url: str, problem: str) -> None:
    assert problem in await refused(url.format(port=web.port), FetchConfig(ports=()))
    assert not web.asked


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://example.org/x", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("gopher://example.org/", "only http and https"),
        ("example.org", "only http and https"),
        ("", "only http and https"),
        ("http://", "no valid URL"),
        ("http:///x", "no valid URL"),
        ("http://exa mple.org/", "no valid URL"),
        ("http://example.org/\r\nHost: x", "no valid URL"),
        ("http://example.org:99999/", "no valid URL"),
        ("http://[::1/", "no valid URL"),
        ("http://example.org/" + "x" * 9000, "no valid URL"),
        ("http://user:secret@example.org/", "user name or password"),
        ("http://user@example.org/", "user name or password"),
    ],
)
async def test_what_is_no_plain_web_url_is_refused_before_anything_is_asked(url: str, problem: str) -> None:
    names = Names({})
    assert problem in await refused(url, names=names)
    assert not names.asked


async def test_a_port_that_is_not_configured_is_refused() -> None:
    names = Names({"example.org": [["93.184.215.14"]]})
    assert "port 22" in await refused("http://example.org:22/", names=names)
    assert "loopback" in await refused("http://127.0.0.1:22/", FetchConfig(ports=()))


async def test_a_name_that_means_a_private_address_is_refused(web: Web) -> None:
    names = Names({"inner.example.org": [["10.0.0.7"]], "mixed.example.org": [["93.184.215.14", "127.0.0.1"]]})
    for name, kind in (("inner", "private"), ("mixed", "loopback")):
        problem = await refused(f"http://{name}.example.org:{web.port}/", FetchConfig(ports=()), names)
        assert kind in problem
        assert "10.0.0.7" not in problem  # what the inner name server knows is not passed on
    assert not web.asked


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(web: Web) -> None:
    """A name that means something public when it is checked, and loopback when it is used."""
    web.at["/"] = Response(text="an inner secret")
    names = Names({"rebind.example.org": [["127.0.0.2"], ["127.0.0.1"]]})
    config = FetchConfig(allow_private=("127.0.0.2",), seconds=5)
    await refused(f"http://rebind.example.org:{web.port}/", config, names)
    assert names.asked == ["rebind.example.org"]
    assert not web.asked


async def test_a_name_is_looked_up_and_checked_anew_at_each_redirect(web: Web, other: Web) -> None:
    names = Names({"rebind.example.org": [["127.0.0.1"], ["127.0.0.3"]]})
    web.at["/"] = redirect(f"http://rebind.example.org:{web.port}/again")
    problem = await refused(f"http://rebind.example.org:{web.port}/", web.allowed(), names)
    assert problem == f"it redirects to http://rebind.example.org:{web.port}/again: it leads to a loopback address"
    assert web.asked == ["/"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_private_address_is_refused(web: Web, other: Web, status: int) -> None:
    web.at["/"] = redirect(f"{other.url}/?token=secret", status)
    problem = await refused(f"{web.url}/", web.allowed())
    assert problem == f"it redirects to {other.url}/: it leads to a loopback address"
    assert not other.asked


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://user:pw@{place}/", "//[", "gopher://{place}/"])
async def test_a_redirect_to_what_is_no_web_url_is_refused(web: Web, url: str) -> None:
    web.at["/"] = redirect(url.format(place=web.place))
    assert "redirects to" in await refused(f"{web.url}/", web.allowed())
    assert web.asked == ["/"]


async def test_redirects_are_followed_up_to_the_limit(web: Web) -> None:
    for n in range(4):
        web.at[f"/{n}"] = redirect(f"{n + 1}")  # relative
    web.at["/4"] = Response(text="there")
    assert (await fetch(f"{web.url}/0", web.allowed(redirects=4))).body == b"there"
    assert "redirects more than 3 times" in await refused(f"{web.url}/0", web.allowed(redirects=3))
    web.at["/circle"] = redirect("/circle")
    assert "redirects more than 5 times" in await refused(f"{web.url}/circle", web.allowed())


async def test_redirects_stay_inside_the_roots_where_there_are_any(web: Web) -> None:
    web.at["/docs/a"] = redirect("/private")
    with pytest.raises(BadAddress, match="outside the roots"):
        await fetch(f"{web.url}/docs/a", web.allowed(), inside=lambda url: "/docs/" in url)
    assert web.asked == ["/docs/a"]


async def test_a_body_that_is_too_large_is_cut(web: Web) -> None:
    sent = 0

    async def endless(request: Request) -> StreamResponse:
        nonlocal sent
        response = StreamResponse()
        await response.prepare(request)
        try:
            while sent < 1 << 30:
                await response.write(b"x" * 65536)
                sent += 65536
        except ConnectionError:
            pass
        return response

    web.at["/"] = endless
    assert (
        await refused(f"{web.url}/", web.allowed(max_mb=1)) == "it has more than 1.0 MB (`max_mb` under [files.fetch])"
    )
    assert sent < 1 << 30


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n\r\nsome", b"HTTP/1.1 200 OK\r\nX-Long: "])
async def test_an_answer_that_never_ends_is_cut(head: bytes) -> None:
    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        try:
            await asyncio.Event().wait()
        finally:
            writer.close()

    async with raw_server(silent) as place:
        config = FetchConfig(allow_private=(place,), seconds=0.2)
        assert "did not answer in time (0.2 s" in await refused(f"http://{place}/", config)


async def test_a_bomb_is_unpacked_only_up_to_the_limit(web: Web) -> None:
    bomb = gzip.compress(b"\0" * (64 << 20))
    assert len(bomb) < 100_000
    web.at["/"] = Response(body=bomb, headers={"Content-Encoding": "gzip"})
    assert (
        await refused(f"{web.url}/", web.allowed(max_mb=1)) == "it has more than 1.0 MB (`max_mb` under [files.fetch])"
    )


async def test_what_was_packed_for_the_way_is_unpacked(web: Web) -> None:
    web.at["/"] = Response(body=gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"})
    assert (await fetch(web.url, web.allowed())).body == b"hello"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "broke off"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "makes no sense"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\noops", "broke off"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "answers 500"),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "answers 302"),
    ],
)
async def test_a_broken_answer_is_a_reason(answer: bytes, problem: str) -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with raw_server(broken) as place:
        assert problem in await refused(f"http://{place}/", FetchConfig(allow_private=(place,)))


async def test_a_server_that_is_not_there_is_a_reason(web: Web) -> None:
    assert "cannot be reached" in await refused("http://127.0.0.1:1/", FetchConfig(allow_private=("127.0.0.1:1",)))
    assert "no address" in await refused("http://nowhere.example.org/", names=Names({}))
    web.at["/"] = Response(text="plain")
    assert "secure connection" in await refused(f"https://{web.place}/", web.allowed())


async def test_neither_password_nor_signature_of_a_url_is_in_the_message() -> None:
    with pytest.raises(BadAddress) as caught:
        await fetch("http://user:pa55word@127.0.0.1/x?X-Amz-Signature=51gnature#fr4gment")
    assert str(caught.value) == "http://127.0.0.1/x is not fetched: it holds a user name or password"


async def test_no_cookie_goes_back_to_a_server(web: Web) -> None:
    cookies: list[str | None] = []

    async def sets(request: Request) -> StreamResponse:
        cookies.append(request.headers.get("Cookie"))
        return Response(status=302, headers={"Location": "/", "Set-Cookie": "a=b"})

    web.at["/"] = sets
    await refused(f"{web.url}/", web.allowed(redirects=1))
    assert cookies == [None, None]


async def test_any_use_of_aiohttp_can_be_guarded(web: Web, other: Web) -> None:
    web.at["/"] = redirect(other.url + "/")
    async with aiohttp.ClientSession(connector=guarded_connector(web.allowed())) as session:
        with pytest.raises(BadAddress, match="loopback"):
            await session.post(web.url)  # it follows redirects itself
    assert web.asked == ["/"]
    assert not other.asked


async def test_a_certificate_that_nobody_vouches_for_is_a_reason(tmp_path: Path) -> None:
    async def polite(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with raw_server(polite, self_signed(tmp_path)) as place:
        problem = await refused(f"https://{place}/", FetchConfig(allow_private=(place,)))
    assert problem == "the certificate of its server is not valid"


def self_signed(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    pem = folder / "server.pem"
    pem.write_bytes(
        certificate.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    return context
