"""OpenAI's chat completions, which vLLM, Ollama, llama.cpp, OpenRouter and most gateways speak too."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from retinue.core.outcome import Usage
from retinue.errors import ModelError
from retinue.models import estimate
from retinue.models.sayable import Unsayable
from retinue.models.wire.http import HttpClient, Reply
from retinue.models.wire.openai_answer import Answer
from retinue.models.wire.openai_prompt import prompt
from retinue.models.wire.problems import Problems
from retinue.models.wire.sse import EndlessEvent, Events
from retinue.ports.models import ModelRequest, Said, Takes

PATH = "/chat/completions"
DONE = b"[DONE]"
LONGEST_COMPLAINT = 64 * 1024
LONGEST_WHOLE = 32 * 1024 * 1024


class OpenAIChat:
    """One model of one provider, asked once and at once: patience is the guard's."""

    def __init__(self, provider: str, model: str, client: HttpClient, say: Problems, takes: Takes) -> None:
        self.name, self.takes = f"{provider}:{model}", takes
        self._provider, self._model, self._client, self._say = provider, model, client, say

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Said, None]:
        reply = await self._client.post(PATH, self._prompt(request), request.settings.timeout, self._say)
        try:
            await self._check(reply)
            answer = Answer(request, self._provider, self._model, self._say)
            reading = Reading(reply, answer, self._say)
            problem: ModelError | None = None
            while not (reading.ended or problem):
                try:
                    await reading.more()
                except ModelError as error:
                    problem = error  # what came before it is said first
                for piece in answer.fresh():
                    yield piece
            if problem or (problem := reading.problem()):
                raise problem
            reply.done()
            yield answer.response()
        finally:
            reply.close()

    def at_most(self, request: ModelRequest) -> Usage:
        return estimate.at_most(request, None)

    def _prompt(self, request: ModelRequest) -> bytes:
        try:
            return prompt(request, self._model, self._provider)
        except Unsayable as error:
            raise self._say.unsayable(str(error)) from None

    async def _check(self, reply: Reply) -> None:
        if not 200 <= reply.status < 300:
            body = await reply.whole(LONGEST_COMPLAINT)
            reply.done()
            raise self._say.answered(reply.status, reply.headers, body)
        if reply.is_a("text/html"):
            raise self._say.web_page(await reply.whole(LONGEST_COMPLAINT))


class Reading:
    """The way of an answer from the network into pieces."""

    def __init__(self, reply: Reply, answer: Answer, say: Problems) -> None:
        self._reply, self._answer, self._say = reply, answer, say
        self._events = Events()
        self.ended = False
        self._done = False
        self._beginning = b""

    async def more(self) -> None:
        """Take in what has come. Some servers give the whole at once although a stream was asked for."""
        if self._reply.is_a("application/json"):
            self._answer.take(await self._reply.whole(LONGEST_WHOLE))
            self._end()
            return
        chunk = await self._reply.more()
        self._beginning = self._beginning or chunk
        try:
            events = self._events.feed(chunk) if chunk else self._events.end()
        except EndlessEvent as error:
            raise self._say.broken(str(error)) from None
        for data in events:
            if data.startswith(DONE):
                self._done = True
                self._end()
                return
            if data:
                self._answer.take(data)
        if not chunk:
            self._end()

    def _end(self) -> None:
        self.ended = True
        self._answer.close()

    def problem(self) -> ModelError | None:
        """What is wrong with how it ended."""
        if self._answer.empty:
            return self._say.empty(self._beginning)
        if not (self._done or self._answer.finished):
            return self._say.broken("it broke off in the middle: the server neither gave a reason nor said [DONE]")
        return None
