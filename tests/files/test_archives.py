"""Archives as one text: none of them writes anything, leads anywhere or explodes."""

from __future__ import annotations

import io
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from retinue.errors import BadFile
from retinue.files import archives
from retinue.files.archives import is_archive, read_archive
from retinue.files.bundle import Bundle
from retinue.files.config import FilesConfig
from retinue.files.patterns import Patterns
from tests.files.samples import PNG, tarred, zipped
from tests.files.test_folders import shown

FILES = {"p/README.md": b"# Project", "p/src/a.py": b"print()", "p/logo.png": PNG, "p/node_modules/m.js": b"module"}
KINDS: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "x.zip": zipped,
    "x.tar": lambda files: tarred(files, ""),
    "x.tar.gz": lambda files: tarred(files, "gz"),
    "x.tgz": lambda files: tarred(files, "gz"),
    "x.tar.bz2": lambda files: tarred(files, "bz2"),
    "x.tar.xz": lambda files: tarred(files, "xz"),
}


def read(data: bytes, name: str = "x.zip", patterns: Patterns | None = None) -> Bundle:
    return read_archive(data, name, patterns or Patterns(), FilesConfig())


@pytest.mark.parametrize("name", KINDS)
def test_an_archive_is_a_tree_and_its_text_files(name: str) -> None:
    bundle = read(KINDS[name](FILES), name)
    assert bundle.text.startswith("x/\n  p/\n    README.md\n    logo.png  (not text)\n    src/\n      a.py\n\n[File")
    assert shown(bundle) == ["p/README.md", "p/src/a.py"]
    assert bundle.notes == ("x: left out as not text: p/logo.png", "x: left out as excluded: p/node_modules/m.js")


@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz"])
def test_what_git_archives_is_read(form: str, tmp_path: Path) -> None:
    def git(*words: str) -> bytes:
        return subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True).stdout

    git("init", "-q")
    (tmp_path / "a.txt").write_text("in git")
    git("add", "a.txt")
    git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "First")
    bundle = read(git("archive", f"--format={form}", "--prefix=p/", "HEAD"), f"p.{form}")
    assert shown(bundle) == ["p/a.txt"]
    assert "in git" in bundle.text


def test_include_and_exclude_choose() -> None:
    assert shown(read(zipped(FILES), "x.zip", Patterns(["*.py"]))) == ["p/src/a.py"]
    assert shown(read(tarred(FILES), "x.tar.gz", Patterns(exclude=["src/"]))) == ["p/README.md"]


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz"])
@pytest.mark.parametrize("path", ["../evil.txt", "a/../../evil.txt", "/etc/evil.txt", "a\\..\\evil.txt"])
def test_a_path_that_leads_out_of_it_is_left_out(
    name: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bundle = read(KINDS[name]({path: b"evil", "good.txt": b"good"}), name)
    assert shown(bundle) == ["good.txt"]
    assert bundle.notes[0].startswith("x: left out as outside of it")
    assert not list(tmp_path.parent.rglob("evil.txt"))


def test_links_and_devices_are_left_out() -> None:
    link, hard, device = tarfile.TarInfo("link"), tarfile.TarInfo("hard"), tarfile.TarInfo("device")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard.type, hard.linkname = tarfile.LNKTYPE, "good.txt"
    device.type = tarfile.CHRTYPE
    bundle = read(tarred({"good.txt": b"good"}, "gz", [link, hard, device]), "x.tar.gz")
    assert shown(bundle) == ["good.txt"]
    assert bundle.notes == ("x: left out as a link: link, hard", "x: left out as no regular file: device")


def test_a_link_in_a_zip_is_left_out() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
        archive.writestr("good.txt", "good")
    bundle = read(out.getvalue())
    assert shown(bundle) == ["good.txt"]
    assert bundle.notes == ("x: left out as a link: link",)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "x.tar"])
def test_a_bomb_is_refused(name: str) -> None:
    bomb = KINDS[name]({f"{n}.txt": b"\0" * (4 << 20) for n in range(4)})
    assert len(bomb) < 20_000
    with pytest.raises(BadFile, match="unpacks to more than 10 MB"):
        read(bomb, name)


def test_a_member_that_is_too_large_is_not_unpacked_from_a_zip() -> None:
    files = {"a.txt": b"a" * (9 << 20), "b.txt": b"b"}
    assert read(zipped(files)).notes == ("x: left out as larger than 256 KB: a.txt",)


def test_a_member_that_has_more_than_it_says_is_cut() -> None:
    data = bytearray(zipped({"a.txt": b"a" * 300_000, "b.txt": b"b"}))
    for signature, offset in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        struct.pack_into("<I", data, data.index(signature) + offset, 10)
    bundle = read(bytes(data))
    assert "b.txt" in shown(bundle)
    assert "a" * 300_000 not in bundle.text


def test_an_encrypted_member_is_left_out() -> None:
    data = bytearray(zipped({"a.txt": b"a"}))
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        struct.pack_into("<H", data, data.index(signature) + offset, 1)
    assert read(bytes(data)).notes == ("x: left out as encrypted: a.txt",)


def test_a_member_of_an_unknown_kind_is_left_out() -> None:
    data = bytearray(zipped({"a.txt": b"a", "b.txt": b"b"}))
    for signature, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        struct.pack_into("<H", data, data.index(signature) + offset, 99)
    bundle = read(bytes(data))
    assert bundle.notes == ("x: left out as unreadable: a.txt",)
    assert shown(bundle) == ["b.txt"]


@pytest.mark.parametrize("name", KINDS)
def test_an_archive_that_is_cut_off_is_refused(name: str) -> None:
    data = KINDS[name]({"a.bin": bytes(range(256)) * 2000})
    with pytest.raises(BadFile, match="broken"):
        read(data[: len(data) // 2], name)


def test_a_crowd_of_members_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    with pytest.raises(BadFile, match="more than 3 members"):
        read(zipped({f"{n}.txt": b"x" for n in range(5)}))


def test_only_what_is_named_like_an_archive_and_is_one_is_looked_into() -> None:
    data = zipped(FILES)
    assert is_archive("x.ZIP", data)
    assert not is_archive("x.docx", data)
    assert not is_archive("x.zip", b"no zip")
    assert is_archive("x.tar.gz", tarred(FILES))
    assert not is_archive("x.gz", tarred(FILES))
