"""File parts from what people name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp.web import Response

from retinue.core.messages import File
from retinue.errors import BadAddress, BadFile, BadInput
from retinue.files.config import FetchConfig, FilesConfig
from retinue.files.context import Gathered, Stored, gather
from retinue.files.local import MemoryFiles
from retinue.files.roots import Roots
from tests.files.samples import JPEG, PNG, pdf, tarred, zipped
from tests.files.servers import Web


class KeptFiles(MemoryFiles):
    """Shows what was put."""

    @property
    def kept(self) -> list[bytes]:
        return list(self._files.values())


@pytest.fixture
def files() -> KeptFiles:
    return KeptFiles()


async def text(files: MemoryFiles, gathered: Gathered) -> str:
    """Of the one file."""
    (part,) = gathered.parts
    return (await files.get(part.uri)).decode()


async def test_a_path_becomes_a_part_with_its_true_type(files: KeptFiles, tmp_path: Path) -> None:
    for name, data in {"a.txt": b"text", "photo.png": JPEG, "r.pdf": pdf("x"), "none": PNG}.items():
        (tmp_path / name).write_bytes(data)
    sources = [str(tmp_path / name) for name in ("a.txt", "photo.png", "r.pdf", "none")]
    gathered = await gather(sources, files)
    kinds = [(part.name, part.media_type) for part in gathered.parts]
    assert kinds == [
        ("a.txt", "text/plain"),
        ("photo.png", "image/jpeg"),
        ("r.pdf", "application/pdf"),
        ("none", "image/png"),
    ]
    assert gathered.notes == ()
    assert gathered.stored[0] == Stored(gathered.parts[0].uri, 4, "text/plain", "a.txt")
    assert await files.get(gathered.parts[0].uri) == b"text"


async def test_what_is_named_twice_is_one_part_and_stored_once(files: KeptFiles, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.txt").write_text("text")
    gathered = await gather([str(tmp_path / name) for name in ("a.txt", "a.txt", "b.txt")], files)
    assert [part.name for part in gathered.parts] == ["a.txt", "b.txt"]
    assert files.kept == [b"text"]


async def test_a_folder_becomes_one_text(files: KeptFiles, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("print()")
    (project / "b.md").write_text("# B")
    (project / "c.png").write_bytes(PNG)
    gathered = await gather([str(project)], files, include=["*.py", "*.png"])
    assert gathered.parts == (File(uri=gathered.parts[0].uri, media_type="text/plain", name="project/"),)
    assert "print()" in await text(files, gathered)
    assert "# B" not in await text(files, gathered)
    assert gathered.notes == ("project: left out as not text: c.png",)


@pytest.mark.parametrize("name", ["p.zip", "p.tar.gz"])
async def test_an_archive_becomes_one_text(files: KeptFiles, tmp_path: Path, name: str) -> None:
    make = zipped if name == "p.zip" else tarred
    (tmp_path / name).write_bytes(make({"p/a.py": b"print()", "p/b.md": b"# B"}))
    gathered = await gather([str(tmp_path / name)], files, exclude=["*.md"])
    assert gathered.parts[0].name == "p/"
    assert "print()" in await text(files, gathered)
    assert "# B" not in await text(files, gathered)


async def test_a_page_becomes_markdown_under_its_title_and_address(files: KeptFiles, web: Web) -> None:
    page = (
        "<html><head><title>Über uns</title><script>bad()</script><style>x{}</style></head><p>See <a href='/b'>b</a>."
    )
    web.at["/about"] = Response(body=page.encode("latin-1"), headers={"Content-Type": "text/html; charset=ISO-8859-1"})
    gathered = await gather([f"{web.url}/about?token=secret"], files, FilesConfig(fetch=web.allowed()))
    assert await text(files, gathered) == f"Source: {web.url}/about\n\n# Über uns\n\nSee [b]({web.url}/b).\n"
    assert gathered.parts[0].media_type == "text/markdown"
    assert gathered.parts[0].name == f"{web.place}/about"


async def test_another_file_of_the_web_is_kept_as_it_is(files: KeptFiles, web: Web) -> None:
    web.at["/r"] = Response(body=pdf("x"), headers={"Content-Disposition": 'attachment; filename="../../r.pdf"'})
    web.at["/t.txt"] = Response(body="Привет".encode("koi8-r"), headers={"Content-Type": "text/plain; charset=koi8-r"})
    web.at["/p.zip"] = Response(body=zipped({"a.txt": b"inside"}))
    config = FilesConfig(fetch=web.allowed())
    gathered = await gather([f"{web.url}{path}" for path in ("/r", "/t.txt", "/p.zip")], files, config)
    assert [(part.name, part.media_type) for part in gathered.parts] == [
        ("r.pdf", "application/pdf"),
        ("t.txt", "text/plain; charset=koi8-r"),
        ("p/", "text/plain"),
    ]


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/", "http://localhost/", "http://10.0.0.1/"])
async def test_a_private_url_is_refused(files: KeptFiles, url: str) -> None:
    with pytest.raises(BadAddress, match="leads to"):
        await gather([url], files)


async def test_with_one_that_cannot_be_had_nothing_is_stored(files: KeptFiles, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(BadFile, match=r"b\.txt cannot be used: it is not there"):
        await gather([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")], files)
    assert not files.kept


async def odd_files(folder: Path) -> Sequence[tuple[str, str]]:
    (folder / "empty").write_bytes(b"")
    (folder / "large").write_bytes(b"x" * 3000)
    (folder / "dangling").symlink_to(folder / "nothing")
    (folder / "none").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "broken.zip").write_bytes(zipped({"a": b"b"})[:-10])
    return [
        ("empty", "it is empty"),
        ("large", "the limit is 2.0 KB"),
        ("dangling", "it is not there"),
        ("none", "no text file is in it"),
        ("pipe", "no regular file"),
        ("broken.zip", "it is broken"),
        ("nothing\0", "it is no path"),
        ("x" * 5000, "cannot be read"),
    ]


async def test_what_cannot_be_read_is_a_reason(files: KeptFiles, tmp_path: Path) -> None:
    for name, problem in await odd_files(tmp_path):
        with pytest.raises(BadFile, match=problem):
            await gather([str(tmp_path / name)], files, FilesConfig(max_mb=0.002))
    assert not files.kept


async def test_the_home_of_nobody_is_no_path(files: KeptFiles) -> None:
    with pytest.raises(BadFile, match="it is no path"):
        await gather(["~nobody-at-all/a.txt"], files)


async def test_a_page_in_no_charset_is_refused(files: KeptFiles, web: Web) -> None:
    web.at["/"] = Response(body=b"<html>" + bytes(range(128, 256)), headers={"Content-Type": "text/html"})
    with pytest.raises(BadAddress, match="no charset"):
        await gather([web.url], files, FilesConfig(fetch=web.allowed()))


async def test_all_of_it_has_a_limit(files: KeptFiles, tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.txt").write_text(str(n) * 900)
    with pytest.raises(BadFile, match=r"2\.txt cannot be used: with it, the files have more than 2.0 KB"):
        await gather([str(tmp_path / f"{n}.txt") for n in range(3)], files, FilesConfig(max_total_mb=0.002))


async def test_what_others_name_stays_inside_the_roots(files: KeptFiles, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "a.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("outside")
    (tmp_path / "open" / "link").symlink_to(tmp_path)
    roots = Roots([str(tmp_path / "open")])
    inside = tmp_path / "open" / "a.txt"
    for source in (str(inside), inside.as_uri()):
        assert (await gather([source], files, roots=roots)).parts[0].name == "a.txt"
    for path in (
        tmp_path / "secret.txt",
        tmp_path / "open" / "link" / "secret.txt",
        tmp_path / "open" / ".." / "secret.txt",
    ):
        with pytest.raises(BadFile, match="outside the roots"):
            await gather([str(path)], files, roots=roots)


async def test_a_bucket_is_read_only_inside_the_roots(files: KeptFiles) -> None:
    with pytest.raises(BadFile, match="outside the roots"):
        await gather(["s3://bucket/a.txt"], files)


@pytest.mark.parametrize("source", ["ftp://example.org/a", "data://x"])
async def test_another_kind_of_url_is_refused(files: KeptFiles, source: str) -> None:
    with pytest.raises(BadAddress, match="only http"):
        await gather([source], files, FilesConfig(fetch=FetchConfig()))


async def test_a_pattern_that_is_none_is_refused(files: KeptFiles, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no pattern"):
        await gather([str(tmp_path)], files, include=["!"])
