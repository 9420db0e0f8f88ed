"""Taking away what is left of what was deleted: threads in which nothing runs any more, files that nobody holds."""

from __future__ import annotations

from retinue.engine.codec import Codec
from retinue.ports.store import Forget, Purge, Store

FILES_STAY_MS = 3_660_000
"""The file store keeps what was stored within the last hour: somebody may be about to refer to it."""


async def purge(store: Store, codec: Codec, thread_id: str) -> bool:
    """Whether it is gone."""
    pruned = await store.purge(Purge(thread_id=thread_id))
    if pruned is None:
        return False
    await codec.forget(pruned.files)
    return True


async def sweep(store: Store, codec: Codec) -> None:
    """Delete the files that were too new to be deleted when they became nobody's, or that a crash left."""
    orphans = await store.orphans(await store.now() - FILES_STAY_MS)
    if orphans:
        await codec.forget([uri for uri, used in orphans.items() if not used])
        await store.forget(Forget(uris=tuple(orphans)))
