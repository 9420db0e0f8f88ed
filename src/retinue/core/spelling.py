"""Names that are nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_SHOWN = 12


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Those known words that `word` may be a slip for, the likeliest first."""
    by_small = {name.lower(): name for name in known}
    return [by_small[small] for small in difflib.get_close_matches(word.lower(), by_small, n=3)]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that helps: the nearest names, or else those that there are."""
    names = sorted(known)
    if near := nearest(word, names):
        return f"Did you mean {' or '.join(near)}?"
    if not names:
        return "There is none."
    more = len(names) - MOST_SHOWN
    return f"There is: {', '.join(names[:MOST_SHOWN])}{f' and {more} more' if more > 0 else ''}."
