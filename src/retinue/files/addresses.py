"""Which addresses may be connected to for somebody else: those of the public internet, and what was allowed by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Our own table (the registries of special addresses, and what clouds do), since `ipaddress` knows another one in
# each version of Python.
_V4 = {
    "0.0.0.0/8": "an address of this host",
    "10.0.0.0/8": "a private address",
    "100.64.0.0/10": "an address inside a provider's network",
    "127.0.0.0/8": "a loopback address",
    "168.63.129.16/32": "a cloud's own service",
    "169.254.0.0/16": "a link-local address",
    "172.16.0.0/12": "a private address",
    "192.0.0.0/24": "a reserved address",
    "192.0.2.0/24": "a documentation address",
    "192.31.196.0/24": "a reserved address",
    "192.52.193.0/24": "a reserved address",
    "192.88.99.0/24": "a reserved address",
    "192.168.0.0/16": "a private address",
    "192.175.48.0/24": "a reserved address",
    "198.18.0.0/15": "a test address",
    "198.51.100.0/24": "a documentation address",
    "203.0.113.0/24": "a documentation address",
    "224.0.0.0/4": "a multicast address",
    "240.0.0.0/4": "a reserved address",
}
_V6 = {
    "::/128": "an address of this host",
    "::1/128": "a loopback address",
    "2001::/23": "a reserved address",
    "2001:db8::/32": "a documentation address",
    "2002::/16": "a reserved address",
    "2620:4f:8000::/48": "a reserved address",
    "3fff::/20": "a documentation address",
    "fc00::/7": "a private address",
    "fe80::/10": "a link-local address",
    "fec0::/10": "a private address",
    "ff00::/8": "a multicast address",
}
_REFUSED: tuple[tuple[Network, str], ...] = tuple((ip_network(net), kind) for net, kind in (_V4 | _V6).items())
_place = re.compile(r"\[([^]]+)\](?::(\d+))?|([^:]+):(\d+)|(.+)")
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def special(address: str) -> str:
    """What kind of address it is that nobody else's request may reach, empty for a public one."""
    return _kind(_meant(address))


def _kind(ip: Address) -> str:
    for network, kind in _REFUSED:
        if ip.version == network.version and ip in network:
            return kind
    return "a reserved address" if isinstance(ip, IPv6Address) and ip not in _PUBLIC_V6 else ""


def _meant(address: str) -> Address:
    """The address that is reached in the end: an IPv4 address can be written inside an IPv6 one."""
    ip = _written(address)
    if isinstance(ip, IPv6Address) and (ip.ipv4_mapped or ip in _NAT64):
        return IPv4Address(ip.packed[-4:])
    return ip


def _written(address: str) -> Address:
    return ip_address(address.partition("%")[0])


@dataclass(frozen=True, slots=True)
class Allowed:
    """Addresses that are meant although they are not public; all ports, or one."""

    network: Network
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """`127.0.0.1:8080`, `[::1]:8080`, `10.0.0.0/8`, `::1`."""
        found = _place.fullmatch(text)
        try:
            if not found:
                raise ValueError
            network, port = found[1] or found[3] or found[5], found[2] or found[4]
            return cls(ip_network(network), int(port) if port else None)
        except ValueError:
            raise ValueError(f"{text!r} is no address: say it like 127.0.0.1:8080, [::1]:8080 or 10.0.0.0/8") from None

    def __contains__(self, place: tuple[Address, int]) -> bool:
        ip, port = place
        return ip.version == self.network.version and ip in self.network and self.port in (None, port)


class Guard:
    """Decides where a connection may go. No `ports` means any."""

    def __init__(self, allowed: Iterable[str] = (), ports: Sequence[int] = ()) -> None:
        self._allowed = tuple(Allowed.parse(text) for text in allowed)
        self._ports = tuple(ports)

    def refusal(self, address: str, port: int) -> str:
        """Why this address is not connected to, empty if it may be. The address is not said: it may be inside."""
        written, meant = _written(address), _meant(address)
        if any((ip, port) in allowed for allowed in self._allowed for ip in (written, meant)):
            return ""
        if kind := _kind(meant):
            return f"it leads to {kind}"
        if self._ports and port not in self._ports:
            return f"port {port} is none that is fetched from ({', '.join(map(str, self._ports))} are)"
        return ""
