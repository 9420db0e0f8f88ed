"""From which folders, buckets and URLs file URIs may be read. What lies outside is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from retinue.errors import BadFile
from retinue.files.texts import shown_name

BUCKETS = ("s3", "gs", "az")
WEB = ("http", "https")
# What a server might read as another path than the one that was compared.
_dodges = re.compile(r"%2f|%5c|%25|\\", re.IGNORECASE)


def scheme_of(uri: str) -> str:
    """`file`, `https`, `s3` …; nothing if it is a path."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+-]+):", uri)
    return found[1].lower() if found else ""


class Roots:
    """The folders and prefixes of the settings."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._folders = [Path(root).expanduser().resolve() for root in roots if "://" not in root]
        prefixes = [_comparable(root) for root in roots if "://" in root]
        self._prefixes = [prefix if prefix.endswith("/") else f"{prefix}/" for prefix in prefixes if prefix]

    def path(self, uri: str) -> Path:
        """The file that a `file:///…` URI names, links followed. Raises `BadFile` for one outside."""
        parts = urlsplit(uri)
        written = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not written.startswith("/") or "\0" in written:
            raise self._outside(uri)
        try:
            path = Path(written).resolve()
        except (OSError, RuntimeError):  # links in a circle
            raise self._outside(uri) from None
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise self._outside(uri)
        return path

    def holds(self, url: str) -> bool:
        """Whether a web or bucket URL lies under a root."""
        address = _comparable(url)
        return any(f"{address}/".startswith(prefix) for prefix in self._prefixes if address)

    def check(self, url: str) -> None:
        """Raises `BadFile` for a web or bucket URL outside."""
        if not self.holds(url):
            raise self._outside(url)

    def _outside(self, uri: str) -> BadFile:
        return BadFile(
            name=shown_name(uri.partition("?")[0]),
            problem="it lies outside the roots from which files may be read; they are set as `roots` under [files]",
        )


def is_root(root: str) -> bool:
    """Whether it can be one: a folder, or a URL that can be compared."""
    return "://" not in root or (scheme_of(root) in (*BUCKETS, *WEB) and _comparable(root) != "")


def _comparable(url: str) -> str:
    """The URL in the form in which it can be compared by its beginning; nothing if it cannot."""
    scheme = scheme_of(url)
    if scheme in BUCKETS:
        path, start = url.partition("://")[2], f"{scheme}://"
    else:
        try:
            parts = urlsplit(url)
            port = parts.port or {"http": 80, "https": 443}.get(scheme, 0)
        except ValueError:
            return ""
        if "@" in parts.netloc or _dodges.search(parts.path):
            return ""
        path, start = unquote(parts.path), f"{scheme}://{(parts.hostname or '').rstrip('.')}:{port}"
    return "" if {".", ".."} & set(path.split("/")) else start + path
