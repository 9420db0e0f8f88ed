"""`python -m retinue.files.convert KIND OPTION SECONDS`: a document on standard input, its text on standard output.

Ends itself when it takes too much memory, or too much time although whoever started it is gone.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import msgspec

from retinue.files.documents import Text

MEMORY = 2 << 30
LONGEST = 10_000_000


def limit(seconds: float) -> None:
    """Not every system has such limits."""
    try:
        import resource
    except ImportError:
        return
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, int(seconds) + 1)):
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def convert(kind: str, option: str, data: bytes) -> Text | str:
    """Its text, or why there is none."""
    if kind == "pdf":
        from retinue.files import pdf  # each kind loads the one library that it needs

        return pdf.read(data, int(option))
    from retinue.files import html

    return html.read(data.decode(), option)


def cut(said: Text | str) -> Text | str:
    if isinstance(said, str) or len(said.text) <= LONGEST:
        return said
    return Text(said.text[:LONGEST], f"only the first {LONGEST:,} characters of its text are shown")


if __name__ == "__main__":
    kind, option, seconds = sys.argv[1:]
    limit(float(seconds))
    said = cut(convert(kind, option, sys.stdin.buffer.read()))
    sys.stdout.buffer.write(msgspec.json.encode(said))
