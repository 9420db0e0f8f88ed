"""Runs agents with our own loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from retinue.core.agent import LOCAL, AgentCode, AgentDefinition
from retinue.core.budget import MICROS
from retinue.core.compaction import CompactionConfig
from retinue.core.digest import digest_of
from retinue.core.outcome import Durability, Outcome
from retinue.core.policy import Policy, Rule
from retinue.core.routing import AUTO, INHERIT, RoutingConfig
from retinue.core.target import Target
from retinue.engine.context import RunContext
from retinue.engine.description import Capabilities, Description
from retinue.errors import BadInput, WrongInput
from retinue.ports.definitions import Definitions
from retinue.ports.models import Model, Models, Patience
from retinue.ports.tools import Tool, Toolbox, Tools
from retinue.runners.local import reader
from retinue.runners.local.answers import answered_before
from retinue.runners.local.calls import Calls
from retinue.runners.local.client import client_tools
from retinue.runners.local.compaction import Compaction
from retinue.runners.local.delegation import Delegation, schema_of
from retinue.runners.local.kit import Kit
from retinue.runners.local.loop import Loop
from retinue.runners.local.opening import opened, warn
from retinue.runners.local.prompt import LocalPrompt
from retinue.runners.local.reader import ResultReader
from retinue.runners.local.routing import route
from retinue.runners.local.turn import Given, Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalConfig:
    """What the settings say of agents."""

    model: str = "test"
    """Who answers where an agent names nobody."""
    policy: tuple[Rule, ...] = ()
    patience: Patience | None = None
    """How often a model is asked, where an agent does not say."""
    routing: RoutingConfig | None = None
    compaction: CompactionConfig = field(default_factory=CompactionConfig)


@dataclass(frozen=True, slots=True)
class _Known:
    """An agent of this process, and what is made of it once."""

    definition: AgentDefinition
    code: AgentCode
    description: Description


class LocalRunner:
    """Runs `agent:NAME` for agents on the platform `local`."""

    platform = LOCAL
    capabilities = Capabilities(
        durability=Durability.EFFECTS,
        share=True,
        continues=True,
        seed=True,
        steer=True,
        tickets=True,
        client_tools=True,
        files=True,
        takes_model=True,
        keeps_time=True,
    )

    def __init__(self, definitions: Definitions, tools: Tools, models: Models, config: LocalConfig) -> None:
        self._definitions, self._tools, self._models, self._config = definitions, tools, models, config
        self._known: dict[str, _Known] = {}
        self._kits: dict[str, tuple[Toolbox, Kit]] = {}

    # What it is

    def describe(self, target: Target) -> Description:
        description = self._find(target).description
        if target.model is None:
            return description
        return replace(description, requires={**description.requires, "model": target.model})

    def _find(self, target: Target) -> _Known:
        definition = self._definitions.agent(target.name)
        known = self._known.get(target.name)
        if known is None or known.definition is not definition:
            code = self._definitions.code(target.name)
            known = self._known[target.name] = _Known(definition, code, self._describe(target, definition, code))
        self._resolve(definition, self._named(definition, target.model))
        return known

    def _describe(self, target: Target, agent: AgentDefinition, code: AgentCode) -> Description:
        digest = digest_of(code.digests) if code.digests else ""
        requires = {"platform": LOCAL, "agent": agent.name}
        if agent.on_change == "wait":
            requires["code"] = digest
        input = code.input_of(agent)

        def accept(given: object) -> object:
            checked = input.check(given)
            if not checked.fits:
                raise WrongInput(target=str(target), problem=str(checked))
            return checked.value

        return Description(
            definition={**agent.to_json(), "code": digest},
            requires=requires,
            code=digest,
            max_minutes=agent.limits.max_minutes,
            max_cost_usd=agent.limits.max_cost_usd,
            on_change=agent.on_change,
            durability=agent.durability,
            accept=accept,
        )

    def can_load(self, requires: Mapping[str, object]) -> bool:
        try:
            model = requires.get("model")
            described = self.describe(
                Target("agent", str(requires.get("agent")), None if model is None else str(model))
            )
        except BadInput:
            return False
        return requires.get("code", described.code) == described.code

    # Running

    async def run(self, ctx: RunContext) -> Outcome:
        known = self._find(Target.parse(ctx.run.target, ctx.model))
        agent = known.definition
        if ctx.definition is not known.description.definition:  # it began with another one
            agent = AgentDefinition.from_json(ctx.definition)
        if answer := await answered_before(ctx, agent, self._named(agent, ctx.model)):
            return answer
        async with self._tools.open(agent, known.code, ctx.run) as box:
            kit = self._kit(ctx, agent, known.code, box)
            loop = await self._loop(ctx, _limited(agent, ctx), kit, box)
            return await loop.run()

    async def cancel(self, ctx: RunContext) -> None:
        """What its tools hold is closed when the code is left."""

    async def _loop(self, ctx: RunContext, agent: AgentDefinition, kit: Kit, box: Toolbox) -> Loop:
        warn(ctx, "tools", box.problems)
        model = await self._model(ctx, agent)
        delegation = Delegation(ctx, agent, self._definitions)
        briefing = "\n\n".join(filter(None, (box.briefing, delegation.catalogue())))
        opening = await opened(ctx, agent, model, briefing)
        kit = kit.and_more((tool, schema_of(tool.name)) for tool in delegation.tools)
        given = Given(instructions=opening.instructions, tools=kit.specs, settings=agent.settings)
        prompt = LocalPrompt(ctx, opening, model.takes)
        calls = Calls(ctx, agent, kit, self._policy(ctx, agent), ctx.time_is_up)
        compaction = Compaction(ctx, model, prompt, self._config.compaction, agent.limits)
        delegation.knows(lambda: calls.policy, model.name, prompt.messages, compaction.in_short)
        return Loop(ctx, agent, given, Turns(ctx, agent, model, prompt, delegation), calls, compaction, delegation)

    def _policy(self, ctx: RunContext, agent: AgentDefinition) -> Policy:
        """Its own and the project's; below another agent, no more than that may do."""
        policy = Policy.of(agent.policy, self._config.policy)
        above = ctx.state.queued.policy if ctx.state.queued else None
        return policy.within(above) if above else policy

    async def _model(self, ctx: RunContext, agent: AgentDefinition) -> Model:
        name, default = self._named(agent, ctx.model), self._config.model
        if name == AUTO:
            name = await route(ctx, agent, self._models, self._config.routing, default)
        return self._resolve(agent, default if name == INHERIT else name)

    def _named(self, agent: AgentDefinition, instead: str | None) -> str:
        """The name of who answers: what was asked for with the run, else what the agent says, else the default."""
        return instead if instead is not None else agent.model or self._config.model

    def _resolve(self, agent: AgentDefinition, name: str) -> Model:
        """Raises what stands against asking that model before anything is stored."""
        if name in (AUTO, INHERIT):
            name = self._config.model
        patience = agent.retry or self._config.patience
        return self._models.resolve(name, fallback=agent.fallback_models, patience=patience)

    def _kit(self, ctx: RunContext, agent: AgentDefinition, code: AgentCode, box: Toolbox) -> Kit:
        if ctx.client_tools:
            kit = Kit.of(agent, code, self._with_those_of_client(ctx, box.tools))
        elif (made := self._kits.get(agent.digest)) and made[0] is box:
            kit = made[1]
        else:
            kit = Kit.of(agent, code, box.tools)
            self._kits[agent.digest] = box, kit
        return kit.and_more([(ResultReader(ctx.state), reader.schema())])

    def _with_those_of_client(self, ctx: RunContext, tools: Sequence[Tool]) -> list[Tool]:
        taken = {tool.name for tool in tools}
        theirs = client_tools(ctx.client_tools)
        clashes = [tool.name for tool in theirs if tool.name in taken]
        warn(ctx, "tools", [f"the agent has a tool {name} of its own: the client's is left out" for name in clashes])
        return [*tools, *(tool for tool in theirs if tool.name not in taken)]


def _limited(agent: AgentDefinition, ctx: RunContext) -> AgentDefinition:
    """The agent with the limits of this run: whoever asked for it may have set others, and its tree has one purse."""
    assert ctx.state.queued
    cost, purse = agent.limits.max_cost_usd, ctx.run.purse_limit
    if purse is not None:
        cost = min(filter(None, (purse / MICROS, cost)))
    limits = structs.replace(agent.limits, max_minutes=ctx.state.queued.max_minutes, max_cost_usd=cost)
    return agent if limits == agent.limits else structs.replace(agent, limits=limits)
