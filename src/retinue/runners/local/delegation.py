"""Having other agents do something: the five tools, and what comes back by itself.

A delegated agent is a child run. Starting one is on disk with the call that it is for, so a crash finds it again and
starts no second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from retinue.core import delegation as d
from retinue.core import events as e
from retinue.core.agent import AgentDefinition
from retinue.core.messages import Message
from retinue.core.outcome import Effect, Failure, Outcome, Status
from retinue.core.policy import Policy
from retinue.core.routing import INHERIT
from retinue.core.run import Child
from retinue.core.schema import Schema
from retinue.core.target import Target
from retinue.core.tool import BUILT_IN
from retinue.engine.context import RunContext
from retinue.engine.submit import Request
from retinue.errors import BadInput, ModelError, RetinueError
from retinue.ports.definitions import Definitions
from retinue.ports.models import ToolSpec
from retinue.ports.tools import Check, ToolContext
from retinue.runners.local.compaction import NoSummary


def spec_of(name: str) -> ToolSpec:
    takes, description = d.TAKES[name]
    _, parts = msgspec.json.schema_components([takes])
    schema = {key: value for key, value in parts[takes.__name__].items() if key not in ("title", "description")}
    return ToolSpec(name=name, description=description, schema=schema)


@cache
def specs() -> Mapping[str, ToolSpec]:
    return {name: spec_of(name) for name in d.NAMES}


@cache
def schema_of(name: str) -> Schema:
    return Schema(specs()[name].schema)


@dataclass(frozen=True, slots=True)
class DelegationTool:
    """One of the five. It acts through the run itself, and may wait for days."""

    spec: ToolSpec
    delegation: Delegation
    origin: str = BUILT_IN
    effect: Effect = Effect.IDEMPOTENT
    timeout: float | None = None
    check: Check | None = None
    stops: bool = True

    @property
    def name(self) -> str:
        return self.spec.name

    async def call(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        raise AssertionError(f"{self.name} is performed by the run itself")

    async def perform(self, call_id: str, arguments: Mapping[str, object]) -> e.ToolFinished:
        """What came of it: for the model also where nothing could be done."""
        try:
            result = await self.delegation.perform(self.name, call_id, arguments)
        except d.Refusal as refused:
            failure = Failure(kind=refused.code, message=str(refused))
            return e.ToolFinished(call_id=call_id, ok=False, error=failure)
        return e.ToolFinished(call_id=call_id, ok=True, result=result)


class Delegation:
    """What a run of an agent has others do."""

    def __init__(self, ctx: RunContext, agent: AgentDefinition, definitions: Definitions) -> None:
        self._ctx, self._agent, self._definitions = ctx, agent, definitions
        self._turn = asyncio.Lock()

    def knows(
        self,
        policy: Callable[[], Policy],
        model: str,
        messages: Callable[[], Sequence[Message]],
        in_short: Callable[[Sequence[Message]], Awaitable[str]],
    ) -> None:
        """What of its run children are given: the policy as it is by then, the model, the conversation."""
        self._policy, self._model, self._messages, self._in_short = policy, model, messages, in_short

    @property
    def tools(self) -> list[DelegationTool]:
        return [DelegationTool(spec, self) for spec in specs().values()] if self._agent.agents else []

    def catalogue(self) -> str:
        """Who may be called, for the instructions."""
        return d.catalogue(callee for name in self._agent.agents if (callee := self._callee(name)))

    def _callee(self, name: str) -> d.Callee | None:
        target = target_of(name)
        if target.kind != "agent":
            return d.Callee(name, f"a {target.kind}")
        try:
            agent = self._definitions.agent(target.name)
        except BadInput:
            return None
        return d.Callee(name, agent.description, agent.input)

    async def perform(self, name: str, call_id: str, arguments: Mapping[str, object]) -> object:
        try:
            said: Any = msgspec.convert(arguments, d.TAKES[name][0])
        except msgspec.ValidationError as error:
            raise d.Refusal("invalid_arguments", str(error)) from None
        match said:
            case d.RunAgent():
                return await self._run(call_id, said)
            case d.OfRun():
                return await self._report(self._child(said.run_id))
            case d.StopAgent():
                return await self._stop(self._child(said.run_id), said.reason)
            case d.SendAgent():
                return await self._send(self._child(said.run_id), said.text, call_id)
            case _:
                return [self._listed(child) for child in self._ctx.state.children.values()]

    # Running

    async def _run(self, call_id: str, said: d.RunAgent) -> object:
        async with self._turn:  # of two calls that go on with one run, the second finds what the first has begun
            child = self._ctx.child_of(call_id) or self._under_way(said.run_id)
            if child is None:
                child = await self._start(call_id, said, self._child(said.run_id) if said.run_id else None)
        if said.background:
            return d.report(child.run_id, _name_of(child), Status.RUNNING, None)
        return await self._ended(child)

    def _under_way(self, run_id: str | None) -> Child | None:
        """What runs of a run that is to go on: itself, or what goes on from it already. It is not started twice."""
        if run_id is None:
            return None
        open_ones = self._ctx.state.open_children.values()
        return next((child for child in open_ones if run_id in (child.run_id, child.continues)), None)

    async def _ended(self, child: Child) -> object:
        outcome = await self._ctx.child_outcome(child.call_id)
        return d.report(child.run_id, _name_of(child), outcome.status, outcome)

    async def _start(self, call_id: str, said: d.RunAgent, before: Child | None) -> Child:
        request = await self._request(said, before)
        await self._check_limits()
        try:
            async with self._ctx.entered(call_id):
                await self._ctx.start_children([(call_id, request)], background=said.background)
        except BadInput as error:
            raise d.Refusal("invalid_arguments", str(error)) from None
        return self._ctx.state.children[call_id]

    async def _request(self, said: d.RunAgent, before: Child | None) -> Request:
        target = self._target(said, before)
        able = self._ctx.capabilities_of(target)
        if before and not able.continues:
            raise d.Refusal("invalid_arguments", f"{target} cannot go on with an earlier run")
        if said.share != "none" and not able.share:
            raise d.Refusal("invalid_arguments", f"{target} cannot be shown this conversation")
        if said.input is not None and not able.seed:
            raise d.Refusal("invalid_arguments", f"{target} takes a task and no input beside it")
        return Request(
            target=target,
            input=said.task if said.input is None else said.input,
            seed=await self._seed(said),
            source_run_id=before.run_id if before else None,
            source_seq=await self._ctx.last_seq(before.run_id) if before else None,
            continues=before is not None,
            policy=self._policy(),
            model=self._model if self._inherits(target) else None,
        )

    def _target(self, said: d.RunAgent, before: Child | None) -> str:
        if before:
            if said.agent is not None and str(target_of(said.agent)) != before.target:
                raise d.Refusal(
                    "invalid_arguments", f"{before.run_id} is a run of {_name_of(before)}, not {said.agent}"
                )
            return before.target
        if said.agent is None:
            raise d.Refusal("invalid_arguments", "say which agent, or which run goes on")
        if said.agent not in self._agent.agents or said.agent == self._agent.name:
            there = ", ".join(self._agent.agents)
            raise d.Refusal("unknown_agent", f"there is no {said.agent[:100]!r} for you. You have: {there}")
        target = target_of(said.agent)
        if target.kind == "agent":
            self._declared(target.name)
        return str(target)

    def _declared(self, name: str) -> AgentDefinition:
        try:
            return self._definitions.agent(name)
        except BadInput as error:
            raise d.Refusal("unknown_agent", str(error)) from None

    def _inherits(self, target: str) -> bool:
        known = Target.parse(target)
        return known.kind == "agent" and self._declared(known.name).model == INHERIT

    async def _seed(self, said: d.RunAgent) -> tuple[Message, ...]:
        """What it is told before it begins, where that is more than the task."""
        match said.share:
            case "messages":
                return d.shared(self._messages(), said.task)
            case "summary":
                told = await self._told_in_short()
                told = f"What happened before, in short:\n{told}\n\nYour task:\n{said.task}"
                return d.shared((), told)
            case _:
                return d.opening(said.task, said.input) if said.input is not None else ()

    async def _told_in_short(self) -> str:
        try:
            return await self._in_short(self._messages())
        except (ModelError, NoSummary) as error:
            raise d.Refusal("invalid_state", f"this conversation cannot be told in short: {error}") from None

    async def _check_limits(self) -> None:
        limits = self._agent.limits
        if self._ctx.run.depth + 1 > limits.max_depth:
            raise d.Refusal("limit_exceeded", f"agents call agents {limits.max_depth} deep here, and no deeper")
        if await self._ctx.alive() >= limits.max_children:
            raise d.Refusal("limit_exceeded", f"{limits.max_children} agents run already, and no more may")

    # Looking after them

    def _child(self, run_id: str) -> Child:
        """A child of this run, or of what it goes on from; somebody else's is unknown."""
        for state in (self._ctx.state, *self._ctx.past.states):
            for child in state.children.values():
                if child.run_id == run_id:
                    return child
        raise d.Refusal("unknown_run", f"you have started no run {run_id[:100]!r}")

    async def _report(self, child: Child) -> object:
        if not child.status.terminal:
            so_far = await self._ctx.said_by(child.run_id)
            return d.report(child.run_id, _name_of(child), Status.RUNNING, None, so_far)
        return d.report(child.run_id, _name_of(child), child.status, await self._outcome(child))

    async def _outcome(self, child: Child) -> Outcome | None:
        return (await self._ctx.outcomes([child.run_id])).get(child.run_id)

    async def _stop(self, child: Child, reason: str) -> object:
        if not child.status.terminal:
            await self._ctx.cancel_child(child.call_id, reason or "its caller stopped it")
        return await self._ended(child)

    async def _send(self, child: Child, text: str, call_id: str) -> object:
        if child.status.terminal:
            raise d.Refusal("invalid_state", f"{child.run_id} has ended: go on with it by agent_run")
        if not self._ctx.capabilities_of(child.target).steer:
            raise d.Refusal("invalid_state", f"{_name_of(child)} cannot be told anything while it runs")
        try:
            await self._ctx.steer_child(child.run_id, text, self._ctx.key_of(call_id))
        except RetinueError as error:  # it ended in this very moment
            raise d.Refusal("invalid_state", str(error)) from None
        return {"run_id": child.run_id, "delivered": True}

    def _listed(self, child: Child) -> object:
        return {
            "run_id": child.run_id,
            "agent": _name_of(child),
            "status": child.status.value if child.status.terminal else Status.RUNNING.value,
            "background": child.background,
        }

    # What comes by itself

    async def unheard(self) -> dict[str, str]:
        """What background agents gave that the model has not been told, by call."""
        state = self._ctx.state
        children = [state.children[call_id] for call_id in state.unheard]
        ended = await self._ctx.outcomes([child.run_id for child in children]) if children else {}
        return {
            child.call_id: d.background_result(
                child.call_id, d.report(child.run_id, _name_of(child), child.status, ended.get(child.run_id))
            )
            for child in children
        }

    async def settle(self) -> None:
        """The agent has its answer: what becomes of those that still run in the background."""
        match self._agent.when_done:
            case "wait":
                await self._ctx.children_end()
            case "cancel":
                for call_id in list(self._ctx.state.open_children):
                    await self._ctx.cancel_child(call_id, "its caller is done")
                await self._ctx.children_end()
            case "detach":
                self._ctx.detached = True


def target_of(name: str) -> Target:
    """What an entry of `agents` means: an agent by its name, or any target."""
    return Target.parse(name if ":" in name else f"agent:{name}")


def _name_of(child: Child) -> str:
    return child.target.removeprefix("agent:")
