"""Where files are kept, as the settings say it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from retinue.errors import BadSettings, ExtraMissing
from retinue.files.local import LocalFiles
from retinue.ports.files import Files


def open_files(place: str, options: Mapping[str, str | bool] | None = None) -> Files:
    """The files in a folder, or in a bucket: `s3://BUCKET/PREFIX`, `gs://…`, `az://…`. Nothing is asked yet."""
    if "://" not in place:
        if not place:
            raise BadSettings(where="[files] store", problem="it names no folder and no bucket")
        return LocalFiles(Path(place).expanduser())
    try:
        from retinue.files.remote import Bucket, RemoteFiles  # obstore is an extra
    except ImportError:
        raise ExtraMissing(what="Files in a bucket", extra="files") from None
    return RemoteFiles(Bucket(place, options or {}))
