"""What a tool gave, as something that can be kept."""

from __future__ import annotations

import msgspec

from retinue.core.events import encode_json
from retinue.errors import NotStorable, ToolFailed
from retinue.ports.tools import Blob, Content

BYTES = "application/octet-stream"


def result_of(name: str, value: object) -> object:
    """A JSON value, or `Content`. Raises `ToolFailed` for what is neither."""
    if value is None or type(value) in (bool, int) or (type(value) is str and value.isascii()):
        return value
    match value:
        case Content():
            return _checked(name, value)
        case Blob() | bytes() | bytearray() | memoryview():
            return Content((_blob(value),))
        case list() | tuple() if any(isinstance(one, Blob) for one in value):
            return Content(tuple(_part(name, one) for one in value))
        case _:
            return _json(name, value)


def _json(name: str, value: object) -> object:
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(name, error) from None
    try:
        return msgspec.json.decode(encode_json(plain, f"What {name} gave"))
    except NotStorable as error:
        raise ToolFailed(str(error)) from None


def _plain(value: object) -> object:
    """Of Pydantic models, which are known by what they can do: their library is not loaded to find out."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    raise TypeError(f"it has a value of type {type(value).__name__}")


def _checked(name: str, content: Content) -> Content:
    for part in content.parts:
        if not isinstance(part, str | Blob):
            raise _refused(name, TypeError(f"a part of Content is text or Blob, not {type(part).__name__}"))
    return content


def _part(name: str, value: object) -> str | Blob:
    if isinstance(value, Blob | bytes | bytearray | memoryview):
        return _blob(value)
    plain = result_of(name, value)
    return plain if isinstance(plain, str) else encode_json(plain, f"What {name} gave").decode()


def _blob(value: Blob | bytes | bytearray | memoryview) -> Blob:
    return value if isinstance(value, Blob) else Blob(data=bytes(value), media_type=BYTES)


def _refused(name: str, error: Exception) -> ToolFailed:
    return ToolFailed(str(NotStorable(what=f"What {name} gave", problem=str(error))))
