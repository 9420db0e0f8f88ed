"""Tokens are estimated high rather than low, and fast."""

from __future__ import annotations

import pytest

from retinue.core.messages import Data, File, Message, Text, Thinking, ToolCall, ToolResult
from retinue.models import estimate
from retinue.ports.models import ModelRequest, ModelSettings, OutputSpec, ToolSpec
from tests.models.wire.conftest import asks

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "description": "Which city it is about."}}}


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("fours", 2), ("ü" * 30, 20), ("日本語", 3), ("🌕", 2)]
)
def test_a_token_is_four_characters_or_three_bytes(text: str, tokens: int) -> None:
    assert estimate.tokens(text) == tokens


def count(*parts: object, **request: object) -> int:
    return estimate.input_tokens(asks(*parts, **request)) - estimate.input_tokens(asks())  # type: ignore[arg-type]


def test_everything_that_is_sent_counts() -> None:
    words = "word " * 40
    assert count(words) == count(Thinking(text=words)) == 50
    assert count(Data(data={"a": words})) > 50
    assert count(ToolCall(call_id="1", tool="look", arguments={"a": words})) > 50
    assert count(ToolResult(call_id="1", ok=True, result=words)) > 50
    assert count(instructions=words) == 50
    assert count(tools=(ToolSpec(name="look", description=words, schema=SCHEMA),)) > 70
    assert count(output=OutputSpec(schema=SCHEMA)) > 20


def test_each_turn_costs_a_little() -> None:
    turns = tuple(Message(role="user", parts=(Text(text=""),)) for _ in range(10))
    assert estimate.input_tokens(ModelRequest(messages=turns)) == 44


@pytest.mark.parametrize(
    ("media_type", "size", "tokens"),
    [
        ("image/png", 10, 100),
        ("image/png", 400_000, 1000),
        ("image/png", 4_000_000, 3000),
        ("application/pdf", 75_000, 3000),
        ("audio/mpeg", 16_000, 40),
        ("video/mp4", 240_000, 300),
        ("text/plain", 400, 100),
    ],
)
def test_a_file_counts_by_its_size(media_type: str, size: int, tokens: int) -> None:
    file = File(uri="file:a", media_type=media_type)
    assert count(file, files={"file:a": b"x" * size}) == tokens


def test_at_most_is_the_whole_input_and_the_longest_answer() -> None:
    limited = asks("four" * 10, settings=ModelSettings(max_tokens=50))
    most = estimate.at_most(limited, 1000)
    assert (most.calls, most.input_tokens, most.output_tokens, most.estimated) == (1, 18, 50, True)
    assert estimate.at_most(asks(), 1000).output_tokens == 1000
    assert estimate.at_most(asks(), None).output_tokens == estimate.WITHOUT_LIMIT
