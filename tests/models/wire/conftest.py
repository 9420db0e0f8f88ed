from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from retinue.core.messages import AnyPart, Message, Text
from retinue.models.wire.http import Endpoint, HttpClient
from retinue.models.wire.openai_chat import OpenAIChat
from retinue.models.wire.problems import Problems
from retinue.ports.models import ModelRequest, ModelResponse, Piece, Takes
from retinue.testing import SetClock
from tests.models.server import Server

KEY = "sk-very-secret-key"


@dataclass
class Wire:
    """Models that are asked over the wire, on the test server unless another place is named."""

    server: Server
    clock: SetClock
    clients: list[HttpClient] = field(default_factory=list)

    def chat(self, model: str = "any", *, url: str = "", **endpoint: Any) -> OpenAIChat:
        url = url or self.server.url
        headers = {"Authorization": f"Bearer {KEY}"}
        client = HttpClient(Endpoint(url=url, headers=headers, **endpoint), self.clock)
        self.clients.append(client)
        say = Problems(
            f"acme:{model}",
            url,
            key_from="ACME_API_KEY",
            url_from="base_url under [providers.acme]",
            secrets=(KEY,),
            now_ms=self.clock.now_ms,
        )
        return OpenAIChat("acme", model, client, say, Takes())

    async def ask(self, request: ModelRequest | None = None, **endpoint: Any) -> tuple[list[Piece], ModelResponse]:
        return await told(self.chat(**endpoint), request or asks("hello"))


def asks(*parts: str | AnyPart, **request: Any) -> ModelRequest:
    said = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    return ModelRequest(messages=(Message(role="user", parts=said),), **request)


async def told(model: OpenAIChat, request: ModelRequest) -> tuple[list[Piece], ModelResponse]:
    """All pieces of an answer, and the whole."""
    said = [piece async for piece in model.ask(request)]
    *pieces, response = said
    assert isinstance(response, ModelResponse)
    return [piece for piece in pieces if isinstance(piece, Piece)], response


@pytest.fixture
async def wire(server: Server, clock: SetClock) -> AsyncIterator[Wire]:
    wire = Wire(server, clock)
    yield wire
    for client in wire.clients:
        await client.close()
