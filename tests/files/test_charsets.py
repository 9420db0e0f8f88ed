"""Bytes to text. Laws over texts and charsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.files.charsets import decoded, decoded_html
from tests.files.samples import LATIN_1, PNG

texts = st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"]), min_size=1)
LANGUAGES = (
    "Grüße aus Köln. Die Straße ist größer, als ich dachte. Für dich? Überall süße Äpfel. Schöne Tür.",
    "Ça va? Il a déjà été très naïf. Où est le garçon français? Être ou ne pas être. Cœur brisé.",
    "Él niño comió un plátano ayer. ¿Cuándo será mañana? ¡Sí! El corazón del año. Después del día.",
    "São Paulo não é a capital. Você também é irmão dele. Três corações. Já é amanhã à noite.",
    "Ærø ligger på Fyn. Det er år siden, søndag. Grønne æbler på øen. Blåbær og øl å være.",
    "Tämä on äiti. Hyvää päivää. Mitä yö on? Älä ole työssä. Se ei ole ystävä.",
    "The café’s “special” costs 5 €. It’s 50 °C – hot… § 3 applies. About 2 µm ± 1. A naïve façade.",
)
western = st.sampled_from(LANGUAGES).flatmap(
    lambda said: st.lists(st.sampled_from(said.split(". ")), min_size=1, unique=True).map(". ".join)
)


@given(texts, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_unicode_comes_back_as_it_was(text: str, charset: str) -> None:
    assert decoded(text.encode(charset)) == text


@given(western)
def test_western_text_comes_back_from_what_windows_writes(text: str) -> None:
    assert decoded(text.encode("cp1252")) == text


@given(western, st.sampled_from(["iso-8859-15", "cp1252", "mac-roman", "cp850"]))
def test_the_charset_that_was_named_counts(text: str, charset: str) -> None:
    data = text.encode(charset, errors="ignore")
    assert decoded(data, charset) == data.decode(charset)


@given(texts.filter(lambda text: not text.isascii()))
def test_what_is_utf_8_is_utf_8_whatever_was_named(text: str) -> None:
    assert decoded(text.encode(), "iso-8859-1") == text


def test_a_charset_of_ascii_bytes_counts_when_it_was_named() -> None:
    text = "こんにちは世界"
    assert decoded(text.encode("iso2022_jp"), "ISO-2022-JP") == text


@given(st.binary(), st.text(max_size=12))
def test_any_bytes_are_text_without_nul_or_none(data: bytes, charset: str) -> None:
    text = decoded(data, charset)
    assert text is None or "\0" not in text


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        ("Привет, как дела? Это обычный текст на русском языке.", "cp1251"),
        ("Привет, как дела? Это обычный текст на русском языке.", "koi8-r"),
        ("こんにちは世界。これはテストです。", "shift_jis"),
        ("こんにちは世界。これはテストです。", "euc-jp"),
        ("你好，世界。这是一个测试文件。", "gb18030"),
        ("안녕하세요 세계. 이것은 시험입니다.", "euc-kr"),
        ("Καλημέρα κόσμε, αυτό είναι ένα κείμενο", "cp1253"),
        ("Zażółć gęślą jaźń, to jest dłuższy tekst po polsku", "iso8859-2"),
        ("hello, world", "utf-16-le"),
        ("hello, world", "utf-16-be"),
    ],
)
def test_other_charsets_are_recognized(text: str, charset: str) -> None:
    assert decoded(text.encode(charset)) == text


def test_latin_1_is_read_as_it_was_written() -> None:
    assert decoded(LATIN_1) == "Grüße aus Köln, schöne Straße"


@pytest.mark.parametrize("data", [PNG, bytes(range(256)), b"\xff\xfeodd", b"ab\0cd\0\0\0e"])
def test_what_is_no_text_is_none(data: bytes) -> None:
    assert decoded(data) is None


def test_a_charset_that_nobody_knows_does_not_count() -> None:
    assert decoded("é".encode(), "klingon") == "é"
    assert decoded("é".encode(), "zlib") == "é"
    assert decoded(b"plain", "undefined") == "plain"


def test_a_page_may_name_its_charset() -> None:
    page = '<html><head><meta charset="koi8-r"></head>Привет'
    assert decoded_html(page.encode("koi8-r")) == page
    old = '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">Привет'
    assert decoded_html(old.encode("cp1251")) == old
    assert decoded_html(page.encode("cp1251"), "cp1251") == page
