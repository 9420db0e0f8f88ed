"""What people may answer: JSON Schema."""

from __future__ import annotations

from retinue.core.schema import misfits


def wrong_answer(schema: dict[str, object], value: object) -> str:
    """Why a value does not fit a schema; nothing when it does."""
    return "; ".join(
        f"{'/'.join(map(str, problem.key)) or 'the answer'}: {problem.text}" for problem in misfits(schema, value)
    )
