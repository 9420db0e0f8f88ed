"""Where what is too large for a journal is kept."""

from __future__ import annotations

from typing import Protocol


class Files(Protocol):
    """Bytes by content: the same bytes have the same URI, so storing twice is storing once."""

    async def put(self, data: bytes) -> str: ...

    async def get(self, uri: str) -> bytes: ...

    async def delete(self, uri: str) -> None:
        """Nothing stored refers to it. What was put again a moment ago stays: somebody is about to refer to it."""
