"""Fetching what local models are made of: pages, and large files that go on where they broke off.

Plain blocking code: it is run by a command that does nothing else, or in a thread.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import shutil
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import (
    AbstractHTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
    url2pathname,
)

from retinue.errors import PullFailed

Progress = Callable[[int, int | None], None]
"""Told how many bytes are there, and of how many (None if nobody knows)."""

CHUNK = 256 * 1024
TIMEOUT = 60.0
RESUMES = 5
"""How often a download that breaks off is taken up again by itself, as long as each time brings something."""
LARGEST_PAGE = 20 * 1024 * 1024
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
EXPECTED = (301, 302, 303, 307, 308, 416)
"""Answers that are looked at: redirects are followed before they get here, unless somebody wants to stay."""

BROKEN = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What an address shows. `url` is where it was found in the end."""

    text: str
    media_type: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A file that is elsewhere. `sha256` and `size` as far as somebody promised them."""

    url: str
    sha256: str | None = None
    size: int | None = None
    token: str | None = None


@dataclass(slots=True)
class Fetch:
    """Fetches for `name`, with the proxies and certificates of the environment."""

    name: str
    environ: Mapping[str, str]

    def page(self, url: str, *, accept: str) -> Page:
        if urlsplit(url).scheme == "file":
            return self._local_page(url)
        with self._opened(url, {"Accept": accept}) as response:
            data = response.read(LARGEST_PAGE)
            media_type = response.headers.get_content_type()
            return Page(text=data.decode(errors="replace"), media_type=media_type, url=response.url)

    def _local_page(self, url: str) -> Page:
        path = Path(url2pathname(urlsplit(url).path)) / "index.html"
        try:
            return Page(text=path.read_text("utf-8"), media_type="text/html", url=path.as_uri())
        except (OSError, UnicodeDecodeError):
            raise self._failed(f"there is no {path}") from None

    def promised(self, url: str, token: str | None) -> str | None:
        """The hash that the Hugging Face hub promises for a file, before it sends one on to where the file is."""
        request = _request(url, {"Authorization": f"Bearer {token}"} if token else {})
        request.method = "HEAD"
        with self._answered(build_opener(self._secure(), _Staying()), request) as response:
            promise = str(response.headers.get("X-Linked-ETag") or "").strip('"')
            return promise if len(promise) == 64 else None

    def into(self, file: Remote, target: Path, progress: Progress) -> None:
        """Fetch a file whole and with the promised hash. What is there of it already is not fetched again."""
        for _ in range(RESUMES):
            before = _size(target)
            try:
                self._go_on(file, target, progress)
            except BROKEN as error:
                if _size(target) <= before:
                    raise self._failed(self._broke_off(file, target, error)) from None
                continue
            return self._check(file, target)
        raise self._failed(self._broke_off(file, target, None))

    def _go_on(self, file: Remote, target: Path, progress: Progress) -> None:
        there = _size(target)
        if there == file.size:
            return
        headers = {"Range": f"bytes={there}-"} if there else {}
        if file.token:
            headers["Authorization"] = f"Bearer {file.token}"
        with self._opened(file.url, headers) as response:
            if response.status != 416:
                self._receive(response, file, target, progress)
            elif response.headers.get("Content-Range") != f"bytes */{there}":
                target.unlink()  # it is another file than it was
                self._go_on(file, target, progress)

    def _receive(self, response: Any, file: Remote, target: Path, progress: Progress) -> None:
        goes_on = response.status == 206
        length = response.headers.get("Content-Length")
        done = _size(target) if goes_on else 0
        total = done + int(length) if length and length.isdigit() else file.size
        self._need_room(target, (total or 0) - done)
        with writing(self.name, target, "ab" if goes_on else "wb") as out:
            progress(done, total)
            while chunk := response.read(CHUNK):
                out.write(chunk)
                done += len(chunk)
                progress(done, total)
        if total is not None and done < total:
            raise ConnectionError(f"the connection was closed after {done} of {total} bytes")

    def _check(self, file: Remote, target: Path) -> None:
        if file.sha256 and sha256_of(target) != file.sha256.lower():
            target.unlink()
            raise self._failed(f"what {shown(file.url)} gave has another hash than was promised. Try again.")

    def _opened(self, url: str, headers: Mapping[str, str]) -> AbstractContextManager[Any]:
        return self._answered(build_opener(self._secure()), _request(url, headers))

    @contextmanager
    def _answered(self, opener: OpenerDirector, request: Request) -> Iterator[Any]:
        where = shown(request.full_url)
        try:
            response = opener.open(request, timeout=TIMEOUT)
        except HTTPError as error:
            if error.code not in EXPECTED:
                error.close()
                raise self._failed(f"{where} answered {error.code} {error.reason}") from None
            response = error
        except URLError as error:
            reason = error.reason.strerror if isinstance(error.reason, OSError) else error.reason
            raise self._failed(f"{where} cannot be reached: {reason or error.reason}") from None
        except (ValueError, http.client.HTTPException, OSError) as error:
            raise self._failed(f"{where} cannot be reached: {error or type(error).__name__}") from None
        with response:
            yield response

    def _secure(self) -> _Secure:
        return _Secure(self.name, next((self.environ[key] for key in CERTIFICATES if self.environ.get(key)), None))

    def _need_room(self, target: Path, size: int) -> None:
        free = shutil.disk_usage(target.parent).free
        if free < size:
            raise self._failed(no_room(target, f"{_mega(size)} are needed and {_mega(free)} are free"))

    def _broke_off(self, file: Remote, target: Path, error: Exception | None) -> str:
        why = f" ({error or type(error).__name__})" if error else ""
        there = f"; {_mega(_size(target))} are here, and the next pull goes on from there" if _size(target) else ""
        return f"the connection to {shown(file.url)} broke off{why}{there}"

    def _failed(self, problem: str) -> PullFailed:
        return PullFailed(name=self.name, problem=problem)


class _Secure(HTTPSHandler):
    """HTTPS with the certificates of the environment, which are read when they are needed: that takes a while."""

    def __init__(self, name: str, certificates: str | None) -> None:
        AbstractHTTPHandler.__init__(self)
        self._name, self._certificates = name, certificates

    def https_open(self, req: Request) -> http.client.HTTPResponse:
        try:
            context = ssl.create_default_context(cafile=self._certificates)
        except OSError as error:
            problem = f"the certificates {self._certificates} cannot be read: {error.strerror}"
            raise PullFailed(name=self._name, problem=problem) from None
        return self.do_open(http.client.HTTPSConnection, req, context=context)


class _Staying(HTTPRedirectHandler):
    """Follows nobody elsewhere."""

    def redirect_request(self, *redirect: Any) -> None:
        return None


@contextmanager
def writing(name: str, target: Path, mode: str) -> Iterator[Any]:
    """A file that is written to disk when this is left."""
    try:
        with target.open(mode) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            target.unlink(missing_ok=True)
            raise PullFailed(name=name, problem=no_room(target, "the disk is full")) from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR):
            raise PullFailed(name=name, problem=f"{target} cannot be written: {error.strerror}") from None
        raise


def no_room(target: Path, problem: str) -> str:
    return f"there is no room in {target.parent}: {problem}. Make some, or set RETINUE_MODELS_DIR to another folder."


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def shown(url: str) -> str:
    """An address as people may see it: without a password, and without a query, which may hold one."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _request(url: str, headers: Mapping[str, str]) -> Request:
    """A password in the address becomes a header, which goes to that host only."""
    parts = urlsplit(url)
    access, at, host = parts.netloc.rpartition("@")
    request = Request(urlunsplit((parts.scheme or "none", host, parts.path, parts.query, "")))
    for name, value in {"User-Agent": "retinue", "Accept-Encoding": "identity", **headers}.items():
        if name == "Authorization":
            request.add_unredirected_header(name, value)
        else:
            request.add_header(name, value)
    if at:
        request.add_unredirected_header("Authorization", f"Basic {b64encode(unquote(access).encode()).decode()}")
    return request


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mega(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"
