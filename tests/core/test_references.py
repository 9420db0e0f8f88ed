from __future__ import annotations

import pytest

from retinue.core.references import bare_references, is_secret, literal_secrets, resolve

VARIABLES = {"TOKEN": "t-123456", "TEAM": "blue-team", "PIN": "123"}


def test_references_are_put_in_wherever_they_stand() -> None:
    value = {"a": ["x ${env:TEAM} y", {"b": "${secret:TOKEN}${env:TEAM}"}], "n": 3}
    resolved = resolve(value, VARIABLES)
    assert resolved.value == {"a": ["x blue-team y", {"b": "t-123456blue-team"}], "n": 3}


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ({"x": "${secret:TEAM}"}, True),
        ({"x": "${env:TEAM}"}, False),
        ({"x": "${env:TOKEN}"}, True),
        ({"headers": {"Authorization": "Bearer ${env:TEAM}"}}, True),
        ({"api_key": ["${env:TEAM}"]}, True),
    ],
)
def test_a_reference_is_to_a_secret_when_it_its_name_or_its_key_says_so(value: object, secret: bool) -> None:
    assert bool(resolve(value, VARIABLES).secrets) is secret


def test_what_is_not_set_stays_and_is_told_with_its_key() -> None:
    resolved = resolve({"a": {"b": ["${env:NOBODY}"]}}, VARIABLES)
    assert resolved.value == {"a": {"b": ["${env:NOBODY}"]}}
    assert dict(resolved.missing) == {("a", "b", 0): "NOBODY"}


def test_secrets_can_stay_references_until_they_are_used() -> None:
    resolved = resolve({"a": "Bearer ${env:TOKEN}", "b": "${env:TEAM}"}, VARIABLES, keep=True)
    assert resolved.value == {"a": "Bearer ${secret:TOKEN}", "b": "blue-team"}
    assert resolved.secrets == {"TOKEN": "t-123456"}


def test_a_secret_that_is_too_short_to_be_kept_is_put_in() -> None:
    assert resolve("${secret:PIN}", VARIABLES, keep=True).value == "123"


@pytest.mark.parametrize("text", ["${TOKEN}", "$env:TOKEN", "${env:}", "${env:A B}", "${file:TOKEN}", "${secret:TOKEN"])
def test_what_only_looks_like_a_reference_is_text(text: str) -> None:
    assert resolve(text, VARIABLES).value == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api_key", True),
        ("OPENAI_API_KEY", True),
        ("apiKey", True),
        ("X-Api-Key", True),
        ("Authorization", True),
        ("client_secret", True),
        ("tokens", True),
        ("token_url", False),
        ("max_tokens_used", False),
        ("monkey", False),
        ("keyboard", False),
        ("name", False),
    ],
)
def test_names_that_secrets_have(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_secrets_that_are_written_out_are_found_by_their_key() -> None:
    value = {"headers": {"Authorization": "Bearer abc", "X-Team": "blue-team"}, "token": "${env:TOKEN}", "key": "short"}
    assert literal_secrets(value) == {("headers", "Authorization"): "Bearer abc"}


def test_names_in_braces_alone_are_told() -> None:
    value = {"a": "${HOME}/x", "b": "${TOKEN:-none}", "c": "${env:TOKEN}", "d": "$5"}
    assert bare_references(value) == {("a",): "HOME", ("b",): "TOKEN"}
