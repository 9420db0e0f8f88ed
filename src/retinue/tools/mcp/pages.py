"""Lists that servers give page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from mcp import MCPError
from mcp.types import METHOD_NOT_FOUND

MOST = 10_000
"""Of a list. Nobody can mean more, and one that never ends must."""
MOST_PAGES = 1_000


class Page(Protocol):
    next_cursor: str | None


P = TypeVar("P", bound=Page)
T = TypeVar("T")


async def listed(ask: Callable[[str | None], Awaitable[P]], items: Callable[[P], Sequence[T]]) -> tuple[list[T], bool]:
    """All that is listed, and whether that is all. A server that has no such list has an empty one."""
    found: list[T] = []
    async for page in _pages(ask):
        found += items(page)
        if len(found) > MOST:
            return found[:MOST], False
    return found, True


async def _pages(ask: Callable[[str | None], Awaitable[P]]) -> AsyncIterator[P]:
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        try:
            page = await ask(cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                return
            raise
        yield page
        cursor = page.next_cursor
        if cursor is None or cursor in seen:
            return
        seen.add(cursor)
