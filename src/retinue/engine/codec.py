"""Events to what is stored, and back: secrets by reference, large data as files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from retinue.core import events as e
from retinue.core.messages import AnyPart
from retinue.core.secrets import Secrets
from retinue.core.thread import decode_parts
from retinue.ports.files import Files
from retinue.ports.store import Draft, Recorded

LARGEST_INLINE = 256 * 1024
REFERENCE = '{"$file":'
T = TypeVar("T")


class Codec:
    """What a process knows that a journal must not hold."""

    def __init__(self, secrets: Secrets, files: Files) -> None:
        self._secrets, self._files = secrets, files

    def encode(self, data: e.EventData) -> Draft:
        return Draft(data, self._secrets.hide(e.encode(data)).decode())

    def encode_parts(self, parts: Sequence[AnyPart]) -> str:
        """Parts of a message as they are stored."""
        return self._secrets.hide(e.encode_json(parts, "The message")).decode()

    def parts_used(self, stored: str) -> tuple[AnyPart, ...]:
        """Parts of a message with their secrets, for who answers it."""
        return decode_parts(self._secrets.restore(stored.encode()))

    def parts_shown(self, stored: str) -> tuple[AnyPart, ...]:
        """Parts of a message as people may see them."""
        return decode_parts(self._secrets.show(stored.encode()))

    async def store_large(self, draft: Draft) -> tuple[Draft, tuple[str, int] | None]:
        """The draft as it is, or one that refers to a file with its data."""
        if not is_large(draft):
            return draft, None
        encoded = draft.encoded.encode()
        uri = await self._files.put(encoded)
        return Draft(draft.data, msgspec.json.encode({"$file": uri, "size": len(encoded)}).decode()), (
            uri,
            len(encoded),
        )

    async def forget(self, uris: Iterable[str]) -> None:
        """Delete files that no run refers to any more."""
        for uri in uris:
            await self._files.delete(uri)

    async def used(self, stored: Recorded) -> e.Event:
        """The event with its secrets, for the run itself."""
        return _event(stored, self._secrets.restore(await self._whole(stored.data)))

    async def shown(self, stored: Recorded) -> e.Event:
        """The event as people may see it."""
        return _event(stored, await self.shown_data(stored.data))

    async def shown_data(self, stored: str) -> bytes:
        """An event's data as people may see it."""
        return self._secrets.show(await self._whole(stored))

    async def _whole(self, stored: str) -> bytes:
        if stored.startswith(REFERENCE):
            return await self._files.get(msgspec.json.decode(stored)["$file"])
        return stored.encode()


def is_large(draft: Draft) -> bool:
    """Whether its data belongs in a file."""
    length = len(draft.encoded)  # in characters, of up to four bytes
    return 4 * length > LARGEST_INLINE and (length > LARGEST_INLINE or len(draft.encoded.encode()) > LARGEST_INLINE)


def _event(stored: Recorded, data: bytes) -> e.Event:
    return e.Event(stored.run_id, stored.seq, stored.root_seq, stored.attempt, stored.at, e.decode(stored.type, data))
