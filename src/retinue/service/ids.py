"""Ids as people type them: the beginning or the end is enough where it says which."""

from __future__ import annotations

from retinue.errors import AmbiguousId
from retinue.ports.store import Store

MOST_ALIKE = 5


async def id_like(store: Store, table: str, prefix: str, text: str) -> str:
    """The one id that begins or ends like that; what was typed when there is none."""
    said = text if text.startswith(f"{prefix}_") else f"{prefix}_{text}"
    found = await store.ids_like(table, said, MOST_ALIKE) if said[len(prefix) + 1 :].isalnum() else []
    if len(found) > 1:
        raise AmbiguousId(given=text, found=", ".join(found) + (" …" if len(found) == MOST_ALIKE else ""))
    return found[0] if found else text
