"""Small files of each kind."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence

PNG = b"\x89PNG\r\n\x1a\n" + bytes.fromhex("0000000d49484452") + bytes(20)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + bytes(20)
MP3 = b"\xff\xfb\x90\x64" + bytes(20)
LATIN_1 = "Grüße aus Köln, schöne Straße".encode("latin-1")


def pdf(*pages: str, content: bytes = b"", packed: bool = False) -> bytes:
    """A PDF with a line of text on each page, or with this content stream."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    numbers = []
    for page in pages:
        stream = content or b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % page.encode("latin-1")
        filters = b""
        if packed:
            stream, filters = zlib.compress(stream, 9), b"/Filter /FlateDecode "
        objects.append(b"<< %s/Length %d >>\nstream\n%s\nendstream" % (filters, len(stream), stream))
        contents = len(objects)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % contents
        )
        numbers.append(len(objects))
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(numbers))
    return _pdf(objects)


def _pdf(objects: Sequence[bytes]) -> bytes:
    out = io.BytesIO()
    out.write(b"%PDF-1.7\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % offset for offset in offsets)
    out.write(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))
    return out.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files: Mapping[str, bytes], how: str = "gz", odd: Sequence[tarfile.TarInfo] = ()) -> bytes:
    """A tar, packed as gz, bz2, xz or not, with `odd` members that are no files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{how}") as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in odd:
            archive.addfile(info)
    return out.getvalue()
