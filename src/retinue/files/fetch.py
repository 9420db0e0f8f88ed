"""Fetching what somebody named, and nothing that they should not reach through us."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from retinue.errors import BadAddress
from retinue.files.addresses import Guard
from retinue.files.config import MB, FetchConfig
from retinue.files.kinds import charset_of, essence
from retinue.files.texts import public, shown_name, size_of

LONGEST_URL = 8192
CONNECT_SECONDS = 10
NO_URL = "it is no valid URL"
_HEADERS = {"User-Agent": "Retinue", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What was at a URL: `url` is the last one, after redirects; `name` what it calls the file."""

    body: bytes
    media_type: str
    charset: str
    url: str
    name: str


async def fetch(
    url: str,
    config: FetchConfig | None = None,
    *,
    inside: Callable[[str], bool] | None = None,
    resolver: AbstractResolver | None = None,
) -> Fetched:
    """What is at a URL, redirects followed. Raises `BadAddress` with the reason for whatever is not fetched.

    With `inside`, only URLs of which it is true, redirects too. `resolver` is where names are looked up.
    """
    config = config or FetchConfig()
    try:
        async with asyncio.timeout(config.seconds), _session(config, resolver) as session:
            return await _follow(session, url, config, inside)
    except TimeoutError:
        raise BadAddress(url=public(url), problem=_late(config)) from None
    except aiohttp.ClientError as error:
        raise BadAddress(url=public(url), problem=_told(error)) from None


def guarded_connector(config: FetchConfig, resolver: AbstractResolver | None = None) -> aiohttp.TCPConnector:
    """Connections that go only where they may, for any use of aiohttp.

    The address that is checked is the one that is connected to, so a name that means another one a moment later
    gains nothing. An address in a URL is not looked up: the last check is where its socket is made.
    """
    guard = Guard(config.allow_private, config.ports)

    def make_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, proto, _, address = info
        host, port = str(address[0]), int(address[1])
        if problem := guard.refusal(host, port):
            raise BadAddress(url=host, problem=problem)
        return socket.socket(family=family, type=kind, proto=proto)

    return aiohttp.TCPConnector(
        resolver=GuardedResolver(guard, resolver or aiohttp.ThreadedResolver()),
        socket_factory=make_socket,
        use_dns_cache=False,
        happy_eyeballs_delay=None,  # one after the other: a race would swallow the refusal
        force_close=True,
    )


class GuardedResolver(AbstractResolver):
    """Looks names up, and refuses one if any of its addresses may not be reached."""

    def __init__(self, guard: Guard, names: AbstractResolver) -> None:
        self._guard, self._names = guard, names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._names.resolve(host, port, family)
        for address in found:
            if problem := self._guard.refusal(address["host"], port):
                raise BadAddress(url=host, problem=problem)
        return found

    async def close(self) -> None:
        await self._names.close()


def _session(config: FetchConfig, resolver: AbstractResolver | None) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=guarded_connector(config, resolver),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),  # the whole is limited by the caller
        headers=_HEADERS,
    )


async def _follow(
    session: aiohttp.ClientSession, first: str, config: FetchConfig, inside: Callable[[str], bool] | None
) -> Fetched:
    url = _checked(first, first, inside)
    for _ in range(config.redirects + 1):
        try:
            async with session.get(url, allow_redirects=False) as response:
                location = response.headers.get("Location", "")
                if response.status not in _REDIRECTS or not location:
                    return await _read(response, first, config)
        except BadAddress as error:
            raise _of(error, first, str(url)) from None
        url = _checked(_joined(url, location, first), first, inside)
    raise BadAddress(url=public(first), problem=f"it redirects more than {config.redirects} times")


def _checked(url: str, first: str, inside: Callable[[str], bool] | None) -> URL:
    """The URL, if it is one that can be fetched at all."""
    try:
        parsed = URL(url)
        problem = _problem(parsed, url, inside)
    except ValueError:
        parsed, problem = URL(), NO_URL
    if problem:
        raise _of(BadAddress(url=url, problem=problem), first, url)
    return parsed


def _problem(parsed: URL, url: str, inside: Callable[[str], bool] | None) -> str:
    if parsed.scheme not in ("http", "https"):
        return "only http and https URLs are"
    if not parsed.host or len(url) > LONGEST_URL or any(char.isspace() or not char.isprintable() for char in url):
        return NO_URL
    if parsed.user is not None or parsed.password is not None:
        return "it holds a user name or password"
    if inside and not inside(url):
        return "it lies outside the roots from which files may be read"
    return ""


def _joined(url: URL, location: str, first: str) -> str:
    try:
        return str(url.join(URL(location)))
    except ValueError:
        raise BadAddress(url=public(first), problem="it redirects to what is no valid URL") from None


def _of(error: BadAddress, first: str, url: str) -> BadAddress:
    """The refusal, of the URL that was asked for."""
    where = "" if url == first else f"it redirects to {public(url)}: "
    return BadAddress(url=public(first), problem=where + error.problem)


async def _read(response: aiohttp.ClientResponse, first: str, config: FetchConfig) -> Fetched:
    if not 200 <= response.status < 300:
        said = shown_name(f"{response.status} {response.reason or ''}")
        raise BadAddress(url=public(first), problem=f"its server answers {said}")
    most = int(config.max_mb * MB)
    body = bytearray()
    async for piece in response.content.iter_any():  # unpacked already, a little at a time
        body += piece
        if len(body) > most:
            raise BadAddress(
                url=public(first), problem=f"it has more than {size_of(most)} (`max_mb` under [files.fetch])"
            )
    said = response.headers.get("Content-Type", "")
    return Fetched(
        body=bytes(body),
        media_type=essence(said),
        charset=charset_of(said),
        url=str(response.url),
        name=_name(response),
    )


def _name(response: aiohttp.ClientResponse) -> str:
    """The last part of what its server calls it, or of its path."""
    disposition = response.content_disposition
    given = disposition.filename if disposition else None
    name = re.split(r"[/\\]", given or unquote(response.url.raw_path.rstrip("/")))[-1]
    return name or response.url.host or ""


def _late(config: FetchConfig) -> str:
    return f"its server did not answer in time ({config.seconds:g} s in all, {CONNECT_SECONDS} s to connect)"


def _told(error: aiohttp.ClientError) -> str:
    match error:
        case aiohttp.InvalidURL():
            return NO_URL
        case aiohttp.ClientConnectorDNSError():
            return "its host name has no address"
        case aiohttp.ClientConnectorCertificateError():
            return "the certificate of its server is not valid"
        case aiohttp.ClientSSLError():
            return "no secure connection to its server comes about"
        case aiohttp.ClientConnectorError():
            return f"its server cannot be reached: {error.os_error.strerror or 'no connection'}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | aiohttp.ClientOSError():
            return "its server broke off the answer"
        case _:
            return "its server's answer makes no sense"
