"""Taking away what is left of what was deleted: threads in which nothing runs any more, files that nobody holds, and
the folders that runs worked in."""

from __future__ import annotations

from retinue.engine.codec import Codec
from retinue.ports.store import Forget, Pruned, Purge, Store
from retinue.ports.tools import Workspaces

FILES_STAY_MS = 3_660_000
"""The file store keeps what was stored within the last hour: somebody may be about to refer to it."""


async def purge(store: Store, codec: Codec, workspaces: Workspaces, thread_id: str) -> bool:
    """Whether it is gone."""
    pruned = await store.purge(Purge(thread_id=thread_id))
    if pruned is None:
        return False
    await clear(codec, workspaces, pruned)
    return True


async def clear(codec: Codec, workspaces: Workspaces, pruned: Pruned) -> None:
    """Delete what was kept outside of the database for what was deleted there."""
    for root_id in pruned.roots:
        await workspaces.forget(root_id)
    await codec.forget(pruned.files)


async def sweep(store: Store, codec: Codec) -> None:
    """Delete the files that were too new to be deleted when they became nobody's, or that a crash left."""
    orphans = await store.orphans(await store.now() - FILES_STAY_MS)
    if orphans:
        await codec.forget([uri for uri, used in orphans.items() if not used])
        await store.forget(Forget(uris=tuple(orphans)))
