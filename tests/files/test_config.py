"""What `[files]` may say."""

from __future__ import annotations

import tomllib

import msgspec
import pytest

from retinue.files.config import FilesConfig


def config(text: str) -> FilesConfig:
    return msgspec.convert(tomllib.loads(text), FilesConfig)


def test_all_that_can_be_said() -> None:
    said = config("""
        store = "s3://bucket/prefix"
        roots = ["/srv/docs", "gs://reports/2026/", "https://example.org/docs/"]
        max_mb = 5
        max_total_mb = 10.5
        [s3]
        region = "eu-central-1"
        secret_access_key = "a-secret-key"
        virtual_hosted_style_request = true
        [fetch]
        ports = []
        allow_private = ["127.0.0.1:8080", "[::1]:8080", "10.0.0.0/8"]
        """)
    assert (said.max_bytes, said.max_total_bytes) == (5 << 20, 21 << 19)
    assert said.options("S3://bucket/x") == said.s3
    assert said.options("gs://bucket/x") == said.options("/srv/files") == {}
    assert "a-secret-key" not in repr(said)
    assert config("") == FilesConfig()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max_mb = 0", r"max_mb"),
        ("max_pages = 0", r"max_pages"),
        ("max_kb = 1", r"unknown field `max_kb`"),
        ('roots = ["ftp://example.org/"]', "is no root"),
        ('roots = ["https://user:pw@example.org/"]', "is no root"),
        ("fetch.redirects = -1", r"redirects"),
        ("fetch.ports = [0]", r"ports"),
        ('fetch.allow_private = ["localhost:8080"]', "is no address: say it like"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        config(text)
