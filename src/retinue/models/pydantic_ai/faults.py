"""What goes wrong in Pydantic AI and below, as an error of ours that says what to do about it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx
import httpx2
import msgspec
from pydantic_ai import exceptions as x

from retinue.errors import ModelError
from retinue.models.pydantic_ai.transport import Call
from retinue.models.wire.problems import LONGEST

CAUGHT = (x.AgentRunError, x.UserError, httpx.HTTPError, httpx2.HTTPError, ValueError, RuntimeError, OSError)
"""What the package raises, and what comes through it: unreadable JSON and text, and what it does not permit."""
AS_GOOD_AS = (
    (x.ModelQuotaExceededError, 402),
    (x.ModelRateLimitError, 429),
    (x.ModelAuthenticationError, 401),
    (x.ModelNotFoundError, 404),
    (x.ModelRequestRejectedError, 400),
    (x.ModelUnavailableError, 503),
    (x.ModelServerError, 500),
)
"""Providers say the same with different statuses; the package knows which means what."""


def fault(error: Exception, call: Call, seconds: float) -> ModelError:
    """The error to raise in its place; `seconds` is how long a connection was waited for."""
    chain = list(_chain(error))
    for each in chain:
        if isinstance(each, ModelError):
            return each  # ours, from below the package
    say = call.say
    match error:
        case x.ModelConnectionError() | httpx.TransportError() | httpx2.TransportError() | OSError():
            if call.answered:
                return say.broken(f"it broke off: the connection was lost ({_deepest(chain)})")
            return _unreachable(chain, call, seconds)
        case x.ModelAPIError():
            return _complaint(error, call)
        case x.UnexpectedModelBehavior():
            return say.empty(call.beginning)
        case _ if call.sent:
            return say.broken(f"a piece of it cannot be read ({_first_line(error)})")
        case _:
            return say.unsayable(_first_line(error))


def _complaint(error: x.ModelAPIError, call: Call) -> ModelError:
    """What the provider complains of."""
    said = error.status_code if isinstance(error, x.ModelHTTPError) and not error.in_stream else None
    status = next((status for kind, status in AS_GOOD_AS if isinstance(error, kind)), 0)
    if said in (401, 403):
        status = said
    if not status and isinstance(error, x.ModelHTTPError):
        status = error.status_code
    if not (status or error.body or error.provider_error_code):
        return call.say.broken(f"a piece of it cannot be read ({_first_line(error)})")
    return call.say.meant(status, _body(error), said, _retry_after(error, call))


def _retry_after(error: x.ModelAPIError, call: Call) -> float | None:
    """As the headers say it, by the server's own clock; or as the package found it elsewhere."""
    headers = error.headers if isinstance(error, x.ModelHTTPError) and not error.in_stream else None
    said = {name.title(): value for name, value in (headers or {}).items()}
    if "Retry-After" in said or "Retry-After-Ms" in said:
        return call.say.retry_after(said)
    return error.retry_after


def _body(error: x.ModelAPIError) -> bytes:
    match error.body:
        case None:
            code = error.provider_error_code or ""
            return msgspec.json.encode({"message": error.message.removeprefix(f"{code}: "), "code": code})
        case str(text):
            return text.encode(errors="replace")
        case other:
            return msgspec.json.encode(other, enc_hook=str)


def _unreachable(chain: list[BaseException], call: Call, seconds: float) -> ModelError:
    """No answer began. The most exact of all the errors says why."""
    say = call.say
    for each in reversed(chain):
        match each:
            case httpx.ProxyError() | httpx2.ProxyError():
                return say.proxy_refused(str(each))
            case socket.gaierror():
                return say.host_unknown(say.host)
            case ssl.SSLCertVerificationError():
                return say.untrusted(say.host, each)
            case ssl.SSLError():
                return say.insecure(each)
            case httpx.ConnectTimeout() | httpx2.ConnectTimeout():
                return say.too_far(seconds)
            case ConnectionRefusedError():
                return say.nobody_there(each)
            case httpx.UnsupportedProtocol() | httpx2.UnsupportedProtocol() | httpx.InvalidURL() | httpx2.InvalidURL():
                return say.no_address()
    connects = any(isinstance(each, httpx.ConnectError | httpx2.ConnectError) for each in chain)
    return say.nobody_there(chain[-1]) if connects else say.hung_up(chain[-1])


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        if isinstance(seen, BaseExceptionGroup):
            yield from _chain(seen.exceptions[0])
        hidden = seen.__suppress_context__ and not type(seen).__module__.startswith("httpcore")  # it hides why
        seen = seen.__cause__ or (None if hidden else seen.__context__)


def _deepest(chain: list[BaseException]) -> str:
    return type(chain[-1]).__name__


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:LONGEST]
