"""One model of one provider, asked through Pydantic AI once and at once: patience is the guard's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from pydantic_ai import messages as m
from pydantic_ai.models import Model, StreamedResponse

from retinue.core.outcome import Usage
from retinue.errors import ModelError
from retinue.models import estimate
from retinue.models.config import ProviderConfig
from retinue.models.pydantic_ai.answer import ending_of, pieces_of, refusal_of, whole_of
from retinue.models.pydantic_ai.faults import CAUGHT, fault
from retinue.models.pydantic_ai.prompt import Prompt, prompt_of
from retinue.models.pydantic_ai.transport import CALLING, Call
from retinue.models.sayable import Unsayable
from retinue.models.watchdog import Watchdog
from retinue.models.wire.problems import Problems
from retinue.ports.clock import Clock
from retinue.ports.models import ModelRequest, Piece, Said, Takes

Got = TypeVar("Got")


class Translated:
    """A model of the package, behind our port."""

    def __init__(
        self,
        provider: str,
        name: str,
        model: Model[Any],
        takes: Takes,
        say: Problems,
        clock: Clock,
        config: ProviderConfig,
    ) -> None:
        self.name, self.takes = f"{provider}:{name}", takes
        self._provider, self._model_name, self._model = provider, name, model
        self._say, self._clock, self._config = say, clock, config

    async def ask(self, request: ModelRequest) -> AsyncGenerator[Said, None]:
        prompt = self._prompt(request)
        watchdog = Watchdog(self._clock, request.settings.timeout or self._config.idle_timeout)
        call = Call(self._say, watchdog)
        async with AsyncExitStack() as stack:
            stack.callback(watchdog.stop)
            stack.push_async_callback(call.close)
            stream = await self._step(call, lambda: self._open(prompt, stack))
            events = aiter(stream)
            while event := await self._step(call, lambda: _next(events)):
                for piece in pieces_of(event):
                    yield piece
            response = stream.get()
            if problem := ending_of(response, call):
                raise self._say.broken(problem)
            if refusal := refusal_of(response):
                yield Piece(refusal)
            yield whole_of(response, request, self._provider, self._model_name)

    def at_most(self, request: ModelRequest) -> Usage:
        return estimate.at_most(request, None)

    def _prompt(self, request: ModelRequest) -> Prompt:
        try:
            return prompt_of(request, self._provider, self._model)
        except Unsayable as error:
            raise self._say.unsayable(str(error)) from None

    async def _open(self, prompt: Prompt, stack: AsyncExitStack) -> StreamedResponse:
        asking = self._model.request_stream(prompt.messages, prompt.settings, prompt.parameters)
        return await stack.enter_async_context(asking)

    async def _step(self, call: Call, wait: Callable[[], Awaitable[Got]]) -> Got:
        """Wait for the package, no longer than permitted, with its errors as ours."""
        token = CALLING.set(call)
        call.watchdog.waits()
        try:
            async with asyncio.timeout(None) as limit:
                call.watchdog.guards(limit)
                return await wait()
        except TimeoutError as error:
            raise self._late(error, call) from None
        except CAUGHT as error:
            raise fault(error, call, self._config.connect_timeout) from None  # its like may hold a key
        finally:
            call.watchdog.heard()
            CALLING.reset(token)

    def _late(self, error: TimeoutError, call: Call) -> ModelError:
        if call.watchdog.bitten:
            return self._say.silent(call.watchdog.seconds, begun=bool(call.beginning))
        return fault(error, call, self._config.connect_timeout)


async def _next(events: Any) -> m.ModelResponseStreamEvent | None:
    return await anext(events, None)
