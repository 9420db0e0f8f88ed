"""From where file URIs may be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.errors import BadFile
from retinue.files.roots import Roots, is_root, scheme_of

WEB = Roots(["https://example.org/docs", "s3://bucket/open/", "http://127.0.0.1:8080/"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "open" / "below").mkdir(parents=True)
    (tmp_path / "open" / "below" / "a b.txt").write_text("inside")
    (tmp_path / "openly").mkdir()
    (tmp_path / "openly" / "secret.txt").write_text("outside")
    (tmp_path / "open" / "way-out").symlink_to(tmp_path / "openly")
    (tmp_path / "open" / "link.txt").symlink_to(tmp_path / "openly" / "secret.txt")
    (tmp_path / "open" / "inner.txt").symlink_to(tmp_path / "open" / "below" / "a b.txt")
    (tmp_path / "open" / "circle").symlink_to(tmp_path / "open" / "circle")
    return tmp_path / "open"


@pytest.mark.parametrize("path", ["below/a%20b.txt", "inner.txt", "below/../below/a b.txt", "not-there"])
def test_a_file_inside_is_found(root: Path, path: str) -> None:
    assert Roots([str(root)]).path(f"file://{root}/{path}").is_relative_to(root)


@pytest.mark.parametrize(
    "path",
    [
        "../openly/secret.txt",
        "%2e%2e/openly/secret.txt",
        "..%2fopenly/secret.txt",
        "below/../../openly/secret.txt",
        "way-out/secret.txt",
        "link.txt",
        "circle",
        "a%00b",
        "",
    ],
)
def test_a_file_outside_is_refused_whichever_way_it_is_named(root: Path, path: str) -> None:
    if path:
        with pytest.raises(BadFile, match="outside the roots"):
            Roots([str(root)]).path(f"file://{root}/{path}")
    for uri in (f"file://{root}ly/secret.txt", f"file://host{root}/inner.txt", "file:///etc/passwd", "file:inner.txt"):
        with pytest.raises(BadFile, match="outside the roots"):
            Roots([str(root)]).path(uri)


def test_without_roots_nothing_is_inside(root: Path) -> None:
    with pytest.raises(BadFile, match="outside the roots"):
        Roots([]).path(f"file://{root}/inner.txt")
    assert not Roots([]).holds("https://example.org/docs")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/docs",
        "https://EXAMPLE.org:443/docs/a?b#c",
        "s3://bucket/open/a b%",
        "http://127.0.0.1:8080/x",
    ],
)
def test_a_url_under_a_prefix_is_inside(url: str) -> None:
    assert WEB.holds(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/docsecret",
        "https://example.org/docs/../x",
        "https://example.org/docs/%2e%2e/x",
        "https://example.org/docs/%252e%252e/x",
        "https://example.org/docs/..%2fx",
        "https://example.org/docs/..\\x",
        "https://example.org.evil.org/docs/",
        "https://example.org@evil.org/docs/",
        "https://user@example.org/docs/",
        "http://example.org/docs/",
        "https://example.org:444/docs/",
        "https://example.org:x/docs/",
        "s3://bucket/opened",
        "s3://bucket/open/../x",
        "s3://Bucket/open/x",
        "gs://bucket/open/x",
        "s3://bucket",
        "",
    ],
)
def test_a_url_beside_it_is_outside(url: str) -> None:
    assert not WEB.holds(url)
    with pytest.raises(BadFile, match="outside the roots"):
        WEB.check(url)


@given(st.text("ab./%2eE5cfF\\?#@:", max_size=20))
def test_no_path_leads_out_of_a_prefix(path: str) -> None:
    """Whatever a server makes of escapes, it comes to nothing above the prefix."""
    url = f"https://example.org/docs/{path}"
    if WEB.holds(url):
        plain = path.partition("?")[0].partition("#")[0].lower().replace("%2e", ".")
        assert ".." not in plain.replace("\\", "/").split("/")


@given(st.lists(st.sampled_from(["..", ".", "a", "way-out", "below", "%2e%2e"]), max_size=8))
def test_no_path_leads_out_of_a_folder(parts: list[str]) -> None:
    root = Path("/srv/open")
    try:
        found = Roots([str(root)]).path(f"file://{root}/{'/'.join(parts)}")
    except BadFile:
        return
    assert found.is_relative_to(root)


def test_what_can_be_a_root() -> None:
    assert all(map(is_root, ["/srv/open", "docs", "s3://bucket", "gs://b/p", "az://c/p", "https://example.org/docs/"]))
    assert not any(map(is_root, ["ftp://example.org/", "https://user@example.org/", "https://example.org/../x"]))


def test_a_scheme_is_told_from_a_path() -> None:
    assert [scheme_of(uri) for uri in ("file:///x", "S3://b/k", "C:\\x", "a/b:c", "x")] == ["file", "s3", "", "", ""]
