"""Taking away what is left of a deleted thread, once nothing runs in it any more."""

from __future__ import annotations

from retinue.engine.codec import Codec
from retinue.ports.store import Purge, Store


async def purge(store: Store, codec: Codec, thread_id: str) -> bool:
    """Whether it is gone."""
    pruned = await store.purge(Purge(thread_id=thread_id))
    if pruned is None:
        return False
    await codec.forget(pruned.files)
    return True
