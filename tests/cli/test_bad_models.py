"""Models that cannot be asked, and servers that answer badly: what is said, with which exit code, and what is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.models.server import Reply, Server, answer, chunk, failing, saying, sse

from .conftest import Terminal

KEY = "sk-very-secret-key"
PAGE = Reply([b"<html><title>Welcome to the proxy</title></html>"], content_type="text/html")


def test_an_answer_of_any_compatible_server_comes_as_one_object(retinue: Terminal, provider: Server) -> None:
    said = retinue("run", "model:openai:any", "hello", "--json")
    assert (said.code, said.json["status"], said.json["output"]) == (0, "completed", "Hello there")
    assert provider.asked[0]["messages"] == [{"role": "user", "content": "hello"}]
    assert (provider.asked[0]["model"], provider.headers[0]["Authorization"]) == ("any", f"Bearer {KEY}")


def test_a_missing_key_is_named_before_anything_is_asked(
    retinue: Terminal, provider: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    retinue("db", "upgrade")
    said = retinue("run", "model:openai:any", "hello")
    assert (said.code, "set OPENAI_API_KEY, or `api_key` under [providers.openai]" in said.err) == (2, True)
    assert provider.asked == retinue("runs", "list", "--json").json == retinue("threads", "list", "--json").json == []


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (PAGE, "ModelBroken", "a web page"),
        (failing(401, {"error": {"message": "bad key"}}), "ModelRefused", "Check OPENAI_API_KEY"),
        (failing(404, {"error": {"message": "no such model"}}), "ModelRefused", "no such model"),
        (failing(429, {"error": {"message": "slow down"}}), "ModelBusy", "slow down"),
        (failing(500, b"oops"), "ModelUnavailable", "500"),
        (Reply([b""]), "ModelBroken", "no answer in it, but nothing"),
        (Reply([b'{"choices": [{"mess'], content_type="application/json"), "ModelBroken", "cannot be read"),
        (Reply([b'data: {"choices": [{"del\n\n']), "ModelBroken", "cannot be read"),
        (Reply([b""], hangs_up=True), "ModelBroken", "broke off"),
    ],
)
def test_a_server_that_answers_badly_is_a_failure_that_says_what_to_do(
    retinue: Terminal, provider: Server, reply: Reply, kind: str, says: str
) -> None:
    provider.will(reply)
    said = retinue("run", "model:openai:any", "hello", "--json")
    assert (said.code, said.json["status"], said.json["reason"]) == (1, "failed", "provider_error")
    assert (said.json["error"]["kind"], said.json["output"]) == (kind, None)
    assert says in said.json["error"]["message"]
    assert KEY not in said.out + said.err
    shown = retinue("threads", "show", said.json["thread_id"], "--json").json["messages"]
    assert [(m["status"], len(m["parts"])) for m in shown] == [(None, 1), ("failed", 0)]


def test_a_failure_is_shown_to_people_with_how_to_go_on(retinue: Terminal, provider: Server) -> None:
    provider.will(failing(500, b"oops"), saying("Hello"))
    said = retinue("run", "model:openai:any", "hello")
    assert (said.code, "500" in said.out) == (1, True)
    (line,) = [line for line in said.out.splitlines() if "retinue runs retry run_" in line]
    assert retinue(*line.split("retinue ")[1].split(), "--json").json["output"] == "Hello"


def test_a_character_that_was_cut_in_two_is_put_together(retinue: Terminal, provider: Server) -> None:
    whole = answer({"content": "Käse"})
    cut = whole.index("ä".encode()) + 1
    provider.will(Reply([whole[:cut], whole[cut:]]))
    assert retinue("run", "model:openai:any", "hello", "--json").json["output"] == "Käse"


def test_what_was_said_before_it_broke_off_is_kept(retinue: Terminal, provider: Server) -> None:
    begun = sse(chunk({"role": "assistant", "content": "A lighthouse is"}))
    provider.will(Reply([begun, b'data: {"choices": [{"delta": {"content": " a t\xc3'], hangs_up=True))
    said = retinue("run", "model:openai:any", "hello", "--json")
    assert (said.code, said.json["output"], said.json["partial"]) == (1, None, "A lighthouse is")
    assert "broke off" in said.json["error"]["message"]


def test_a_server_that_says_nothing_at_all_is_given_up(retinue: Terminal, provider: Server, tmp_path: Path) -> None:
    (tmp_path / "retinue.toml").write_text("[retry]\ntries = 1\n[providers.openai]\nidle_timeout = 0.2\n")
    provider.will(Reply([], before=asyncio.Event()))
    said = retinue("run", "model:openai:any", "hello", "--json")
    assert (said.code, said.json["error"]["kind"]) == (1, "ModelUnavailable")
    assert "0.2 s" in said.json["error"]["message"]


def test_where_nothing_listens(retinue: Terminal, provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    said = retinue("run", "model:openai:any", "hello", "--json")
    assert (said.code, said.json["error"]["kind"]) == (1, "ModelUnavailable")
    assert "http://127.0.0.1:9/v1" in said.json["error"]["message"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("opnai:gpt-5-mini", "did you mean openai:gpt-5-mini"),
        ("tset", "did you mean test?"),
        ("openai", "say which model of openai: openai:NAME"),
        ("local:nope", "known are smollm2"),
        ("local:bad.gguf", "it is no GGUF file"),
        ("local:none.gguf", "none.gguf"),
    ],
)
def test_a_model_that_is_none_is_refused_and_nothing_is_stored(
    retinue: Terminal, tmp_path: Path, name: str, says: str
) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"<html>")
    retinue("db", "upgrade")
    said = retinue("run", f"model:{name}", "hello")
    assert (said.code, says in said.err, len(said.err.splitlines())) == (2, True, 1)
    assert retinue("threads", "list", "--json").json == []
