from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retinue.settings import Settings, read_settings

TOML = """\
model = "fast"
database_url = "sqlite:///file.db"

[aliases]
fast = "openai:gpt-5-mini"

[worker]
concurrency = 5
lease = "45s"

[providers.openai]
api_key = "${secret:MY_KEY}"

[[policy]]
tool = "mcp:*"
action = "ask"
expires = "2h"
"""


def read(folder: Path, toml: str = "", env: str = "", **options: Any) -> tuple[Settings, list[str]]:
    if toml:
        (folder / "retinue.toml").write_text(toml)
    if env:
        (folder / ".env").write_text(env)
    options.setdefault("variables", {})
    settings, problems = read_settings(folder, **options)
    return settings, [f"{'warning ' if problem.warning else ''}{problem}" for problem in problems]


def test_without_anything_said_the_defaults_hold(tmp_path: Path) -> None:
    settings, problems = read(tmp_path)
    assert (settings, problems) == (Settings(), [])
    assert (settings.server.host, settings.server.port, settings.worker.concurrency) == ("127.0.0.1", 8400, 100)


def test_a_file_is_read_into_types(tmp_path: Path) -> None:
    settings, problems = read(tmp_path, TOML, variables={"MY_KEY": "sk-123456"})
    assert problems == []
    assert (settings.model, settings.aliases, settings.worker.lease) == ("fast", {"fast": "openai:gpt-5-mini"}, 45.0)
    assert settings.providers["openai"].api_key == "sk-123456"
    assert [(rule.tool, rule.action, rule.expires) for rule in settings.policy] == [("mcp:*", "ask", 7200)]


def test_an_argument_comes_before_a_variable_before_the_file_before_the_default(tmp_path: Path) -> None:
    variables = {"RETINUE_WORKER_CONCURRENCY": "7", "RETINUE_MODEL": "of-env", "DATABASE_URL": "sqlite:///env.db"}
    arguments = {"worker": {"concurrency": 9}}
    settings, problems = read(tmp_path, TOML, variables=variables | {"MY_KEY": "sk-123456"}, arguments=arguments)
    assert problems == []
    assert (settings.worker.concurrency, settings.worker.lease, settings.worker.grace) == (9, 45.0, 10.0)
    assert (settings.model, settings.database_url) == ("of-env", "sqlite:///env.db")


def test_our_own_variable_comes_before_one_that_others_use_too(tmp_path: Path) -> None:
    for variables in (
        {"DATABASE_URL": "b", "RETINUE_DATABASE_URL": "a"},
        {"RETINUE_DATABASE_URL": "a", "DATABASE_URL": "b"},
    ):
        assert read(tmp_path, variables=variables)[0].database_url == "a"


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("RETINUE_SERVER_PORT", "9", 9),
        ("RETINUE_WORKER_GRACE", "1.5", 1.5),
        ("RETINUE_WORKER_LEASE", "2m", 120.0),
        ("RETINUE_WORKER_OWNER_LIMIT", "3", 3),
        ("RETINUE_ALIASES", '{"a": "b"}', {"a": "b"}),
        ("RETINUE_RETRY_TRIES", "4", 4),
    ],
)
def test_every_setting_has_its_variable(tmp_path: Path, variable: str, text: str, value: object) -> None:
    settings, problems = read(tmp_path, variables={variable: text})
    found: Any = settings
    for step in variable.removeprefix("RETINUE_").lower().split("_", 1):
        found = getattr(found, step)
    assert (found, problems) == (value, [])


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"RETINUE_SERVER_PORT": "many"}, "RETINUE_SERVER_PORT: expected a whole number, got text"),
        ({"RETINUE_SERVER_PORT": "99999"}, "RETINUE_SERVER_PORT: expected a whole number <= 65535"),
        ({"RETINUE_WORKER_LEASE": "soon"}, "RETINUE_WORKER_LEASE: expected seconds"),
        ({"RETINUE_POLICY": "[}"}, "RETINUE_POLICY: expected a list"),
        (
            {"RETINUE_SERVER_PROT": "1"},
            "warning RETINUE_SERVER_PROT: nobody knows this variable. Did you mean RETINUE_SERVER_PORT",
        ),
        ({"RETINUE_ZZZ": "1"}, ""),
    ],
)
def test_what_is_wrong_in_the_environment_is_said_of_the_variable(
    tmp_path: Path, variables: dict[str, str], says: str
) -> None:
    settings, problems = read(tmp_path, variables=variables)
    assert [problem[: len(says)] for problem in problems] == ([says] if says else [])
    assert settings == Settings()


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("model = 3", "retinue.toml:1: model: expected text or nothing, got a whole number"),
        ("\nmodle = 'x'", "retinue.toml:2: modle: nobody knows this key. Did you mean model?"),
        (
            "[worker]\nconcurency = 3",
            "retinue.toml:2: worker.concurency: nobody knows this key. Did you mean concurrency?",
        ),
        ("[worker]\nconcurrency = 0", "retinue.toml:2: worker.concurrency: expected a whole number >= 1"),
        ("worker = 3", "retinue.toml:1: worker: expected a table of keys, got a number"),
        ("[[policy]]\ntool = 'a'\naction = 'b'", "retinue.toml:3: policy[0].action: expected one of allow, ask, deny"),
        ("[[policy]]\ntool = 'a'", "retinue.toml:1: policy[0].action: it is missing"),
        (
            "[providers.x]\nbase_ulr = ''",
            "retinue.toml:2: providers.x.base_ulr: nobody knows this key. Did you mean base_url?",
        ),
        ("secrets = {a = 'b'}", "retinue.toml:1: secrets: nobody knows this key"),
        ("a = = 1", "retinue.toml:1: it is no TOML"),
        ("x = '${env:NOBODY}'", "warning retinue.toml:1: x: NOBODY is not set"),
        ("model = '${HOME}'", "warning retinue.toml:1: model: ${HOME} is only text"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_line_and_key(tmp_path: Path, toml: str, says: str) -> None:
    settings, problems = read(tmp_path, toml)
    assert problems[0][: len(says)] == says
    assert settings.worker.concurrency == 100


def test_env_files_fill_what_the_environment_leaves_open(tmp_path: Path) -> None:
    variables = {"RETINUE_MODEL": "of-env"}
    settings, problems = read(tmp_path, env="RETINUE_MODEL=of-file\nRETINUE_SERVER_PORT=9\noops", variables=variables)
    assert (settings.model, settings.server.port) == ("of-env", 9)
    assert variables == {"RETINUE_MODEL": "of-env", "RETINUE_SERVER_PORT": "9"}
    assert problems == [".env:3: expected KEY=VALUE"]


def test_every_secret_that_was_met_is_listed(tmp_path: Path) -> None:
    toml = (
        TOML
        + "[providers.other]\napi_key = 'written-out'\n"
        + "headers = {X-Team = '${env:TEAM}', Authorization = '${env:AUTH}'}"
    )
    env = "MY_KEY=sk-of-env-file\nMY_TOKEN=tok-123456\nHARMLESS=nothing"
    variables = {"OPENAI_API_KEY": "sk-openai", "TEAM": "blue-team", "AUTH": "Bearer x", "SSH_KEY": "not ours"}
    settings, _ = read(tmp_path, toml, env, variables=variables)
    assert settings.secrets == {
        "MY_KEY": "sk-of-env-file",
        "MY_TOKEN": "tok-123456",
        "OPENAI_API_KEY": "sk-openai",
        "AUTH": "Bearer x",
        "providers.other.api_key": "written-out",
    }
    assert "sk-of-env-file" not in repr(settings)


def test_a_secret_that_is_too_short_to_keep_is_told_and_used(tmp_path: Path) -> None:
    settings, problems = read(tmp_path, TOML, variables={"MY_KEY": "abc"})
    assert problems == ["warning MY_KEY is too short to be kept out of the journal (6 characters at least)"]
    assert (settings.providers["openai"].api_key, settings.secrets) == ("abc", {})
