"""Python's types as JSON: msgspec knows most of them, Pydantic those of its own kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

DEFS = "#/$defs/"
_OF_PYDANTIC = ("pydantic", "annotated_types")
Definitions = dict[str, Any]


class Plain:
    """A type that msgspec reads by itself. Raises `TypeError` for others."""

    def __init__(self, hint: Any) -> None:
        self.read_as = _with_any(hint)
        msgspec.json.Decoder(self.read_as)
        self.schema(Definitions())

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        (schema,), components = msgspec.json.schema_components([self.read_as], ref_template=f"{DEFS}{{name}}")
        definitions |= components
        return schema

    def read(self, value: Any) -> object:
        return value

    def default(self, value: object) -> object:
        """As JSON. Raises `TypeError` for what has no such form, `ValueError` for what is not of the type."""
        encoded = msgspec.json.encode(value)
        msgspec.json.decode(encoded, type=self.read_as)
        return msgspec.json.decode(encoded)


class OfPydantic:
    """A type that Pydantic reads. Raises `TypeError` for others."""

    read_as: Any = msgspec.Raw

    def __init__(self, pydantic: Any, hint: Any, prefix: str) -> None:
        # Two parameters may have definitions of one name.
        self._prefix = prefix
        try:
            self._adapter = pydantic.TypeAdapter(hint)
            self.schema(Definitions())
        except (RuntimeError, NameError) as error:
            raise TypeError(str(error)) from None

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        schema: dict[str, Any] = self._adapter.json_schema(ref_template=f"{DEFS}{self._prefix}.{{model}}")
        definitions |= {f"{self._prefix}.{name}": one for name, one in schema.pop("$defs", {}).items()}
        return schema

    def read(self, value: Any) -> object:
        made: object = self._adapter.validate_json(bytes(value))
        return made

    def default(self, value: object) -> object:
        encoded = self._adapter.dump_json(value, warnings="error")
        self._adapter.validate_json(encoded)
        return msgspec.json.decode(encoded)


def reader_of(hint: Any, name: str) -> Plain | OfPydantic:
    """How values of a type are read. Raises `TypeError`, with the reason, for a type that JSON has no form for."""
    pydantic = sys.modules.get("pydantic")  # who has types of its kind has loaded it
    if pydantic is None:
        return Plain(hint)
    if any(_is_of_pydantic(part) for part in _parts(hint)):
        return OfPydantic(pydantic, hint, name)
    try:
        return Plain(hint)
    except TypeError:  # it may still be a dataclass or a union with one of Pydantic's in it
        return OfPydantic(pydantic, hint, name)


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in (*get_args(hint), *getattr(hint, "__metadata__", ())):
        yield from _parts(part)


def _is_of_pydantic(part: Any) -> bool:
    if hasattr(part, "model_json_schema"):
        return True
    return type(part).__module__.partition(".")[0] in _OF_PYDANTIC


def _with_any(hint: Any) -> Any:
    """The type with `Any` for `object`: to msgspec an object is something that only its owner can read."""
    if hint is object:
        return Any
    if not any(part is object for part in _parts(hint)):
        return hint
    origin, arguments = get_origin(hint), tuple(_with_any(one) for one in get_args(hint))
    if origin in (Union, UnionType):
        return reduce(or_, arguments)
    return hint.copy_with(arguments) if hasattr(hint, "copy_with") else origin[arguments]
