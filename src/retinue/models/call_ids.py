"""Ids for calls whose model gives none: the same each time, and no two alike in a transcript."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2s

import msgspec

from retinue.core.messages import Message, ToolCall


def with_ids(calls: Sequence[ToolCall], messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls, each with an id. What is made follows from the last message, and so from the ids that are in it."""
    seed = f"{len(messages)} {messages[-1] if messages else ''}".encode(errors="backslashreplace")
    return tuple(
        call
        if call.call_id
        else msgspec.structs.replace(call, call_id=f"call_{blake2s(seed, digest_size=6, key=b'%d' % n).hexdigest()}")
        for n, call in enumerate(calls)
    )
