"""Ids: UUIDv7 in 26 sortable characters behind a prefix that says what the id is of."""

from __future__ import annotations

import os
import time
import uuid
from base64 import b32hexdecode, b32hexencode

VERSION = 7 << 76
VARIANT = 2 << 62


def new_id(prefix: str) -> str:
    """A new id like `run_06fgk2…`; ids made later sort later, down to a fraction of a microsecond."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    random = int.from_bytes(os.urandom(8), "big") >> 2
    number = milliseconds << 80 | VERSION | (rest * 4096 // 1_000_000) << 64 | VARIANT | random
    return f"{prefix}_{b32hexencode(number.to_bytes(16, 'big'))[:26].decode().lower()}"


def uuid_of(identifier: str) -> uuid.UUID:
    """The UUID inside an id."""
    text = identifier.partition("_")[2].upper()
    return uuid.UUID(bytes=b32hexdecode(text + "=" * 6))
