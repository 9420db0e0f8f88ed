"""Where bytes are kept, and what a model is shown of the files that people attach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from retinue.core.messages import AnyPart, File
from retinue.ports.models import Takes


class Files(Protocol):
    """Bytes by content: the same bytes have the same URI, so storing twice is storing once."""

    async def put(self, data: bytes) -> str: ...

    async def get(self, uri: str) -> bytes: ...

    async def delete(self, uri: str) -> None:
        """Nothing stored refers to it. What was put again a moment ago stays: somebody is about to refer to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What stands in a prompt in the place of a file: the file itself with its bytes, text made of it, or a note.

    `problem` says what was lost on the way; it becomes a `warning` event, so nothing is dropped in silence.
    """

    parts: tuple[AnyPart, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    problem: str = ""


class Attachments(Protocol):
    """Reads files for a prompt, within the limits of one run. One is made for each run: it reads nothing twice."""

    async def admit(self, file: File) -> None:
        """Raises `BadFile` for a file that is never read, since it lies outside the roots. Says nothing of others."""

    async def open(self, file: File, takes: Takes) -> Opened:
        """Raises `BadFile` when a file that is `required` cannot be shown."""
