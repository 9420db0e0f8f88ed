"""One turn: what the model is asked, what it may cost, and how its answer is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from retinue.core import events as e
from retinue.core.agent import AgentDefinition
from retinue.core.budget import longest_answer
from retinue.core.loop import Recover
from retinue.core.messages import AnyPart, ToolCall
from retinue.core.outcome import Failure, Outcome, Reason, Status, Usage
from retinue.core.run import interruption
from retinue.engine.alarm import Alarm, Rung, time_limit
from retinue.engine.context import RunContext
from retinue.errors import ModelBroken, ModelError, NotStorable
from retinue.ports.models import Model, ModelRequest, ModelSettings, ToolSpec
from retinue.runners.ask import ask, settle, spent_on_nothing
from retinue.runners.local.delegation import Delegation
from retinue.runners.local.prompt import LocalPrompt

LONGEST_NAME, LONGEST_CALL_ID = 200, 200  # what is longer is no name, and would stand in every prompt from then on


@dataclass(frozen=True, slots=True)
class Given:
    """What a model is given beside messages: tools by the names that it takes, settings, instructions."""

    instructions: str
    tools: Mapping[str, ToolSpec]
    """By the name as people write it."""
    settings: Mapping[str, object]

    def only(self, name: str) -> Given:
        return replace(self, tools={name: self.tools[name]} if name in self.tools else {})

    def at_most(self, tokens: int) -> Given:
        """With an answer of so many tokens at the most."""
        return replace(self, settings={**self.settings, "max_tokens": tokens})

    def without(self, name: str) -> Given:
        return replace(self, tools={other: spec for other, spec in self.tools.items() if other != name})


class Turns:
    """Asks the model of a run, turn by turn."""

    def __init__(
        self, ctx: RunContext, agent: AgentDefinition, model: Model, prompt: LocalPrompt, delegation: Delegation
    ) -> None:
        self._ctx, self._agent, self._model, self._prompt = ctx, agent, model, prompt
        self._delegation = delegation
        self._results: dict[str, str] = {}
        said = (*prompt.head, *ctx.state.transcript)
        self._ids = {call.call_id for message in said for call in _calls(message.parts)}

    async def take(
        self, given: Given, notes: tuple[str, ...], warnings: tuple[e.Warned, ...], alarm: Alarm, *, grace: bool = False
    ) -> Recover | Outcome | None:
        """Ask, and record the answer. What else may come of it: a limit was hit, or the run has failed."""
        ctx, reserved = self._ctx, Usage()
        given = self._as_begun(given)
        await self._prompt.prepare()
        self._results = await self._delegation.unheard() if ctx.state.unheard and not ctx.state.turn_open else {}
        if self._agent.limits.max_cost_usd is not None:
            paid = await self._reserve(given, notes, grace=grace)
            if paid is None:
                return Recover(Reason.BUDGET, "max_cost_usd")
            given, reserved = paid
        request = self._request(given, notes)  # with what was said while money was put aside
        if not ctx.state.turn_open:
            ctx.note(self._started(given, notes, request), *warnings)  # the notes first: what was warned of is said
            await ctx.sync()
        before = ctx.state.usage.cost_usd
        came = await self._answered(request, alarm)
        settle(ctx, reserved, ctx.state.usage.cost_usd - before)
        return came

    async def _answered(self, request: ModelRequest, alarm: Alarm) -> Recover | Outcome | None:
        ctx = self._ctx
        try:
            with alarm.interrupting(), time_limit(ctx.clock, self._agent.limits.turn_timeout):
                responded = await ask(ctx, self._model, request)
        except Rung:
            self._interrupted("the time was over")
            return None
        except TimeoutError:
            self._interrupted("the turn took too long")
            return Recover(Reason.TIMEOUT, "turn_timeout")
        except ModelError as error:
            return self._failed(error)
        try:
            ctx.note(self._taken(responded))
        except NotStorable as error:
            return self._failed(ModelBroken(model=self._model.name, problem=str(error)))
        return None

    def _as_begun(self, given: Given) -> Given:
        """A turn that broke off is asked again as its journal says that it was, as far as that is still there."""
        state = self._ctx.state
        if not state.turn_open:
            return given
        tools = {name: given.tools[name] for name in state.tools or () if name in given.tools}
        return Given(instructions=state.instructions or "", tools=tools, settings=state.settings or {})

    def _request(self, given: Given, notes: tuple[str, ...]) -> ModelRequest:
        return ModelRequest(
            messages=self._prompt.messages()
            if self._ctx.state.turn_open
            else self._prompt.next(notes, self._results.values()),
            instructions=given.instructions or None,
            tools=tuple(given.tools.values()),
            settings=settings_of(given.settings, self._agent.limits.idle_timeout),
            files=self._prompt.files,
            deadline=self._deadline(),
        )

    def _deadline(self) -> int | None:
        now, limits = self._ctx.clock.now_ms(), self._agent.limits
        ends = [now + int(limits.turn_timeout * 1000)]
        if self._ctx.state.recovery:
            ends.append(now + int(limits.grace_seconds * 1000))
        elif (deadline := self._ctx.deadline) is not None:
            ends.append(deadline)
        return min(ends)

    def _started(self, given: Given, notes: tuple[str, ...], request: ModelRequest) -> e.TurnStarted:
        state, names = self._ctx.state, tuple(given.tools)
        return e.TurnStarted(
            turn=state.turn + 1,
            model=self._model.name,
            notes=notes,
            results=self._results or None,
            messages=len(request.messages),
            characters=self._prompt.count(request.messages),
            tools=None if state.turn and state.tools == names else names,
            settings=None if state.settings == given.settings else dict(given.settings),
            instructions=None if state.instructions == given.instructions else given.instructions,
        )

    # Money

    async def _reserve(self, given: Given, notes: tuple[str, ...], *, grace: bool) -> tuple[Given, Usage] | None:
        """Put aside what the call may cost, and leave as much for a grace turn. Where there is not enough, its answer
        has to be shorter; nothing comes of it where that is too short for one."""
        at_most = self._model.at_most(self._request(given, notes))
        if await self._put_aside(at_most, grace=grace):
            return given, at_most
        shortest = self._model.at_most(self._request(given.at_most(1), notes))
        left = await self._left()
        length = longest_answer(left if grace else left / 2, shortest, at_most)
        if length is None:
            return None
        shorter = given.at_most(length)
        at_most = self._model.at_most(self._request(shorter, notes))
        return (shorter, at_most) if await self._put_aside(at_most, grace=grace) else None

    async def _put_aside(self, at_most: Usage, *, grace: bool) -> bool:
        keep = 0.0 if grace else at_most.cost_usd
        return at_most.cost_usd + keep <= self._own_left() and await self._ctx.reserve(at_most.cost_usd, keep=keep)

    async def _left(self) -> float:
        of_tree = await self._ctx.money_left()
        return self._own_left() if of_tree is None else min(self._own_left(), of_tree)

    def _own_left(self) -> float:
        limit = self._agent.limits.max_cost_usd
        assert limit is not None
        return limit - self._ctx.state.usage.cost_usd

    # Answers

    def _interrupted(self, cause: str) -> None:
        """It was being answered when it was stopped; so what it was asked has its price."""
        said = self._ctx.speech.said()
        self._break_off(cause, (self._ctx.lost(said) if said else None) or Usage())

    def _break_off(self, cause: str, spent: Usage) -> None:
        said = self._ctx.speech.said()
        text, thinking = (said.text(), said.text("thinking")) if said else ("", "")
        self._ctx.note(interruption(self._ctx.state, cause, text, thinking, spent))

    def _failed(self, error: ModelError) -> Recover | Outcome:
        """A model that would have been asked again, had there been time, has run into the deadline."""
        self._break_off(str(error), spent_on_nothing(self._ctx))
        if error.too_late:
            return Recover(Reason.TIMEOUT, str(error))
        failure = Failure(kind=type(error).__name__, message=str(error))
        partial = self._ctx.state.said or None
        return Outcome(status=Status.FAILED, reason=Reason.PROVIDER_ERROR, error=failure, partial=partial)

    def _taken(self, responded: e.ModelResponded) -> e.ModelResponded:
        """The answer with an id for each call that is the run's alone, and names of a length that can be shown."""
        if not (calls := _calls(responded.parts)):
            return responded
        own = iter([self._own(call, responded.turn, n) for n, call in enumerate(calls)])
        parts: tuple[AnyPart, ...] = tuple(
            next(own) if isinstance(part, ToolCall) else part for part in responded.parts
        )
        return replace(responded, parts=parts)

    def _own(self, call: ToolCall, turn: int, place: int) -> ToolCall:
        call_id = call.call_id
        if not call_id.strip() or len(call_id) > LONGEST_CALL_ID or "?" in call_id or call_id in self._ids:
            call_id = f"{self._ctx.run.id}#{turn}-{place}"
        self._ids.add(call_id)
        return msgspec.structs.replace(call, call_id=call_id, tool=call.tool[:LONGEST_NAME])


def _calls(parts: Sequence[AnyPart]) -> list[ToolCall]:
    return [part for part in parts if isinstance(part, ToolCall)]


def settings_of(said: Mapping[str, object], idle_timeout: float) -> ModelSettings:
    """Settings as an agent declares them."""
    return msgspec.convert({"timeout": idle_timeout, **said}, ModelSettings)
