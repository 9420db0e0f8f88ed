"""What people may answer: JSON Schema."""

from __future__ import annotations

from functools import cache
from types import ModuleType


@cache
def _library() -> ModuleType:
    import jsonschema_rs  # few runs ask anybody: those that do not should not wait for it

    return jsonschema_rs


def wrong_schema(schema: dict[str, object]) -> str:
    """What is wrong with a schema; nothing when nothing is."""
    try:
        _library().validator_for(schema)
    except ValueError as error:
        return str(error).partition("\n")[0]
    return ""


def wrong_answer(schema: dict[str, object], value: object) -> str:
    """Why a value does not fit a schema; nothing when it does."""
    return "; ".join(
        f"{'/'.join(map(str, error.instance_path)) or 'the answer'}: {error.message}"
        for error in _library().validator_for(schema).iter_errors(value)
    )
