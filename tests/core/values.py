"""Values to draw: any JSON, and any event."""

from __future__ import annotations

import types
from dataclasses import fields
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from retinue.core.events import EventData

texts = st.text(max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
_plain: dict[object, st.SearchStrategy[Any]] = {
    object: json_values,
    str: texts,
    bool: st.booleans(),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    types.NoneType: st.none(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Anything that a field with this annotation may hold."""
    if hint in _plain:
        return _plain[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(argument) for argument in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    names = hint.__struct_fields__ if issubclass(hint, msgspec.Struct) else [field.name for field in fields(hint)]
    hints = get_type_hints(hint)
    return st.builds(hint, **{name: values_of(hints[name]) for name in names})


def events_of(kind: type[EventData]) -> st.SearchStrategy[EventData]:
    """Any event of this type."""
    found: st.SearchStrategy[EventData] = values_of(kind)
    return found
