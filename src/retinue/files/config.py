"""What `[files]` in retinue.toml says."""

from __future__ import annotations

from typing import Annotated

import msgspec

from retinue.files.addresses import Allowed
from retinue.files.roots import is_root
from retinue.files.texts import public

Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Options = dict[str, str | bool]
MB = 1024 * 1024


class FetchConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[files.fetch]`: what is taken from the web. Without `ports`, from any port.

    `allow_private` names addresses that are not public and still meant: `127.0.0.1:8080`, `10.0.0.0/8`.
    """

    max_mb: Positive = 20
    seconds: Positive = 30
    redirects: Annotated[int, msgspec.Meta(ge=0)] = 5
    ports: tuple[Port, ...] = (80, 443)
    allow_private: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for text in self.allow_private:
            Allowed.parse(text)


class FilesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[files]`.

    `store` is a folder, `s3://BUCKET/PREFIX`, `gs://…` or `az://…`; empty is beside the database. `s3`, `gs` and `az`
    are what their buckets need (region, endpoint, keys), where the environment does not say it. `roots` are
    the folders, buckets and URLs from which file URIs may be read; `file:sha256/…`, what was stored here, needs none.
    """

    store: str = ""
    roots: tuple[str, ...] = ()
    max_mb: Positive = 20
    """Of one file."""
    max_total_mb: Positive = 50
    """Of all files of one run."""
    max_pages: Count = 200
    """Of a PDF that is turned into text."""
    convert_seconds: Positive = 20
    """To turn a PDF or an HTML page into text."""
    folder_mb: Positive = 2
    """Of the text that a folder or an archive becomes."""
    folder_file_kb: Positive = 256
    """Of one file in it."""
    fetch: FetchConfig = FetchConfig()
    s3: Options = {}
    gs: Options = {}
    az: Options = {}

    def __post_init__(self) -> None:
        for root in self.roots:
            if not is_root(root):
                raise ValueError(
                    f"{public(root)!r} is no root: name a folder, s3://BUCKET/PREFIX, gs://…, az://… or https://HOST/PATH"
                )

    def __repr__(self) -> str:
        return f"FilesConfig(store={self.store!r}, roots={self.roots!r}, …)"  # the options hold keys

    def options(self, url: str) -> Options:
        """What the buckets of a URL's kind need."""
        by_scheme = {"s3": self.s3, "gs": self.gs, "az": self.az}
        return by_scheme.get(url.partition("://")[0].lower(), {})

    @property
    def max_bytes(self) -> int:
        return int(self.max_mb * MB)

    @property
    def max_total_bytes(self) -> int:
        return int(self.max_total_mb * MB)
