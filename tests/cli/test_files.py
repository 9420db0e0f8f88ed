"""`--file`: what is attached, what of it is left out, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from aiohttp.web import Request, Response, StreamResponse

from tests.files.samples import PNG
from tests.files.servers import Web

from .conftest import Terminal


def test_a_file_goes_with_what_is_said(retinue: Terminal, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes("Ein Stück Käse, größer als üblich".encode("latin-1"))
    said = retinue("run", "model:test", "What is in it?", "--file", "notes.txt", "--json").json
    (question, _) = retinue("threads", "show", said["thread_id"], "--json").json["messages"]
    assert [part["kind"] for part in question["parts"]] == ["text", "file"]
    assert "Ein Stück Käse, größer als üblich" in said["output"]


def test_the_same_file_of_a_chat_is_said_to_be_attached(retinue: Terminal, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("cheese")
    said = retinue("chat", "model:test", stdin="/file notes.txt\nwhat is it?\nand now?\n").out
    assert "notes.txt (text/plain) goes with what you say next" in said
    thread = retinue("threads", "list", "--json").json[0]["thread_id"]
    kinds = [
        [part["kind"] for part in m["parts"]] for m in retinue("threads", "show", thread, "--json").json["messages"]
    ]
    assert kinds == [["file", "text"], ["text"], ["text"], ["text"]]


def test_a_folder_is_one_part_without_what_nobody_wants(retinue: Terminal, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.py").write_text("print('hello')")
    (tmp_path / "code" / "node_modules").mkdir()
    (tmp_path / "code" / "node_modules" / "junk.js").write_text("junk")
    output = retinue("run", "model:test", "?", "--file", "code", "--json").json["output"]
    assert "print('hello')" in output
    assert "junk.js" not in output


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("nothing.txt", "nothing.txt"),
        ("empty.txt", "it is empty"),
        ("large.bin", "20"),
        ("http://127.0.0.1:9/x", "127.0.0.1"),
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254"),
        ("ftp://somewhere/x", "only http"),
        ("evil.zip", "no text file is in it that is taken (left out as outside of it: ../outside.txt)"),
    ],
)
def test_what_cannot_be_attached_is_refused_and_nothing_is_said(
    retinue: Terminal, tmp_path: Path, source: str, says: str
) -> None:
    (tmp_path / "empty.txt").touch()
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(21 * 1024 * 1024)
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../outside.txt", "out")
    retinue("db", "upgrade")
    said = retinue("run", "model:test", "?", "--file", source)
    assert (said.code, says in said.err) == (2, True)
    assert retinue("threads", "list", "--json").json == []
    assert not (tmp_path.parent / "outside.txt").exists()


def allow(web: Web, folder: Path, more: str = "") -> None:
    """Let the server on loopback be fetched from, and nothing else that is private."""
    (folder / "retinue.toml").write_text(f'[files.fetch]\nallow_private = ["{web.place}"]\nports = []\n{more}')


async def never_ends(request: Request) -> StreamResponse:
    response = StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"on and on " * 10_000)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/there", "127.0.0.1:9"),
        ("/metadata", "169.254.169.254"),
        ("/on", "`max_mb` under [files.fetch]"),
        ("/gone", "404"),
    ],
)
def test_a_url_that_leads_nowhere_good_is_refused_and_nothing_is_said(
    retinue: Terminal, web: Web, tmp_path: Path, path: str, says: str
) -> None:
    allow(web, tmp_path, "max_mb = 0.5\n")
    web.at["/there"] = Response(status=302, headers={"Location": "http://127.0.0.1:9/secret"})
    web.at["/metadata"] = Response(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})
    web.at["/on"] = never_ends
    retinue("db", "upgrade")
    said = retinue("run", "model:test", "?", "--file", web.url + path)
    assert (said.code, says in said.err) == (2, True)
    assert retinue("threads", "list", "--json").json == []
    assert not list((tmp_path / ".retinue").glob("*.files/*"))


def test_a_kind_that_the_model_does_not_take_is_a_warning_that_is_shown(retinue: Terminal, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(PNG)
    said = retinue("run", "model:test", "What is on it?", "--file", "photo.png")
    assert (said.code, "photo.png: the model takes no image/png" in said.out) == (0, True)
    assert said.out.splitlines()[-1].startswith("You said: What is on it?")


def test_a_bucket_outside_the_roots_is_refused(retinue: Terminal) -> None:
    said = retinue("run", "model:test", "?", "--file", "s3://bucket/report.txt")
    assert (said.code, "outside the roots" in said.err) == (2, True)
