"""Names to models: `openai:gpt-5-mini`, an alias, `test`, `local:smollm2`, or whatever a provider calls its models."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

import msgspec

from retinue.core.messages import Message, Text, text_of
from retinue.core.outcome import Failure, Usage
from retinue.errors import BadSettings, ExtraMissing, KeyMissing, ModelError, UnknownModel
from retinue.models import late
from retinue.models.breaker import Breaker
from retinue.models.config import ModelsConfig, ProviderConfig, RetryConfig
from retinue.models.guard import Guard, Seller
from retinue.models.health import Health, failure_of
from retinue.models.lane import Lane
from retinue.models.prices import Prices
from retinue.models.providers import (
    PLAIN,
    PROVIDERS,
    URL_FROM,
    address_of,
    check_address,
    is_openai,
    key_of,
    url_of,
    variables_of,
)
from retinue.models.takes import Row, corrected, providers_of, row_of
from retinue.ports.clock import Clock, SystemClock
from retinue.ports.models import Model, ModelRequest, ModelResponse, ModelSettings, Patience, Takes

GATEWAY = "gateway"
GIVEN = "given"
HERE = ("test", "local", GIVEN)
"""Models of this process: nobody is paid for them, and no table is needed."""
QUESTION = ModelRequest(
    messages=(Message(role="user", parts=(Text(text="Say hello in one word."),)),),
    settings=ModelSettings(max_tokens=200),
)


class Way(Protocol):
    """The way to a provider, with one client for all its models; closed with the app."""

    def model(self, name: str, takes: Takes) -> Model: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A model, or all models of a provider, as one can name it."""

    name: str
    provider: str
    stands_for: str | None = None
    """What an alias means."""
    needs: tuple[str, ...] = ()
    """Variables of which one must hold its key."""
    ready: bool = True
    """It can be asked now, as far as one can tell without asking."""
    takes: Takes | None = None
    """None where that depends on the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What came of one tiny question."""

    name: str
    answered_by: str = ""
    text: str = ""
    usage: Usage = Usage()
    first_token_ms: int | None = None
    total_ms: int | None = None
    error: Failure | None = None


class ModelNames:
    """Finds a model by its name. Models that are given go first, and are asked as they are, unless somebody says how
    often or who is asked instead."""

    def __init__(
        self,
        models: Mapping[str, Model] | None = None,
        config: ModelsConfig | None = None,
        clock: Clock | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._given = dict(models or {})
        self._config, self._clock, self._environment = config or ModelsConfig(), clock or SystemClock(), environment
        self._prices = Prices()
        self._guards: dict[str, Guard] = {}
        self._lanes: dict[str, Lane] = {}
        self._variants: dict[tuple[str, tuple[str, ...], RetryConfig], Guard] = {}
        self._ways: dict[str, Way] = {}

    def resolve(self, name: str, *, fallback: Sequence[str] = (), patience: Patience | None = None) -> Model:
        """The model of that name or alias. Raises `UnknownModel`, `KeyMissing` or `BadSettings` before anything is
        asked, also for those who are asked instead."""
        meant = self._meant(name)
        instead = tuple(self._meant(other) for other in fallback or self._config.fallback.get(meant, ()))
        if not fallback and patience is None and (given := self._given.get(meant)):
            return given
        guard = self._guards.get(meant) or self._guard(meant)
        for other in instead:
            self._check(other)
        return guard if not fallback and patience is None else self._variant(guard, meant, instead, patience)

    def _variant(self, guard: Guard, meant: str, instead: tuple[str, ...], patience: Patience | None) -> Guard:
        """The same with other patience, or others to be asked instead: one for all who want the same."""
        retry = self._config.retry
        if patience:
            retry = msgspec.structs.replace(
                retry, tries=patience.tries, first_delay=patience.first_delay, longest_delay=patience.longest_delay
            )
        key = (meant, instead, retry)
        if key not in self._variants:
            self._variants[key] = guard.variant(retry, lambda: self._models_of(meant, instead))
        return self._variants[key]

    def describe(self, name: str) -> Listed:
        """What is known of a model without asking it, or loading what it needs. Raises `UnknownModel`."""
        meant = self._meant(name)
        stands_for = meant if name in self._config.aliases else None
        if given := self._given.get(meant):
            return Listed(name=name, provider="", stands_for=stands_for, takes=given.takes)
        provider, model = parted(meant)
        config = self._provider(provider)
        return Listed(
            name=name,
            provider=provider,
            stands_for=stands_for,
            needs=() if provider in HERE else variables_of(provider, config),
            ready=self._is_ready(meant),
            takes=None if provider in HERE else self._row(provider, model).takes,
        )

    def listing(self) -> list[Listed]:
        """All that can be named: models that are given, aliases, what the settings name, and all known providers."""
        config = self._config
        named = [*self._given, *config.aliases, "test", *filter(None, [config.model]), *config.fallback]
        listed = [self._listed(name) for name in dict.fromkeys(named)]
        for provider in sorted({*PROVIDERS, *config.providers}):
            settings = self._provider(provider)
            needs, ready = variables_of(provider, settings), self._is_ready(f"{provider}:")
            listed.append(Listed(name=f"{provider}:…", provider=provider, needs=needs, ready=ready))
        return listed

    def _listed(self, name: str) -> Listed:
        try:
            return self.describe(name)
        except (UnknownModel, BadSettings):
            return Listed(name=name, provider="", ready=False)

    def health(self) -> list[Health]:
        """How the models do that were resolved so far, seen from this process."""
        return [guard.health() for guard in self._guards.values()]

    async def probe(self, name: str) -> Probed:
        """Ask one tiny question, once, and nobody else instead."""
        model = self.resolve(name)
        began, first, response = self._clock.now_ms(), 0, None
        try:
            async with aclosing(model.once(QUESTION) if isinstance(model, Guard) else model.ask(QUESTION)) as answer:
                async for said in answer:
                    first = first or self._clock.now_ms()
                    response = said if isinstance(said, ModelResponse) else None
        except ModelError as error:
            return Probed(name=name, error=failure_of(error), total_ms=self._clock.now_ms() - began)
        return Probed(
            name=name,
            answered_by=response.model if response and response.model else model.name,
            text=text_of(response.parts) if response else "",
            usage=response.usage if response else Usage(),
            first_token_ms=first - began,
            total_ms=self._clock.now_ms() - began,
        )

    async def close(self) -> None:
        """Let go of all connections."""
        self._guards.clear()
        self._variants.clear()
        while self._ways:
            await self._ways.popitem()[1].close()

    def _meant(self, name: str) -> str:
        """The whole name: without aliases, and with `:` between provider and model."""
        seen = [name]
        while (alias := self._config.aliases.get(name)) and name not in self._given:
            if alias in seen:
                raise BadSettings(where="[aliases]", problem=f"{' → '.join([*seen, alias])} leads nowhere")
            seen.append(name := alias)
        if name in self._given:
            return name
        whole = ":".join(filter(None, parted(name)))
        return whole if whole in self._given or self._is_known(whole) else self._no(name)

    def _is_known(self, whole: str) -> bool:
        provider, model = parted(whole)
        if provider == "test":
            return True
        if not model:
            return False
        known = provider == "local" or provider in PROVIDERS or bool(self._provider(provider).base_url)
        return known or self._is_theirs(provider)

    def _is_theirs(self, provider: str) -> bool:
        """Whether the package knows a provider that our table does not. Loading it takes long: a slip is no reason."""
        if not provider or difflib.get_close_matches(provider, {*PROVIDERS, *self._config.providers}):
            return False
        try:
            return bool(self._package(provider).knows(provider))
        except ExtraMissing:
            return False

    def _no(self, name: str) -> str:
        raise UnknownModel(name=name, problem=self._advice(name))

    def _advice(self, name: str) -> str:
        """The nearest names."""
        provider, model = parted(name)
        providers = {*PROVIDERS, *self._config.providers}
        if model and provider in providers:
            return f"[providers.{provider}] needs a `base_url`"
        if not model and provider in providers:
            return f"say which model of {provider}: {provider}:NAME"
        names = {*self._given, *self._config.aliases, "test"}
        if model:
            near = [f"{found}:{model}" for found in difflib.get_close_matches(provider, providers, n=3)]
        else:
            near = [f"{found}:{name}" for found in providers_of(name)[:3]]
        if near := list(dict.fromkeys([*difflib.get_close_matches(name, names, n=3), *near])):
            return f"did you mean {' or '.join(near)}?"
        return f"there is {', '.join(sorted(names))}, and PROVIDER:NAME; `retinue models list` shows all"

    def _check(self, meant: str) -> None:
        """Raise what stands against asking a model, without loading what it needs."""
        provider, name = parted(meant)
        if meant in self._given or provider == "test":
            return
        if provider == "local":
            from retinue.models.pull import path_of  # what fetches takes 50 ms to load

            path_of(name, self._environment)
            return
        config = self._provider(provider)
        key_of(provider, meant, config, self._environment)
        check_address(provider, config, self._environment)

    def _is_ready(self, meant: str) -> bool:
        try:
            self._check(meant)
        except (KeyMissing, UnknownModel, BadSettings):
            return False
        return True

    def _guard(self, meant: str) -> Guard:
        self._check(meant)
        given = self._given.get(meant)
        provider, name = (GIVEN, meant) if given else parted(meant)
        row = None if provider in HERE else self._row(provider, name)
        model = given or self._built(meant, row)
        guard = Guard(
            model,
            provider=provider,
            clock=self._clock,
            lane=self._lane(provider),
            breaker=Breaker(meant, self._config.breaker, self._clock.now_ms),
            retry=self._config.retry,
            prices=self._prices,
            seller=self._seller(provider, name),
            row=row,
            watched=provider in (GIVEN, "test"),
            others=lambda: self._others(meant),
        )
        self._guards[meant] = guard
        return guard

    def _built(self, meant: str, row: Row | None) -> Model:
        provider, name = parted(meant)
        if provider == "test":
            from retinue.models.script import scripted_model  # YAML takes 25 ms to load

            return scripted_model(meant, clock=self._clock)
        if provider == "local":
            from retinue.models.local import local_model  # it reads files, and knows how they are fetched

            return local_model(meant)
        assert row, "a provider's models have one"
        return self._way(provider).model(name, row.takes)

    def _way(self, provider: str) -> Way:
        """How all models of a provider are reached: by hand, or through the package that knows the others."""
        if provider not in self._ways:
            config = self._provider(provider)
            key = key_of(provider, provider, config, self._environment)
            self._ways[provider] = (
                self._reach(provider, config, key) if self._is_by_hand(provider) else self._line(provider, config, key)
            )
        return self._ways[provider]

    def _is_by_hand(self, provider: str) -> bool:
        """OpenAI, those of whom the settings say that they speak its format, and servers that nobody knows."""
        config = self._provider(provider)
        return provider == "openai" or config.wire == "openai" or (provider not in PROVIDERS and bool(config.base_url))

    def _reach(self, provider: str, config: ProviderConfig, key: str | None) -> Way:
        from retinue.models.wire.reach import Reach  # aiohttp takes a fifth of a second to load

        return Reach(provider, config, key, self._environment, self._clock)

    def _line(self, provider: str, config: ProviderConfig, key: str | None) -> Way:
        line: Way = self._package(provider).Line(provider, config, key, self._environment, self._clock)
        return line

    def _package(self, provider: str) -> ModuleType:
        """The adapter of the package that knows most providers; it takes a second or two to load."""
        try:
            return late.load("retinue.models.pydantic_ai.line")
        except ImportError:
            raise ExtraMissing(what=f"The provider {provider}", extra="providers") from None

    def _seller(self, provider: str, name: str) -> Seller:
        """By whose prices a model is paid for: its provider's, unless nobody knows who answers at that address."""
        config = self._provider(provider)
        if provider in HERE:
            return Seller(None, name)
        if config.prices:
            return Seller(config.prices, name)
        if self._is_by_hand(provider):
            return Seller("openai" if is_openai(url_of(provider, config, self._environment)) else None, name)
        if provider == GATEWAY:
            return Seller(*parted(name))
        elsewhere = URL_FROM.get(provider) and address_of(provider, config, self._environment)
        return Seller(None if config.base_url or (elsewhere and not is_openai(elsewhere)) else provider, name)

    def _others(self, meant: str) -> Sequence[Model]:
        """Who is asked instead, without those who would be asked instead of them."""
        return self._models_of(meant, [self._meant(name) for name in self._config.fallback.get(meant, ())])

    def _models_of(self, meant: str, names: Sequence[str]) -> list[Model]:
        return [self._given.get(name) or self._guards.get(name) or self._guard(name) for name in names if name != meant]

    def _lane(self, provider: str) -> Lane:
        if provider not in self._lanes:
            config = self._provider(provider)
            at_once = min(config.concurrency or config.connections, config.connections)
            self._lanes[provider] = Lane(self._clock, at_once, config.calls_per_minute)
        return self._lanes[provider]

    def _provider(self, provider: str) -> ProviderConfig:
        return self._config.providers.get(provider, PLAIN)

    def _row(self, provider: str, name: str) -> Row:
        return corrected(row_of(provider, name), self._config.takes.get(f"{provider}:{name}"))


def parted(name: str) -> tuple[str, str]:
    """Provider and model: `openai:gpt-5-mini` and `openai/gpt-5-mini` are the same. Without a provider, the name."""
    ends = [at for at in (name.find(":"), name.find("/")) if at >= 0]
    if not ends:
        return name, ""
    return name[: min(ends)].lower(), name[min(ends) + 1 :]
