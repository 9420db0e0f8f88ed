"""`--file`: what is attached, what of it is left out, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

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
