"""What the formats of providers have words for, and names that all of them permit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2s

from retinue.ports.models import ToolSpec

LONGEST_NAME = 64
_strange = re.compile(r"[^A-Za-z0-9_-]")
_sayable = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}")


class Unsayable(ValueError):
    """The format has no words for it."""


class Names:
    """Formats permit few characters in the name of a tool: others are spelled differently there, and back here."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._meant = {spelled(tool.name): tool.name for tool in tools if not _sayable.fullmatch(tool.name)}

    def meant(self, name: str) -> str:
        return self._meant.get(name, name)


def spelled(name: str) -> str:
    """The name itself, if all formats permit it; otherwise something like it that no other tool is called.

    OpenAI's format has the shortest names, and Gemini's is the one whose names begin with a letter or `_`.
    """
    if _sayable.fullmatch(name):
        return name
    mark = blake2s(name.encode(errors="replace"), digest_size=3).hexdigest()
    plain = _strange.sub("_", name)
    if not _sayable.match(plain):
        plain = f"_{plain}"
    return f"{plain[: LONGEST_NAME - 7]}_{mark}"
