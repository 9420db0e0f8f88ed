"""What `retinue.toml` may say about models. Reading the file is the settings' business; `msgspec.convert` checks it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file. A key that it does not know is an error."""


class ProviderConfig(Config, frozen=True):
    """`[providers.NAME]`: how a provider is reached. What is left out, its usual environment variables say."""

    api_key: str | None = None
    """An empty one says that the server asks for none."""
    base_url: str | None = None
    wire: Literal["openai"] | None = None
    """The format that it speaks. A provider that nobody knows, with a `base_url`, speaks `openai`."""
    headers: dict[str, str] = {}
    proxy: str | None = None
    """Where none is named, HTTP_PROXY, HTTPS_PROXY and NO_PROXY count, as they do for other programs."""
    connect_timeout: Seconds = 10.0
    idle_timeout: Seconds = 120.0
    """How long a server may say nothing at all before its answer counts as broken off."""
    connections: Count = 1000
    concurrency: Count | None = None
    """Calls at once from this process; never more than there are connections."""
    calls_per_minute: Count | None = None
    prices: str | None = None
    """Whose prices count behind a `base_url` of one's own: `openai`, `anthropic`, …"""


class RetryConfig(Config, frozen=True):
    """`[retry]`: how often a model is asked, and how long is waited in between: twice as long each time."""

    tries: Count = 3
    first_delay: Seconds = 1.0
    longest_delay: Seconds = 30.0
    patience: Seconds = 120.0
    """A provider that says to come back later than this is not waited for."""


class BreakerConfig(Config, frozen=True):
    """`[breaker]`: a model is left alone for `cool_down` seconds once `failures` calls within `window` seconds failed.

    They must be half of all its calls in that time, or more (`share`): of thousands of calls, some always fail.
    """

    failures: Count = 5
    window: Seconds = 60.0
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    cool_down: Seconds = 30.0


class TakesConfig(Config, frozen=True):
    """`[takes."PROVIDER:NAME"]`: what a model can be given, where the built-in table does not know or is wrong."""

    media: tuple[str, ...] | None = None
    tools: bool | None = None
    output: bool | None = None
    context_tokens: Count | None = None
    output_tokens: Count | None = None


class ModelsConfig(Config, frozen=True):
    """All of it."""

    model: str | None = None
    """The one that is meant where none is named."""
    aliases: dict[str, str] = {}
    providers: dict[str, ProviderConfig] = {}
    retry: RetryConfig = RetryConfig()
    breaker: BreakerConfig = BreakerConfig()
    fallback: dict[str, tuple[str, ...]] = {}
    """`[fallback]`: who is asked instead of a model that gives no answer, in this order."""
    takes: dict[str, TakesConfig] = {}
