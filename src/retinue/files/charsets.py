"""Bytes to text, in whatever charset they were written."""

from __future__ import annotations

import codecs
import re

import charset_normalizer

UNKNOWN = "it is in no charset that is known"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NO_CHARSETS = ("ascii", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
# What is really met: with all that Python knows, short texts are taken for EBCDIC.
_CANDIDATES = [
    *("cp1252", "cp1250", "iso8859_2", "cp1251", "koi8_r", "cp866", "cp1253", "cp1254", "cp1255", "cp1256"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949", "utf_16_le", "utf_16_be"),
]
_EASTERN = {"Croatian", "Czech", "Hungarian", "Polish", "Romanian", "Slovak", "Slovene", "Turkish"}
# Western text has its accents one by one, and of Windows' own characters only marks and a few letters.
_not_western = re.compile(rb"[\x80-\xff]{3}|[\x81-\x84\x86-\x89\x8b\x8d\x8f\x90\x98\x9b\x9d]")
_meta_charset = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?\s*([\w.:+-]+)", re.IGNORECASE)


def decoded(data: bytes, charset: str = "") -> str | None:
    """The text, by its mark, as UTF-8, in the charset that was named, or in the likeliest other; None if it is none."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _strictly(data, name)
    # What can be UTF-8 is, whatever was named: unless it is all ASCII, it could hardly be by chance.
    named = _usual(charset)
    for name in (named, "utf-8") if data.isascii() else ("utf-8", named):
        if (text := _strictly(data, name)) is not None:
            return text
    return _strictly(data, _likeliest(data))


def decoded_html(data: bytes, charset: str = "") -> str | None:
    """The same for a page, which may name its charset inside."""
    found = _meta_charset.search(data[:4096])
    return decoded(data, charset or (found[1].decode() if found else ""))


def _strictly(data: bytes, charset: str) -> str | None:
    try:
        text = data.decode(charset)
    except (ValueError, LookupError):
        return None
    return None if "\0" in text else text


def _usual(charset: str) -> str:
    """The charset that is meant, if it is one: who says Latin-1 means what Windows makes of it, as browsers know."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return ""
    if name == "iso8859-1":
        return "cp1252"
    return "" if name in _NO_CHARSETS else name


def _likeliest(data: bytes) -> str:
    matches = charset_normalizer.from_bytes(data, cp_isolation=_CANDIDATES)
    best = matches.best()
    western = _strictly(data, "cp1252") is not None and not _not_western.search(data)
    if best is None:
        return "cp1252" if western else ""
    eastern = best.language in _EASTERN and all(match.encoding != "cp1252" for match in matches)
    return best.encoding if eastern or not western else "cp1252"
