"""The table of providers agrees with the package that asks most of them."""

from __future__ import annotations

import ast
import inspect
import os

import pytest

from retinue.errors import BadSettings, KeyMissing
from retinue.models.config import ProviderConfig
from retinue.models.providers import PROVIDERS, check_address, is_openai, key_of, url_of, variables_of


def test_the_providers_of_the_table_are_known_to_the_package() -> None:
    """It has more than these: some do not chat, and what is new there is asked for by name."""
    from pydantic_ai.providers import infer_provider_class

    tree = ast.parse(inspect.getsource(infer_provider_class))
    cases = {
        value.value
        for case in ast.walk(tree)
        if isinstance(case, ast.match_case)
        for value in ast.walk(case.pattern)
        if isinstance(value, ast.Constant)
    }
    assert set(PROVIDERS) - {"gateway"} <= cases


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # in google-genai
def test_the_variables_are_those_that_the_package_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any of them it complains and names one; with any one of them it does not."""
    from openai import OpenAIError
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.providers import infer_provider

    named = {name for provider in PROVIDERS.values() for name in (*provider.keys, provider.address) if name}
    for name in {*named, "HUGGINGFACE_API_KEY", "SNOWFLAKE_ACCOUNT", "AZURE_VOICELIVE_API_KEY"} & set(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-01-01")
    monkeypatch.setenv("SNOWFLAKE_ACCOUNT", "an-account")
    checked = set()
    for name, provider in PROVIDERS.items():
        made = f"{name}/openai" if name == "gateway" else name
        with monkeypatch.context() as patch:
            if provider.address:
                patch.setenv(provider.address, "https://a.example")
            try:
                if provider.keys:
                    with pytest.raises((UserError, OpenAIError), match="|".join(provider.keys)):
                        infer_provider(made)
            except ImportError:
                continue  # its own package is none of those that are installed here
            for key in provider.keys:
                with monkeypatch.context() as with_key:
                    with_key.setenv(key, "pylf_v1_us_key" if name == "gateway" else "sk-key")
                    infer_provider(made)
            checked.add(name)
    assert {"openai-responses", "anthropic", "google", "groq", "mistral", "cohere", "azure", "deepseek"} <= checked


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({"GEMINI_API_KEY": "one"}, "one"),
        ({"GOOGLE_API_KEY": "two"}, "two"),
        ({"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": " two\n"}, "two"),
    ],
)
def test_any_of_the_usual_variables_will_do(environment: dict[str, str], key: str) -> None:
    assert key_of("google", "google:x", ProviderConfig(), environment) == key


def test_a_key_in_the_settings_goes_first_and_an_empty_one_means_none() -> None:
    environment = {"ANTHROPIC_API_KEY": "other"}
    assert key_of("anthropic", "m", ProviderConfig(api_key="mine"), environment) == "mine"
    assert key_of("anthropic", "m", ProviderConfig(api_key=""), environment) is None
    assert variables_of("anthropic", ProviderConfig(api_key="")) == ()
    with pytest.raises(KeyMissing, match="ANTHROPIC_API_KEY"):
        key_of("anthropic", "m", ProviderConfig(), {})


def test_who_has_other_ways_to_log_in_needs_no_key() -> None:
    assert key_of("bedrock", "m", ProviderConfig(), {}) is None
    assert key_of("nobody-knows", "m", ProviderConfig(), {"NOBODY_KNOWS_API_KEY": "key"}) == "key"


def test_a_server_of_ones_own_must_be_somewhere() -> None:
    with pytest.raises(
        BadSettings, match=r"\[providers.ollama\]: nothing says where the server is. Set OLLAMA_BASE_URL"
    ):
        check_address("ollama", ProviderConfig(), {})
    check_address("ollama", ProviderConfig(), {"OLLAMA_BASE_URL": "http://localhost:11434/v1"})
    check_address("ollama", ProviderConfig(base_url="http://localhost:11434/v1"), {})
    with pytest.raises(BadSettings, match=r"\[providers.groq\]: `wire` needs a `base_url`"):
        check_address("groq", ProviderConfig(wire="openai"), {})


@pytest.mark.parametrize(
    ("url", "openai"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com:443/v1", True),
        ("https://me:word@API.openai.com", True),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://a.example/api.openai.com", False),
        ("http://127.0.0.1:8000/v1", False),
    ],
)
def test_only_openais_own_address_is_openai(url: str, openai: bool) -> None:
    assert is_openai(url) is openai


def test_the_settings_say_where_a_server_is_before_the_environment_does() -> None:
    there = {"OPENAI_BASE_URL": " http://there.example "}
    assert url_of("openai", ProviderConfig(base_url="http://here.example"), there) == "http://here.example"
    assert url_of("openai", ProviderConfig(), there) == "http://there.example"
    assert is_openai(url_of("openai", ProviderConfig(), {}))
