"""What a file is: its first bytes say more than its name, and its name more than who sent it."""

from __future__ import annotations

import mimetypes
import re

UNKNOWN = "application/octet-stream"
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/x-icon"),
    (b"PK\3\4", "application/zip"),
    (b"PK\5\6", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"\x7fELF", "application/x-executable"),
    (b"\0asm", "application/wasm"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"avif": "image/avif",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
_TELLING = frozenset(
    [
        *(kind for _, kind in _BEGINNINGS),
        *_RIFF.values(),
        *_BRANDS.values(),
        "image/bmp",
        "application/pdf",
        "video/mp4",
    ]
)
_OTHER_NAMES = {
    "image/jpg": "image/jpeg",
    "image/x-png": "image/png",
    "image/x-ms-bmp": "image/bmp",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "application/x-pdf": "application/pdf",
    "application/x-zip-compressed": "application/zip",
    "application/x-gzip": "application/gzip",
}
_INSIDE = {
    "application/zip": re.compile(
        r"application/(vnd\.openxml.*|vnd\.oasis.*|epub\+zip|java-archive|.*\+zip|x-.*zip.*)"
    ),
    "application/x-ole-storage": re.compile(r"application/(msword|vnd\.ms-.*)"),
    "audio/ogg": re.compile(r"(video|audio|application)/ogg|audio/opus"),
    "video/webm": re.compile(r"(video|audio)/(webm|x-matroska)"),
}
_TEXTS = re.compile(
    r"text/.*|message/.*|.*\+(json|xml|yaml)|application/(json|.*json|xml|yaml|x-yaml|toml|sql|graphql|rtf"
    r"|(x-|)(javascript|ecmascript|typescript|sh|csh|perl|python|php|ruby|tex|latex|httpd-php|ndjson|subrip))|image/svg\+xml"
)
_NO_CONTROL = bytes({*range(256)} - {*range(7), *range(14, 27), *range(28, 32), 127})
_HTML = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL
)


def essence(media_type: str) -> str:
    """The media type without its parameters, by the name that everybody uses."""
    plain = media_type.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(plain, plain)


def charset_of(media_type: str) -> str:
    """The `charset` that a media type names, or nothing."""
    found = re.search(r';\s*charset\s*=\s*"?([\w.:+-]+)', media_type, re.IGNORECASE)
    return found[1] if found else ""


def is_text(media_type: str) -> bool:
    return _TEXTS.fullmatch(essence(media_type)) is not None


def kind_of(data: bytes, name: str = "", said: str = "") -> str:
    """The media type of some bytes. What somebody `said`, and the name, count where the bytes leave it open."""
    found = _sniffed(data)
    claims = [claim for claim in (essence(said), _guessed(name)) if claim and claim != UNKNOWN]
    if found:
        return next((claim for claim in claims if found in _INSIDE and _INSIDE[found].fullmatch(claim)), found)
    honest = [claim for claim in claims if claim not in _TELLING]
    if not _looks_like_text(data):
        return next((claim for claim in honest if not is_text(claim)), UNKNOWN)
    if _HTML.match(data[:2048]) and not any(claim.endswith("+xml") for claim in honest):
        return "text/html"
    return next((claim for claim in honest if is_text(claim)), "text/plain")


def _sniffed(data: bytes) -> str:
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            return kind
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video/mp4")
    if data.startswith(b"BM") and data[6:10] == b"\0\0\0\0":
        return "image/bmp"
    if b"%PDF-" in data[:1024]:
        return "application/pdf"
    if data[257:262] == b"ustar":
        return "application/x-tar"
    return "audio/mpeg" if _is_mpeg_audio(data) else ""


def _is_mpeg_audio(data: bytes) -> bool:
    """A frame header: eleven ones, then no reserved version, layer, bit rate or sampling rate."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE0 != 0xE0:
        return False
    version, layer = data[1] >> 3 & 3, data[1] >> 1 & 3
    return version != 1 and layer != 0 and data[2] >> 4 not in (0, 15) and data[2] >> 2 & 3 != 3


def _looks_like_text(data: bytes) -> bool:
    """No byte is nothing, and hardly one is a control character that texts do not have."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    beginning = data[:8192]
    return b"\0" not in beginning and len(beginning.translate(None, _NO_CONTROL)) * 100 <= len(beginning)


def _guessed(name: str) -> str:
    return essence(mimetypes.guess_type(name.rpartition("/")[2], strict=False)[0] or "")
