"""What went wrong with a server, as an error that says what to do about it. No secret gets into one."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from html import unescape
from urllib.parse import urlsplit

import aiohttp
import msgspec

from retinue.errors import ModelBroken, ModelBusy, ModelError, ModelRefused, ModelUnavailable

LONGEST = 500
SHORTEST_SECRET = 6
NO_QUOTA = ("insufficient_quota", "insufficient_balance", "insufficient_credits", "billing", "credit_limit")
BUSY = ("rate_limit", "too_many_requests", "resource_exhausted")
REFUSED = ("invalid", "authentication", "permission", "forbidden", "not_found", "context_length", "content_policy")
_title = re.compile(r"<title[^>]*>(.*?)</title>", re.I | re.S)
_markup = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.I | re.S)


class Complaint(msgspec.Struct):
    """What servers say under `error`, in all their ways."""

    message: object = None
    type: object = None
    code: object = None
    status: object = None
    detail: object = None
    metadata: object = None


class Problems:
    """Says what went wrong with one model."""

    def __init__(
        self, model: str, url: str, *, key_from: str, url_from: str, secrets: Iterable[str], now_ms: Callable[[], int]
    ) -> None:
        self._model, self._url = model, url
        self.host = urlsplit(url).hostname or url
        self._key_from, self._url_from = key_from, url_from
        self._now_ms = now_ms
        hidden = sorted({secret for secret in secrets if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True)
        self._secret = re.compile("|".join(map(re.escape, hidden))) if hidden else None

    def unreachable(self, error: Exception, seconds: float) -> ModelError:
        """No answer began: `error` is aiohttp's."""
        match error:
            case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
                return self.proxy_refused(_reason(error))
            case aiohttp.ClientConnectorDNSError():
                return self.host_unknown(error.host)
            case aiohttp.ClientConnectorCertificateError():
                return self.untrusted(error.host, error.certificate_error)
            case ssl.SSLError():
                return self.insecure(error)
            case aiohttp.ConnectionTimeoutError():
                return self.too_far(seconds)
            case aiohttp.ClientConnectorError():
                return self.nobody_there(error)
            case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
                return self.no_address()
            case _:
                return self.hung_up(error)

    def proxy_refused(self, reason: str) -> ModelError:
        return self._unavailable(f"the proxy does not let it through ({reason}). Check the proxy")

    def host_unknown(self, host: str) -> ModelError:
        return self._unavailable(f"the host {host} is not known. Check the network and {self._url_from}")

    def untrusted(self, host: str, error: BaseException) -> ModelError:
        why = getattr(error, "verify_message", "") or _reason(error)
        return self._unavailable(f"the certificate of {host} is not trusted: {why}. Check {self._url_from}")

    def insecure(self, error: BaseException) -> ModelError:
        return self._unavailable(f"no secure connection to {self._url} ({_reason(error)}). Is it https there?")

    def too_far(self, seconds: float) -> ModelError:
        return self._unavailable(f"no connection to {self._url} within {seconds:g} s")

    def nobody_there(self, error: BaseException) -> ModelError:
        problem = f"nothing listens at {self._url} ({_reason(error)})"
        return self._unavailable(f"{problem}. Is the server running? Check {self._url_from}")

    def no_address(self) -> ModelError:
        return ModelRefused(model=self._model, problem=f"{self._url} is no address. Check {self._url_from}")

    def hung_up(self, error: BaseException) -> ModelError:
        return self._unavailable(f"the connection broke before an answer began ({_reason(error)})")

    def silent(self, seconds: float, *, begun: bool) -> ModelError:
        if begun:
            return self.broken(f"it broke off: nothing came any more for {seconds:g} s")
        return self._unavailable(f"it said nothing for {seconds:g} s")

    def broken(self, problem: str) -> ModelBroken:
        return ModelBroken(model=self._model, problem=self.clean(problem))

    def empty(self, beginning: bytes) -> ModelError:
        """It ended without an answer. What there was instead may be an error in a form of its own."""
        beginning = beginning.strip()
        complaint = _complaint(beginning.removeprefix(b"error:"))
        if said := _words(complaint):
            return self._sorted(_status(complaint), complaint, self._quoted(said), None)
        return self.broken(f"there was no answer in it, but {self._quoted(_page(beginning))}")

    def unsayable(self, problem: str) -> ModelRefused:
        """The request cannot be said in the format."""
        return ModelRefused(model=self._model, problem=self.clean(problem))

    def web_page(self, body: bytes) -> ModelBroken:
        return self.broken(f"{self._url} answered with {_page(body)}. Check {self._url_from}")

    def answered(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        """A status that is no success."""
        if 300 <= status < 400:
            to = headers.get("Location", "elsewhere")
            return self.unsayable(f"{self._url} sends on to {to} ({status}). Check {self._url_from}")
        complaint = _complaint(body)
        said = f"{self._quoted(_words(complaint) or _page(body))} ({status})"
        return self._sorted(status, complaint, said, self.retry_after(headers))

    def meant(self, status: int, body: bytes, said: int | None, retry_after: float | None) -> ModelError:
        """What is as good as that status, whatever was `said` as such; none may have been."""
        complaint = _complaint(body)
        words = self._quoted(_words(complaint) or _page(body))
        return self._sorted(status, complaint, f"{words} ({said})" if said else words, retry_after)

    def complained(self, error: object) -> ModelError:
        """An error in the middle of an answer that began well."""
        complaint = _complaint(msgspec.json.encode(error))
        said = self._quoted(_words(complaint) or "an error without a word on it")
        return self._sorted(_status(complaint), complaint, said, None)

    def clean(self, text: str) -> str:
        """Without any secret."""
        return self._secret.sub("***", text) if self._secret else text

    def _quoted(self, text: str) -> str:
        """What the server said, without any secret, and not too long."""
        text = self.clean(text)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"

    def _sorted(self, status: int, complaint: Complaint, said: str, retry_after: float | None) -> ModelError:
        kind = f"{complaint.type} {complaint.code} {complaint.status}".lower()
        if status == 402 or any(word in kind for word in NO_QUOTA):
            problem = f"no quota is left: {said}. See to plan and billing at the provider"
            return ModelBusy(model=self._model, problem=problem, retry_after=None, no_quota=True)
        if status == 429 or (not status and any(word in kind for word in BUSY)):
            return ModelBusy(model=self._model, problem=said, retry_after=retry_after)
        if status == 401:
            return self.unsayable(f"the key is not accepted: {said}. Check {self._key_from}")
        if status == 403:
            return self.unsayable(
                f"the key does not permit it: {said}. Check {self._key_from} and what it may be used for"
            )
        if status == 404:
            return self.unsayable(f"{said}. Check the model's name, and {self._url_from} ({self._url})")
        retryable = status in (408, 409, 425) or status >= 500
        if (400 <= status < 500 and not retryable) or (not status and any(word in kind for word in REFUSED)):
            return self.unsayable(said)
        return self._unavailable(said, retry_after)

    def _unavailable(self, problem: str, retry_after: float | None = None) -> ModelUnavailable:
        return ModelUnavailable(model=self._model, problem=self.clean(problem), retry_after=retry_after)

    def retry_after(self, headers: Mapping[str, str]) -> float | None:
        """Seconds, from the header as number or as date; a date counts from the server's own, if it says one."""
        if milliseconds := _number(headers.get("Retry-After-Ms", "")):
            return milliseconds / 1000
        given = headers.get("Retry-After", "")
        if (seconds := _number(given)) is not None:
            return seconds
        until, now = _date(given), _date(headers.get("Date", "")) or self._now_ms() / 1000
        return max(0.0, until - now) if until is not None else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _complaint(body: bytes) -> Complaint:
    """The error that a body tells of, or an empty one."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Complaint()
    if isinstance(told, list) and told:
        told = told[0]
    if isinstance(told, dict) and told.get("error"):
        told = told["error"]
    if isinstance(told, dict):
        return Complaint(**{name: told.get(name) for name in Complaint.__struct_fields__})
    return Complaint(message=told) if isinstance(told, str) else Complaint()


def _status(complaint: Complaint) -> int:
    return complaint.code if isinstance(complaint.code, int) else 0


def _words(complaint: Complaint) -> str:
    for said in (complaint.message, complaint.detail):
        if said:
            words = said if isinstance(said, str) else msgspec.json.encode(said).decode()
            return f"{words.strip().rstrip('.')}{_upstream(complaint.metadata)}"
    return ""


def _upstream(metadata: object) -> str:
    """What a provider behind a gateway said."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f": {raw.strip().rstrip('.')}" if isinstance(raw, str) and raw.strip() else ""


def _page(body: bytes) -> str:
    """A body that is none of ours, in a few words."""
    text = body.decode(errors="replace").strip()
    if not text:
        return "nothing"
    if not text.startswith("<"):
        return f'"{" ".join(text.split())}"'
    found = _title.search(text)
    words = " ".join(unescape(found[1] if found else _markup.sub(" ", text)).split())
    return f'a web page ("{words[:100]}")'
