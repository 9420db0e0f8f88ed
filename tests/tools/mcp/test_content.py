"""What servers give, as what a tool may give."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import CallToolResult

from retinue.ports.tools import Blob, Content
from retinue.tools.mcp.content import result_of
from tests.tools.context import Context

PIXEL = {"type": "image", "mimeType": "image/png", "data": "AAAA"}


def texts(*said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": one} for one in said]


async def result(content: list[dict[str, Any]], context: Context | None = None, **more: Any) -> object:
    given = CallToolResult.model_validate({"content": content, **more})
    return await result_of(given, "mcp:s/t", context or Context())


@pytest.mark.parametrize(
    ("said", "value", "given"),
    [
        ([], None, ""),
        (["a", "b"], None, "a\nb"),
        (['{"n": 1}'], {"n": 1}, {"n": 1}),
        (["5"], {"result": 5}, {"result": 5}),
        (["five"], {"result": "five"}, {"result": "five"}),
        (["one", "two"], {"result": ["one", "two"]}, {"result": ["one", "two"]}),
        ([], {"result": []}, {"result": []}),
        (["It is 5."], {"n": 5}, 'It is 5.\n{"n":5}'),
        (["one"], {"result": ["one", "two"]}, 'one\n{"result":["one","two"]}'),
    ],
)
async def test_a_value_is_given_once(said: list[str], value: object, given: object) -> None:
    assert await result(texts(*said), structuredContent=value) == given


async def test_a_file_beside_a_value_stays() -> None:
    both = await result([*texts('{"n":1}'), PIXEL], structuredContent={"n": 1})
    assert both == Content((Blob(data=b"\0\0\0", media_type="image/png"), '{"n":1}'))


async def test_texts_that_follow_each_other_are_one() -> None:
    given = await result([*texts("a", "b"), PIXEL, *texts("c")])
    assert given == Content(("a\nb", Blob(data=b"\0\0\0", media_type="image/png"), "c"))


async def test_a_value_that_is_too_long_is_kept_as_a_file_of_json() -> None:
    context = Context()
    text = str(await result([], context, structuredContent={"all": "x" * 150_000}))
    assert text.startswith('{"all":"xxx')
    assert "50,010 characters are left out here; the whole is kept at file:///t.json" in text
    assert [(kind, name) for _, kind, name in context.kept] == [("application/json", "t.json")]
