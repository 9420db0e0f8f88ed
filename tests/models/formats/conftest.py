from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from retinue.core.messages import Message
from retinue.models.config import ModelsConfig
from retinue.models.names import ModelNames
from retinue.ports.models import Model, ModelRequest
from retinue.testing import SetClock
from tests.models.asking import Answer, ask, question
from tests.models.server import Reply, Server
from tests.models.servers.anthropic import Anthropic
from tests.models.servers.gemini import Gemini
from tests.models.servers.openai_chat import OpenAIChat
from tests.models.servers.openai_responses import OpenAIResponses
from tests.models.servers.script import Calls, Format, Heard, Says, Script, Thinks

KEY = "sk-very-secret-key"
FORMATS: dict[str, Callable[[], Format]] = {
    "chat, by hand": lambda: OpenAIChat("openai"),
    "chat": lambda: OpenAIChat("openai-chat"),
    "responses": OpenAIResponses,
    "gemini": Gemini,
    "anthropic": Anthropic,
}


def only(*names: str) -> pytest.MarkDecorator:
    """A test of what only these formats have."""
    return pytest.mark.parametrize("format", names, indirect=True)


def without(*names: str) -> pytest.MarkDecorator:
    """A test of what these formats cannot say."""
    return only(*(name for name in FORMATS if name not in names))


class Provider:
    """A provider of one of the formats, and the way to its models."""

    def __init__(self, format: Format, server: Server, clock: SetClock) -> None:
        self.format, self.server, self.clock = format, server, clock
        self._names: list[ModelNames] = []

    def names(self, environment: dict[str, str] | None = None, **config: Any) -> ModelNames:
        """What finds its models; each is asked once unless the settings say otherwise."""
        given = {self.format.key: KEY, self.format.variable: self.server.root + self.format.base}
        read = msgspec.convert({"retry": {"tries": 1}, **config}, ModelsConfig)
        self._names.append(ModelNames(None, read, self.clock, environment if environment is not None else given))
        return self._names[-1]

    def model(self, name: str = "", **settings: Any) -> Model:
        """One of its models."""
        return self.names(**settings).resolve(f"{self.format.provider}:{name or self.format.model}")

    def says(self, *parts: Thinks | Says | Calls | str, **script: Any) -> None:
        """What it answers next."""
        said = [Says([part]) if isinstance(part, str) else part for part in parts]
        self.will(*self.format.stream(Script(said, **script)))

    def will(self, *body: Any, **reply: Any) -> None:
        self.server.will(Reply(list(body), **reply))

    async def ask(self, *messages: Message | str, into: Answer | None = None, **request: Any) -> Answer:
        return await ask(self.model(), question(*(messages or ("hello",)), **request), into)

    async def send(self, request: ModelRequest) -> Heard:
        """What arrives of a request."""
        self.says("well")
        await ask(self.model(), request)
        return self.heard

    @property
    def heard(self) -> Heard:
        return self.format.hear(self.server.asked[-1])

    async def close(self) -> None:
        for names in self._names:
            await names.close()


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> Format:
    return FORMATS[request.param]()


@pytest.fixture
async def provider(format: Format, server: Server, clock: SetClock) -> AsyncIterator[Provider]:
    made = Provider(format, server, clock)
    yield made
    await made.close()
