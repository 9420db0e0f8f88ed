"""What a file is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.files.kinds import UNKNOWN, charset_of, essence, is_text, kind_of
from tests.files.samples import JPEG, LATIN_1, MP3, PNG, pdf, tarred, zipped

types = st.sampled_from(
    ["", "image/png", "image/jpeg", "application/pdf", "text/html", "audio/mpeg", "application/zip", UNKNOWN]
)
names = st.sampled_from(["", "a", "a.png", "a.pdf", "a.txt", "a.html", "a.zip", "a.docx"])


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (MP3, "audio/mpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"\0\0\0\x18ftypheic", "image/heic"),
        (b"\0\0\0\x18ftypisom", "video/mp4"),
        (b"\0\0\0\x18ftypM4A ", "audio/mp4"),
        (b"BM\x46\0\0\0\0\0\0\0", "image/bmp"),
        (pdf("x"), "application/pdf"),
        (zipped({"a": b"b"}), "application/zip"),
        (tarred({"a": b"b"}, ""), "application/x-tar"),
        (tarred({"a": b"b"}, "gz"), "application/gzip"),
    ],
    ids=lambda said: said if isinstance(said, str) else "bytes",  # what is packed has the time of packing in it
)
def test_the_first_bytes_say_what_it_is_whatever_others_say(data: bytes, kind: str) -> None:
    assert kind_of(data) == kind
    assert kind_of(data, "notes.txt", "text/plain") == kind
    assert kind_of(data, "x.gif", "image/gif") == kind


@pytest.mark.parametrize(
    ("data", "name", "said", "kind"),
    [
        (b"plain", "", "", "text/plain"),
        (LATIN_1, "a.txt", "", "text/plain"),
        (b"a,b\n1,2", "a.csv", "", "text/csv"),
        (b"# Title", "a.md", "", "text/markdown"),
        (b"{}", "a.bin", "application/json", "application/json"),
        (b"<!DOCTYPE html><p>x", "a.txt", "", "text/html"),
        (b"\n <!-- c -->\n<HTML>", "", "text/plain", "text/html"),
        (b"<svg xmlns='x'/>", "a.svg", "", "image/svg+xml"),
        (b"no picture", "a.png", "image/png", "text/plain"),
        (b"\0\1\2", "a.png", "image/png", UNKNOWN),
        (b"\0\1\2", "", "audio/l16", "audio/l16"),
        (b"\0\1\2", "a.txt", "text/plain", UNKNOWN),
        (zipped({"a": b"b"}), "a.docx", "", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        (JPEG, "", "image/jpg", "image/jpeg"),
        (b"", "", "", "text/plain"),
    ],
)
def test_where_they_leave_it_open_the_sender_and_the_name_count(data: bytes, name: str, said: str, kind: str) -> None:
    assert kind_of(data, name, said) == kind


@given(st.binary(max_size=600), names, types)
def test_a_picture_or_pdf_is_only_what_looks_like_one(data: bytes, name: str, said: str) -> None:
    kind = kind_of(data, name, said)
    if kind in ("image/png", "image/jpeg", "application/pdf", "application/zip"):
        assert kind == kind_of(data)


def test_parameters_and_other_names_do_not_count() -> None:
    assert essence('Text/HTML; charset="utf-8"') == "text/html"
    assert essence("image/jpg") == "image/jpeg"
    assert charset_of('text/html; charset="ISO-8859-1"') == "ISO-8859-1"
    assert charset_of("text/html; x=y") == ""


@pytest.mark.parametrize(
    "kind", ["text/x-python", "application/json", "application/ld+json", "application/x-sh", "image/svg+xml"]
)
def test_what_is_text(kind: str) -> None:
    assert is_text(kind)


@pytest.mark.parametrize("kind", ["image/png", "application/pdf", "application/zip", UNKNOWN, ""])
def test_what_is_none(kind: str) -> None:
    assert not is_text(kind)
