"""Files in a bucket: S3, Google Cloud Storage, Azure Blob Storage, and what speaks like them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from retinue.errors import BadFile, BadSettings, FileMissing, FilesUnavailable
from retinue.files.content import STILL_WANTED_SECONDS, key_of, uri_of
from retinue.files.texts import shown_name, size_of

_KINDS: dict[str, type[S3Store] | type[GCSStore] | type[AzureStore]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_RETRY = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
_CLIENT = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "5m"}
# Where credentials come from when none were said: a service of the cloud's own machines.
_ASKS_THE_CLOUD = re.compile(r"latest/api/token|latest/meta-data|computeMetadata|metadata/identity|token request")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist")
_SAYS = (
    ("dns error", "its server has no address"),
    ("ConnectionRefused", "its server cannot be reached"),
    ("TimedOut", "its server does not answer in time"),
    ("kind: Timeout", "its server does not answer in time"),
    ("kind: Connect", "its server cannot be reached"),
)


class Bucket:
    """What is under `s3://BUCKET/PREFIX`, `gs://…` or `az://…`, with errors that say what to do."""

    def __init__(self, url: str, options: Mapping[str, str | bool]) -> None:
        self.place = url
        scheme, _, path = url.partition("://")
        self._scheme = scheme.lower()
        name, _, prefix = path.partition("/")
        if self._scheme not in _KINDS or not name:
            raise BadSettings(where=url, problem="it is no bucket: say s3://BUCKET/PREFIX, gs://… or az://…")
        client = {**_CLIENT, "allow_http": any(str(value).startswith("http://") for value in options.values())}
        make: Any = _KINDS[self._scheme]
        try:
            self._store = make(
                name, prefix=prefix or None, config=dict(options), client_options=client, retry_config=_RETRY
            )
        except UnknownConfigurationKeyError as error:
            raise self._wrong(f"{_quoted(error)} is no setting of such a bucket") from None
        except (BaseError, ValueError, TypeError) as error:
            raise self._wrong(_unquoted(error)) from None

    def _wrong(self, problem: str) -> BadSettings:
        return BadSettings(where=f"[files.{self._scheme}]", problem=problem)

    async def put(self, key: str, data: bytes) -> None:
        with self._translated(key):
            await self._store.put_async(key, data, use_multipart=False)

    async def create(self, key: str, data: bytes) -> bool:
        """Put it if it is not there. Whether it was not; a try whose answer was lost may have put it there."""
        with self._translated(key):
            try:
                await self._store.put_async(key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    async def read(self, key: str, at_most: int | None = None) -> bytes:
        """Raises `BadFile` for one that is not there, or too large."""
        with self._translated(key):
            found = await self._store.get_async(key)
            size = found.meta["size"]
            if at_most is not None and size > at_most:
                problem = f"it has {size_of(size)}, the limit is {size_of(at_most)} (`max_mb` under [files])"
                raise BadFile(name=shown_name(key), problem=problem)
            return bytes(await found.bytes_async())

    async def age(self, key: str) -> float | None:
        """Seconds since it was written; None if it is not there."""
        try:
            with self._translated(key):
                return time.time() - float((await self._store.head_async(key))["last_modified"].timestamp())
        except BadFile:
            return None

    async def delete(self, key: str) -> None:
        try:
            with self._translated(key):
                await self._store.delete_async(key)
        except BadFile:
            return

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if _NO_BUCKET.search(str(error)):
                raise FilesUnavailable(place=self.place, problem="there is no such bucket") from None
            raise BadFile(name=shown_name(key), problem="it is not there") from None
        except (BaseError, OSError) as error:
            raise FilesUnavailable(place=self.place, problem=self._problem(error)) from None
        except ValueError:
            raise BadFile(name=shown_name(key), problem="no bucket has a file of that name") from None

    def _problem(self, error: BaseException) -> str:
        """What happened, in our words: the library's hold addresses, and those can hold signatures."""
        text = str(error)
        if _ASKS_THE_CLOUD.search(text):
            return f"there are no credentials: set them in the environment, or under [files.{self._scheme}]"
        code = _first(r"<Code>(\w{1,60})</Code>", text) or _first(r"status: (\d{3})", text)
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or code in ("401", "403"):
            return f"access is denied ({code}); check the credentials and what they may do"
        said = next((said for sign, said in _SAYS if sign in text), "")
        return said or (f"its server answered {code}" if code else "the request failed")


class RemoteFiles:
    """Files in a bucket, under the same names as in a folder. One is whole or not there.

    A bucket has no way to delete only what nobody has wanted since, so who puts what is already there leaves a mark
    beside it, then looks whether it is still there; who deletes looks for the mark afterwards, and puts back
    what was wanted meanwhile. One of the two sees the other.
    """

    def __init__(self, bucket: Bucket, still_wanted: float = STILL_WANTED_SECONDS) -> None:
        self._bucket, self._still_wanted = bucket, still_wanted

    async def put(self, data: bytes) -> str:
        uri = uri_of(data)
        key = key_of(uri)
        # Asking first whether it is there would cost each new file a request, and may not be allowed.
        while not await self._bucket.create(key, data):
            if await self._stays(key):
                break
        return uri

    async def _stays(self, key: str) -> bool:
        age = await self._bucket.age(key)
        if age is None or age < self._still_wanted / 2:
            return age is not None
        await self._bucket.put(_mark(key), b"")
        return await self._bucket.age(key) is not None

    async def get(self, uri: str) -> bytes:
        try:
            return await self._bucket.read(key_of(uri))
        except BadFile:
            raise FileMissing(uri=uri) from None

    async def delete(self, uri: str) -> None:
        key = key_of(uri)
        if await self._is_wanted(key) or await self._is_wanted(_mark(key)):
            return
        try:
            data = await self._bucket.read(key)
        except BadFile:
            return
        await self._bucket.delete(key)
        if await self._is_wanted(_mark(key)):
            await self._bucket.create(key, data)
        else:
            await self._bucket.delete(_mark(key))

    async def _is_wanted(self, key: str) -> bool:
        age = await self._bucket.age(key)
        return age is not None and age < self._still_wanted


def _mark(key: str) -> str:
    return f"{key}.wanted"


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def _quoted(error: BaseException) -> str:
    return _first(r"'([\w-]{1,60})'", str(error)) or "something"


def _unquoted(error: BaseException) -> str:
    """Its first line, up to what it quotes: that may be a key."""
    return re.split(r"[\"'{]", str(error).partition("\n")[0])[0].strip().rstrip(":")
