"""What all commands share: help, errors in a line, exit codes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from retinue.cli.main import COMMANDS

from .conftest import Terminal


def test_the_help_names_every_command(retinue: Terminal) -> None:
    said = retinue("--help")
    assert said.code == 0
    for name in COMMANDS:
        assert f"\n  {name}" in said.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(retinue: Terminal, command: str) -> None:
    said = retinue(command, "--help")
    assert (said.code, "Usage: retinue" in said.out) == (0, True)


@pytest.mark.parametrize("group", ["runs", "approvals", "db"])
def test_a_group_alone_says_which_commands_it_has(retinue: Terminal, group: str) -> None:
    said = retinue(group)
    assert (said.code, said.err) == (0, "")
    assert "Commands:" in said.out
    assert f"retinue {group} " in said.out.partition("Examples:")[2]
    assert "--install-completion" not in said.out
    assert "..." not in said.out.replace("[ARGS]...", ""), "what a command does is cut off"


def test_a_misspelt_command_is_answered_with_the_nearest(retinue: Terminal) -> None:
    said = retinue("rnus")
    assert (said.code, "Did you mean 'runs'?" in said.err) == (2, True)


def test_an_option_that_is_not_there_is_a_usage_error(retinue: Terminal) -> None:
    said = retinue("run", "model:test", "x", "--jsno")
    assert (said.code, "--jsno" in said.err) == (2, True)


@pytest.mark.parametrize("arguments", [["runs", "list"], ["runs", "show", "x"], ["approvals", "list"], ["db", "stats"]])
def test_looking_makes_no_database(retinue: Terminal, tmp_path: Path, arguments: list[str]) -> None:
    said = retinue(*arguments)
    assert (said.code, "There is no database" in said.err) == (2, True)
    assert not (tmp_path / ".retinue").exists()


def test_a_file_that_is_no_database_is_said_to_be_none(retinue: Terminal, tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("these are notes\n" * 100)
    said = retinue("runs", "list", "--db", "sqlite:///notes.db")
    assert (said.code, "is not a Retinue database" in said.err) == (1, True)


def test_a_database_of_others_is_left_alone(retinue: Terminal, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE songs (name TEXT)")
    other.close()
    said = retinue("run", "model:test", "x", "--db", "sqlite:///other.db")
    assert (said.code, "it has other tables (songs)" in said.err) == (1, True)


def test_a_url_that_is_none_is_a_usage_error(retinue: Terminal) -> None:
    said = retinue("run", "model:test", "x", "--db", "mysql://here")
    assert (said.code, "is no database URL" in said.err) == (2, True)


def test_a_password_is_never_printed(retinue: Terminal) -> None:
    said = retinue("doctor", "--db", "postgresql://ann:s3cretword@127.0.0.1:1/nothing")
    assert said.code == 1
    assert "s3cretword" not in said.out + said.err


def test_doctor_says_what_there_is_and_what_is_not(retinue: Terminal) -> None:
    before = retinue("doctor")
    assert (before.code, "not there yet" in before.out) == (0, True)
    retinue("run", "model:test", "x", "--detach")
    after = retinue("doctor", "--json").json
    assert {check["name"]: check["state"] for check in after["checks"]}["workers"] == "note"
    assert after["ok"]


def test_settings_that_are_wrong_stop_everything_and_doctor_says_where(retinue: Terminal, tmp_path: Path) -> None:
    (tmp_path / "retinue.toml").write_text('model = "test"\n\n[worker]\nconcurrency = "many"\n')
    said = retinue("run", "model:test", "x")
    assert (said.code, "retinue.toml:4" in said.err, "concurrency" in said.err) == (2, True, True)
    examined = retinue("doctor")
    assert (examined.code, "retinue.toml:4" in examined.out) == (1, True)


def test_the_database_may_stand_in_the_settings_and_the_environment_goes_before(
    retinue: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "retinue.toml").write_text('database_url = "sqlite:///mine.db"\nmodel = "test"\n')
    retinue("run", "model:test", "x")
    assert (tmp_path / "mine.db").exists()
    assert "(retinue.toml)" in retinue("doctor").out
    monkeypatch.setenv("DATABASE_URL", "sqlite:///other.db")
    retinue("run", "model:test", "x")
    assert (tmp_path / "other.db").exists()
    assert "(DATABASE_URL)" in retinue("doctor").out


def test_an_alias_in_the_settings_is_a_model(retinue: Terminal, tmp_path: Path) -> None:
    (tmp_path / "retinue.toml").write_text('[aliases]\nquick = "test"\n')
    assert retinue("run", "model:quick", "Hello", "--json").json["output"] == "You said: Hello"


def test_the_database_is_looked_after(retinue: Terminal) -> None:
    assert "made, with schema" in retinue("db", "upgrade").out
    assert "nothing to do" in retinue("db", "upgrade").out
    retinue("run", "model:test", "x")
    assert retinue("db", "stats", "--json").json["runs"] == {"completed": 1}
    assert retinue("db", "prune", "--older-than", "0s", "--dry-run", "--json").json["trees"] == 1
    assert retinue("db", "prune", "--older-than", "0s", "--json").json["runs"] == 1
    assert retinue("db", "prune", "--older-than", "soon").code == 2


def test_version(retinue: Terminal) -> None:
    assert "0.1.0" in retinue("version").out


def test_an_unexpected_error_is_a_line_and_with_debug_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("async def f(ctx, input):\n    return 1\n")
    code = (
        "import retinue.cli.run as r, sys\n"
        "def odd(*a, **k): raise KeyError('odd')\n"
        "r.one_input = odd\n"
        "from retinue.cli.main import main\n"
        "main()\n"
    )

    def said(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, "run", "model:test", "x", *more]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    plain, debug = said(), said("--debug")
    assert (plain.returncode, plain.stderr.count("\n")) == (1, 1)
    assert "unexpected KeyError" in plain.stderr
    assert "Traceback" in debug.stderr


@pytest.mark.parametrize(
    ("program", "on_path", "uv", "typed"),
    [
        (".venv/bin/retinue", False, False, ".venv/bin/retinue"),
        (".venv/bin/retinue", True, False, "retinue"),
        (".venv/bin/retinue", True, True, "uv run retinue"),
        ("/usr/lib/python3/site-packages/retinue/__main__.py", False, False, "retinue"),
    ],
)
def test_commands_are_shown_as_they_can_be_typed_here(
    retinue: Terminal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    on_path: bool,
    uv: bool,
    typed: str,
) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "retinue").touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setenv("PATH", str(tmp_path / ".venv" / "bin") if on_path else "/nowhere")
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1") if uv else monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", False)
    said = retinue("run", "model:test", "hello", "--detach")
    assert f"  {typed} worker" in said.out
