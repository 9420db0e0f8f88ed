"""The table of what models take."""

from __future__ import annotations

import re

import pytest
from genai_prices.data_snapshot import get_snapshot

from retinue.models.config import TakesConfig
from retinue.models.takes import TABLE, UNKNOWN, corrected, providers_of, row_of

CONTEXTS = [
    (ours, model.id, model.context_window)
    for seller in get_snapshot().providers
    for theirs, ours in {"openai": "openai", "anthropic": "anthropic", "google": "google", "x-ai": "xai"}.items()
    if seller.id == theirs
    for model in seller.models
    if model.context_window and not model.deprecated
]


@pytest.mark.parametrize(("provider", "model", "context"), CONTEXTS)
def test_no_window_is_larger_than_others_know_it(provider: str, model: str, context: int) -> None:
    assert (row_of(provider, model).context or 0) <= context * 1.06


@pytest.mark.parametrize(
    ("name", "takes", "not_"),
    [
        ("openai:gpt-5-mini", ["image/png", "application/pdf"], ["audio/wav", "video/mp4", "image/svg+xml"]),
        ("openai-responses:gpt-6.1-sol", ["image/webp", "application/pdf"], ["audio/wav"]),
        ("openai:gpt-audio", ["audio/wav", "audio/mpeg"], ["image/png"]),
        ("openai:gpt-4o-audio-preview", ["audio/wav"], ["image/png"]),
        ("openai:o3-mini", [], ["image/png"]),
        ("openai:gpt-oss-20b", [], ["image/png"]),
        ("anthropic:claude-opus-5-5", ["image/gif", "application/pdf"], ["image/heic", "audio/wav"]),
        ("google:gemini-3.8-flash", ["image/heic", "audio/flac", "video/mp4", "application/pdf"], ["image/gif"]),
        ("google-cloud:gemini-2.5-pro", ["video/webm"], []),
        ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", ["image/png", "application/pdf"], []),
        ("bedrock:amazon.nova-micro-v1:0", [], ["image/png"]),
        ("openrouter:anthropic/claude-sonnet-5", ["image/png"], ["audio/wav"]),
        ("openrouter:x-ai/grok-4.3", ["image/png"], ["image/gif"]),
        ("gateway:openai:gpt-5", ["image/png"], []),
        ("groq:meta-llama/llama-4-scout-17b-16e-instruct", ["image/png"], []),
        ("mistral:mistral-medium-latest", ["image/png"], []),
        ("deepseek:deepseek-chat", [], ["image/png"]),
    ],
)
def test_what_is_taken(name: str, takes: list[str], not_: list[str]) -> None:
    row = row_of(*name.split(":", 1))
    assert row.context
    assert all(row.takes.takes(media_type) for media_type in takes)
    assert not any(row.takes.takes(media_type) for media_type in not_)


@pytest.mark.parametrize(
    ("name", "longest"),
    [
        ("openai:gpt-4o", 16_384),
        ("openai:gpt-4.1-mini", 32_768),
        ("openai:gpt-5.4-mini", 128_000),
        ("anthropic:claude-opus-4-1-20250805", 32_000),
        ("anthropic:claude-opus-4-5", 64_000),
        ("anthropic:claude-sonnet-4-6", 64_000),
        ("anthropic:claude-haiku-5-5", 128_000),
        ("google:gemini-2.0-flash", 8_192),
        ("google:gemini-4-argon", 65_536),
    ],
)
def test_the_longest_answers(name: str, longest: int) -> None:
    assert row_of(*name.split(":", 1)).longest == longest


def test_models_without_tools_or_schemas_are_known() -> None:
    assert not row_of("openai", "o1-mini").tools
    assert not row_of("openai", "gpt-4-turbo").output
    assert not row_of("groq", "llama-3.1-8b-instant").output
    assert row_of("groq", "openai/gpt-oss-20b").output


@pytest.mark.parametrize(("provider", "model"), [("openai", "any"), ("acme", "gpt-5"), ("together", "openai/gpt-5")])
def test_a_model_that_nobody_knows_takes_text(provider: str, model: str) -> None:
    row = row_of(provider, model)
    assert row == UNKNOWN
    assert (row.takes.media, row.takes.tools, row.takes.output) == (frozenset(), True, True)


def test_settings_go_over_the_table() -> None:
    row = corrected(row_of("openai", "any"), TakesConfig(media=("image/*",), tools=False, context_tokens=4096))
    assert row.takes.takes("image/tiff")
    assert (row.tools, row.output, row.context, row.longest) == (False, True, 4096, None)
    assert corrected(row, None) is row
    assert corrected(row, TakesConfig(media=())).media == frozenset()


def test_no_row_hides_a_later_one_whole() -> None:
    for rows in TABLE.values():
        for n, row in enumerate(rows):
            literal = re.sub(r"[\[(].*|\\|\$|\?.*", "", row.name)
            assert not literal or not any(re.fullmatch(earlier.name, literal) for earlier in rows[:n]), row


@pytest.mark.parametrize(
    ("model", "provider"), [("gpt-5-mini", "openai"), ("claude-opus-5", "anthropic"), ("gemini-3.8-flash", "google")]
)
def test_who_forgot_the_provider_can_be_told(model: str, provider: str) -> None:
    assert providers_of(model)[0] == provider
    assert providers_of("no-such-thing") == []
