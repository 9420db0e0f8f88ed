"""Secrets by reference: a known value is stored as `${secret:NAME}` and put back only where it is used.

A text that looks like a reference and is none is stored with an empty name, so nobody can make one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

OPEN = "${secret:"
SHORTEST = 6
_name_of = re.compile(r"[A-Za-z0-9_.-]+")
_string = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_reference = re.compile(r"\$\{secret:([A-Za-z0-9_.-]*)\}")


class Secrets:
    """The secrets that this process knows, by name."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        for name, value in self._values.items():
            if not _name_of.fullmatch(name):
                raise ValueError(f"a secret's name is made of letters, digits and _ . -, not {name!r}")
            if len(value) < SHORTEST:
                raise ValueError(
                    f"secret {name} is too short to be told from ordinary text ({SHORTEST} characters at least)"
                )
        self._names = {_in_json(value): name for name, value in self._values.items()}
        longest_first = sorted(self._names, key=len, reverse=True)
        marks = "|".join(map(re.escape, [*longest_first, OPEN]))
        self._any = re.compile(marks)
        # An escape is one character: no secret begins in the middle of it.
        self._pattern = re.compile(rf"{marks}|\\(?:u....|.)")

    def hide(self, encoded: bytes) -> bytes:
        """JSON without any known value in it."""
        if not self._names and b"${secret:" not in encoded:
            return encoded
        text = encoded.decode()
        if not self._any.search(text):
            return encoded
        return _string.sub(lambda string: self._pattern.sub(self._name, string[0]), text).encode()

    def _name(self, found: re.Match[str]) -> str:
        if found[0][0] == "\\" and found[0] not in self._names:
            return found[0]
        return f"{OPEN}{self._names.get(found[0], '')}}}"

    def restore(self, encoded: bytes) -> bytes:
        """The JSON with the secrets put back, for the code that uses them."""
        return _replace(encoded, self._escaped)

    def _escaped(self, name: str) -> str:
        value = self._values.get(name)
        return f"{OPEN}{name}}}" if value is None else _in_json(value)

    @staticmethod
    def show(encoded: bytes) -> bytes:
        """The JSON as people may see it: references stay, a text that only looks like one is as it was."""
        return _replace(encoded, lambda name: f"{OPEN}{name}}}")


def _replace(encoded: bytes, put: Callable[[str], str]) -> bytes:
    if b"${secret:" not in encoded:
        return encoded
    return _reference.sub(lambda found: put(found[1]) if found[1] else OPEN, encoded.decode()).encode()


def _in_json(value: str) -> str:
    return msgspec.json.encode(value).decode()[1:-1]
