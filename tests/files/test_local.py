"""Files by content."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retinue.errors import FileMissing, FilesUnavailable
from retinue.files.local import LocalFiles, MemoryFiles
from retinue.ports.files import Files


@pytest.fixture(params=["folder", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return LocalFiles(tmp_path / "files") if request.param == "folder" else MemoryFiles()


async def test_what_was_put_can_be_got(files: Files) -> None:
    uri = await files.put(b"some bytes")
    assert await files.get(uri) == b"some bytes"
    assert await files.put(b"some bytes") == uri != await files.put(b"others")


async def test_the_same_bytes_can_be_put_by_many_at_once(files: Files) -> None:
    data = b"x" * 1_000_000
    (uri,) = set(await asyncio.gather(*(files.put(data) for _ in range(20))))
    assert await files.get(uri) == data


@pytest.mark.parametrize("uri", ["file:sha256/" + "0" * 64, "file:sha256/../../etc/passwd", "http://x", ""])
async def test_a_file_that_is_not_there_is_a_typed_error(files: Files, uri: str) -> None:
    with pytest.raises(FileMissing, match="--fresh"):
        await files.get(uri)


async def test_a_folder_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("this is no folder")
    with pytest.raises(FilesUnavailable, match="cannot be written"):
        await LocalFiles(tmp_path / "files").put(b"some bytes")
