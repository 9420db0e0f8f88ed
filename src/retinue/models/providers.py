"""Providers, as far as one must know them before any of their packages is loaded: which variables they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retinue.errors import BadSettings, KeyMissing
from retinue.models.config import ProviderConfig

PLAIN = ProviderConfig()
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_HOST = "api.openai.com"
URL_FROM = {
    "openai": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "groq": "GROQ_BASE_URL",
}
"""The variables that lead elsewhere than to the provider's own address."""


@dataclass(frozen=True, slots=True)
class Provider:
    """What a provider needs. Any one of its `keys` will do; none are named where there are other ways to log in."""

    keys: tuple[str, ...] = ()
    address: str | None = None
    """The variable with its address, where it has none of its own."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(("OPENAI_API_KEY",)),
    "openai-chat": Provider(("OPENAI_API_KEY",)),
    "openai-responses": Provider(("OPENAI_API_KEY",)),
    "anthropic": Provider(("ANTHROPIC_API_KEY",)),
    "google": Provider(("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "google-cloud": Provider(),
    "bedrock": Provider(),
    "bedrock-mantle": Provider(),
    "azure": Provider(("AZURE_OPENAI_API_KEY",), "AZURE_OPENAI_ENDPOINT"),
    "azure-responses": Provider(("AZURE_OPENAI_API_KEY",), "AZURE_OPENAI_ENDPOINT"),
    "mistral": Provider(("MISTRAL_API_KEY",)),
    "groq": Provider(("GROQ_API_KEY",)),
    "cohere": Provider(("CO_API_KEY",)),
    "deepseek": Provider(("DEEPSEEK_API_KEY",)),
    "xai": Provider(("XAI_API_KEY",)),
    "openrouter": Provider(("OPENROUTER_API_KEY",)),
    "ollama": Provider((), "OLLAMA_BASE_URL"),
    "vllm": Provider((), "VLLM_BASE_URL"),
    "litellm": Provider(),
    "huggingface": Provider(("HF_TOKEN",)),
    "together": Provider(("TOGETHER_API_KEY",)),
    "fireworks": Provider(("FIREWORKS_API_KEY",)),
    "cerebras": Provider(("CEREBRAS_API_KEY",)),
    "sambanova": Provider(("SAMBANOVA_API_KEY",)),
    "nebius": Provider(("NEBIUS_API_KEY",)),
    "ovhcloud": Provider(("OVHCLOUD_API_KEY",)),
    "moonshotai": Provider(("MOONSHOTAI_API_KEY",)),
    "alibaba": Provider(("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
    "zai": Provider(("ZAI_API_KEY",)),
    "meta": Provider(("META_API_KEY",)),
    "crusoe": Provider(("CRUSOE_API_KEY",)),
    "heroku": Provider(("HEROKU_INFERENCE_KEY",)),
    "vercel": Provider(("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN")),
    "github-copilot": Provider(("GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN", "COPILOT_GITHUB_TOKEN")),
    "snowflake": Provider(("SNOWFLAKE_TOKEN",)),
    "gateway": Provider(("PYDANTIC_AI_GATEWAY_API_KEY", "PAIG_API_KEY")),
}


def variables_of(provider: str, config: ProviderConfig) -> tuple[str, ...]:
    """The variables of which one must hold the key; none if none is needed."""
    if config.api_key is not None:
        return ()
    if known := PROVIDERS.get(provider):
        return known.keys
    return ()


def key_of(provider: str, model: str, config: ProviderConfig, environment: Mapping[str, str]) -> str | None:
    """The key, from the settings or the environment. Raises `KeyMissing` where one is needed and there is none."""
    if config.api_key is not None:
        return _clean(config.api_key, f"api_key under [providers.{provider}]")
    wanted = variables_of(provider, config) or (_variable(provider),)
    for variable in wanted:
        if key := environment.get(variable, "").strip():
            return _clean(key, variable)
    if variables_of(provider, config):
        raise KeyMissing(name=model, provider=provider, variable=wanted[0])
    return None


def address_of(provider: str, config: ProviderConfig, environment: Mapping[str, str]) -> str | None:
    """Where a provider is by the settings, or the environment. None says: at its own address."""
    known = PROVIDERS.get(provider)
    variable = URL_FROM.get(provider) or (known.address if known else None) or ""
    return (config.base_url or environment.get(variable, "")).strip() or None


def url_of(provider: str, config: ProviderConfig, environment: Mapping[str, str]) -> str:
    """Where a provider is that we speak to by hand: at OpenAI's, unless something else is said."""
    return address_of(provider, config, environment) or OPENAI_URL


def url_sources(provider: str) -> str:
    """Where the address of a provider can be set."""
    known = PROVIDERS.get(provider)
    variable = URL_FROM.get(provider) or (known.address if known else None)
    settings = f"base_url under [providers.{provider}]"
    return f"{variable}, or {settings}" if variable else settings


def key_sources(provider: str) -> str:
    """Where the key of a provider can be set."""
    known = PROVIDERS.get(provider)
    return " or ".join((*(known.keys if known else ()), f"api_key under [providers.{provider}]"))


def is_openai(url: str) -> bool:
    """Whether OpenAI itself is there, by whose prices its answers are paid for."""
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0].lower()
    return host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}")


def check_address(provider: str, config: ProviderConfig, environment: Mapping[str, str]) -> None:
    """Raise `BadSettings` if nothing says where a provider is that has no address of its own."""
    known = PROVIDERS.get(provider)
    if known and known.address and not config.base_url and not environment.get(known.address):
        problem = f"nothing says where the server is. Set {known.address}, or `base_url`"
        raise BadSettings(where=f"[providers.{provider}]", problem=problem)
    if config.wire and provider != "openai" and not config.base_url:
        raise BadSettings(where=f"[providers.{provider}]", problem="`wire` needs a `base_url`")


def _variable(provider: str) -> str:
    """Where the key of a provider is looked for that nobody knows."""
    return f"{provider.upper().replace('-', '_')}_API_KEY"


def _clean(key: str, where: str) -> str | None:
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise BadSettings(where=where, problem="the key has characters that cannot be sent. Was it copied whole?")
    return key or None
