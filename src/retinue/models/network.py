"""What settings say of the way to a server: its proxy, and headers of one's own."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from retinue.errors import BadSettings
from retinue.models.config import ProviderConfig

HERE = ("localhost", "127.0.0.1", "::1")


def proxy_of(config: ProviderConfig, address: SplitResult) -> str | None:
    """The proxy that is named, or that of the environment; no proxy leads to this machine."""
    proxy = config.proxy
    if proxy is None:
        host = address.hostname or ""
        if host in HERE or proxy_bypass(host):
            return None
        proxy = getproxies().get(address.scheme)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise BadSettings(where="proxy", problem="only proxies with http:// or https:// can be used")
    return proxy or None


def password_of(url: str | None) -> str | None:
    return urlsplit(url).password if url else None


def check_headers(provider: str, config: ProviderConfig) -> None:
    for name, value in config.headers.items():
        if not (name and name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
            where = f"headers under [providers.{provider}]"
            raise BadSettings(where=where, problem=f"{name!r} has characters that cannot be sent")
