"""PDF and HTML to text, in a process that can be ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from retinue.errors import ExtraMissing
from retinue.files.convert import LONGEST, cut
from retinue.files.documents import Text, text_of_html, text_of_pdf
from tests.files.samples import pdf

SECONDS = 30


async def html(page: str, address: str = "") -> str:
    said = await text_of_html(page, SECONDS, address)
    assert isinstance(said, Text)
    return said.text


async def test_a_pdf_is_read_page_by_page() -> None:
    said = await text_of_pdf(pdf("the first", "the second"), 10, SECONDS)
    assert said == Text("[Page 1 of 2]\nthe first\n\n[Page 2 of 2]\nthe second")


async def test_only_so_many_pages_of_a_pdf_are_read_and_that_is_said() -> None:
    said = await text_of_pdf(pdf("one", "two", "three"), 2, SECONDS)
    assert said == Text("[Page 1 of 3]\none\n\n[Page 2 of 3]\ntwo", "only the first 2 of its 3 pages are shown")


@pytest.mark.parametrize("data", [b"%PDF-1.7 and then nothing", b"", b"%PDF-" + bytes(5000), pdf("x")[:120]])
async def test_what_is_no_pdf_is_a_reason(data: bytes) -> None:
    assert await text_of_pdf(data, 10, SECONDS) in ("it is no PDF that can be read", "it cannot be turned into text")


async def test_a_pdf_without_text_is_a_reason() -> None:
    assert await text_of_pdf(pdf("x", content=b"0 0 10 10 re f"), 10, SECONDS) == (
        "there is no text in it (1 pages, scanned perhaps)"
    )


async def test_an_encrypted_pdf_is_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "open.pdf"
    path.write_bytes(pdf("secret"))
    writer = PdfWriter(clone_from=PdfReader(path))
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(tmp_path / "closed.pdf")
    assert await text_of_pdf((tmp_path / "closed.pdf").read_bytes(), 10, SECONDS) == "it is encrypted"


async def test_a_pdf_that_unpacks_to_far_too_much_is_a_reason() -> None:
    bomb = pdf("x", content=b"BT ET " * (13 << 20), packed=True)
    assert len(bomb) < 1 << 20
    assert isinstance(await text_of_pdf(bomb, 10, SECONDS), str)


async def test_a_pdf_that_takes_too_long_is_ended() -> None:
    slow = pdf("x", content=b"BT /F1 12 Tf (x) Tj ET " * 3_000_000, packed=True)
    assert await text_of_pdf(slow, 10, 0.5) == "turning it into text took longer than 0.5 s"


def test_a_text_that_is_far_too_long_is_cut() -> None:
    problem = "only the first 10,000,000 characters of its text are shown"
    assert cut(Text("x" * (LONGEST + 1))) == Text("x" * LONGEST, problem)
    assert cut(Text("x" * LONGEST, "as it was")) == Text("x" * LONGEST, "as it was")
    assert cut("a reason") == "a reason"


def test_the_process_limits_its_memory_and_its_time() -> None:
    code = (
        "import resource as r; from retinue.files.convert import limit; limit(7.5); print(r.getrlimit(r.RLIMIT_CPU)[0])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "8\n"
    if sys.platform == "linux":
        code = "from retinue.files.convert import MEMORY, limit; limit(7.5); bytearray(MEMORY)"
        greedy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert greedy.returncode == 1
        assert "MemoryError" in greedy.stderr


async def test_meanwhile_everything_else_goes_on() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(others())
    await text_of_pdf(pdf(*["page"] * 100), 100, SECONDS)
    other.cancel()
    assert turns > 100


async def test_a_page_becomes_markdown_under_its_title() -> None:
    page = """<!doctype html><html><head><title> The
 Title </title><style>p {}</style><script>bad()</script></head>
    <body><h2>One</h2><p>Some <b>bold</b> text &amp; more.</p><script>alert("x")</script><!-- hidden -->
    <ul><li>a</li><li>b</li></ul><noscript>turn it on</noscript><iframe src="x">frame</iframe>
    <table><tr><th>k</th></tr><tr><td>v</td></tr></table><pre>code  here</pre></body></html>"""
    text = await html(page)
    assert text.startswith("# The Title\n\n## One\n\nSome **bold** text & more.")
    assert "- a\n- b" in text
    assert "| k |" in text
    assert "code  here" in text
    for unread in ("alert", "bad()", "hidden", "p {}", "turn it on", "frame"):
        assert unread not in text


async def test_links_lead_where_they_lead_on_the_page() -> None:
    page = """<p><a href="/b">b</a> <a href="c?d=e">c</a> <a href="javascript:alert(1)">j</a>
    <a href="http://[bad">x</a> <img src="pic.png" alt="p"><img src="data:image/png;base64,AAAA" alt="q"></p>"""
    text = await html(page, "https://example.org/docs/a")
    assert "[b](https://example.org/b)" in text
    assert "[c](https://example.org/docs/c?d=e)" in text
    assert "![p](https://example.org/docs/pic.png)" in text
    assert "javascript" not in text
    assert "base64" not in text


@pytest.mark.parametrize("page", ["", "<", "<div>" * 5000 + "deep", "<b><i></b></i>&#xd800;", "<title>only", "\ud800"])
async def test_a_broken_page_is_read_as_far_as_it_goes(page: str) -> None:
    assert ("deep" in await html(page)) == ("deep" in page)


@pytest.mark.parametrize(("kind", "package"), [("PDF", "pypdf"), ("HTML", "markdownify")])
async def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, kind: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ExtraMissing, match=rf"{kind} needs .*retinue\[documents\]"):
        await (text_of_pdf(pdf("x"), 1, SECONDS) if kind == "PDF" else text_of_html("x", SECONDS))


async def test_no_module_is_taken_from_the_folder_where_this_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pypdf.py").write_text("raise SystemExit('taken')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert isinstance(await text_of_pdf(pdf("x"), 1, SECONDS), Text)


async def test_the_process_knows_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, pathlib; pathlib.Path(__file__).with_name('seen').write_text(str(dict(os.environ)))"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret-key")
    await html("<p>x</p>")
    assert "a-secret-key" not in (tmp_path / "seen").read_text()
