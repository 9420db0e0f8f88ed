"""How a stored file is named: by what is in it."""

from __future__ import annotations

import hashlib
import re

from retinue.errors import FileMissing

STILL_WANTED_SECONDS = 3600
SCHEME = "file:sha256/"
_uri = re.compile(r"file:sha256/([0-9a-f]{64})")


def uri_of(data: bytes) -> str:
    """The same bytes have the same name."""
    return SCHEME + hashlib.sha256(data).hexdigest()


def key_of(uri: str) -> str:
    """Where it lies in a folder or bucket: in one of 256 places, so that none holds too many."""
    found = _uri.fullmatch(uri)
    if not found:
        raise FileMissing(uri=uri)
    return f"{found[1][:2]}/{found[1]}"
