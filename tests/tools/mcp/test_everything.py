"""The protocol's own server for tests, over both transports."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from retinue.core.mcp import McpServer
from retinue.core.outcome import Effect
from retinue.errors import ToolFailed
from retinue.ports.tools import Blob, Content
from retinue.tools.toolbox import Connected
from tests.tools.context import Context
from tests.tools.mcp.calling import call, tool_of
from tests.tools.mcp.conftest import Pools, everything_at


@pytest.fixture(params=["stdio", "http"])
async def box(request: pytest.FixtureRequest, pools: Pools, everything: McpServer) -> AsyncIterator[Connected]:
    server = everything
    if request.param == "http":
        server = McpServer(name="everything", url=request.getfixturevalue("everything_url"))
    async with pools(server).connected(["everything"]) as box:
        assert not box.problems
        yield box


async def test_what_a_server_offers_are_tools(box: Connected) -> None:
    echo = tool_of(box, "mcp:everything/echo")
    assert (echo.origin, echo.effect, echo.timeout, echo.check) == ("mcp:everything", Effect.READ, 120.0, None)
    assert echo.spec.description == "Echoes back the input string"
    assert echo.spec.schema["required"] == ["message"]
    assert tool_of(box, "mcp:everything/gzip-file-as-resource").effect is Effect.IDEMPOTENT
    assert tool_of(box, "mcp:everything/toggle-simulated-logging").effect is Effect.WRITE


async def test_texts_values_and_images_are_given(box: Connected) -> None:
    assert await call(box, "mcp:everything/echo", message="hé") == "Echo: hé"
    weather = await call(box, "mcp:everything/get-structured-content", location="Chicago")
    assert isinstance(weather, dict)
    assert set(weather) == {"temperature", "conditions", "humidity"}
    image = await call(box, "mcp:everything/get-tiny-image")
    assert isinstance(image, Content)
    match image.parts:
        case (str(), Blob(data=data, media_type="image/png"), str()):
            assert data.startswith(b"\x89PNG")
        case other:
            pytest.fail(f"{other}")


async def test_links_and_embedded_resources_are_texts(box: Connected) -> None:
    links = await call(box, "mcp:everything/get-resource-links", count=1)
    assert "[resource demo://resource/dynamic/blob/1: Blob Resource 1, text/plain]" in str(links)
    embedded = await call(box, "mcp:everything/get-resource-reference", resourceType="Text", resourceId=1)
    assert "[resource demo://resource/dynamic/text/1]\nResource 1: This is a plaintext" in str(embedded)


async def test_progress_is_told(box: Connected) -> None:
    context = Context()
    await call(box, "mcp:everything/trigger-long-running-operation", context, duration=0.02, steps=2)
    assert context.told == [("", 1.0, 2.0), ("", 2.0, 2.0)]


async def test_L47_prompts_are_usable(box: Connected) -> None:
    prompt = tool_of(box, "mcp:everything/prompt:args-prompt")
    assert prompt.effect is Effect.READ
    assert prompt.spec.schema["required"] == ["city"]
    assert await call(box, prompt.name, city="Porto") == "What's weather in Porto?"


async def test_L47_resources_are_listed_and_read(box: Connected) -> None:
    listed = await call(box, "mcp:everything/resources:list", containing="architecture")
    assert isinstance(listed, dict)
    assert [one["uri"] for one in listed["resources"]] == ["demo://resource/static/document/architecture.md"]
    text = await call(box, "mcp:everything/resources:read", uri="demo://resource/dynamic/text/3")
    assert str(text).startswith("Resource 3: This is a plaintext resource")
    blob = await call(box, "mcp:everything/resources:read", uri="demo://resource/dynamic/blob/3")
    assert isinstance(blob, Content)


async def test_an_unknown_resource_is_an_error_that_names_the_server(box: Connected) -> None:
    with pytest.raises(ToolFailed, match=r"The MCP server everything failed: .*not found"):
        await call(box, "mcp:everything/resources:read", uri="demo://nothing")


async def test_a_server_that_began_anew_is_asked_again_in_a_new_session(pools: Pools, everything: McpServer) -> None:
    with everything_at(everything) as url:
        pool = pools(McpServer(name="everything", url=url))
        async with pool.connected(["everything"]) as first:
            assert await call(first, "mcp:everything/echo", message="one") == "Echo: one"
    with everything_at(everything, int(url.rpartition(":")[2].partition("/")[0])):
        assert await call(first, "mcp:everything/echo", message="two") == "Echo: two"
