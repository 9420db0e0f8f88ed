"""Content, by a short name."""

from __future__ import annotations

import hashlib

import msgspec


def digest_of(value: object) -> str:
    """The same for the same content, in whatever order its keys stand."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:32]
