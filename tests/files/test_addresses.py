"""Which addresses are public. Laws over all of them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.files.addresses import Allowed, Guard, special

v4 = st.ip_addresses(v=4)
v6 = st.ip_addresses(v=6)
special_v4 = st.sampled_from(
    [
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    ]
).flatmap(lambda network: st.ip_addresses(network=network))
ports = st.integers(1, 65535)


@given(special_v4)
def test_a_special_address_is_special(address: ipaddress.IPv4Address) -> None:
    assert special(str(address))


@given(v4 | special_v4)
def test_an_address_is_the_same_in_each_spelling(address: ipaddress.IPv4Address) -> None:
    for spelling in (
        f"::ffff:{address}",
        f"64:ff9b::{address}",
        f"::ffff:{int(address) >> 16:x}:{int(address) & 65535:x}",
    ):
        assert special(spelling) == special(str(address))


@given(v4 | v6 | special_v4)
def test_what_python_holds_to_be_private_is_special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not address.is_global or address.is_multicast:
        assert special(str(address))


@given(st.ip_addresses(network="2400::/8") | st.ip_addresses(network="8.0.0.0/8"))
def test_an_ordinary_address_is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert special(str(address)) == ""


@given(v6)
def test_an_address_with_a_zone_is_what_it_is_without(address: ipaddress.IPv6Address) -> None:
    assert special(f"{address}%eth0") == special(str(address))


@given(v4 | v6 | special_v4, ports)
def test_what_is_allowed_by_name_is_allowed_and_no_other_port(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
) -> None:
    written = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
    guard = Guard([written], ports=[443])
    assert guard.refusal(str(address), port) == ""
    if special(str(address)):
        assert "leads to" in guard.refusal(str(address), port % 65535 + 1)


@given(special_v4, ports)
def test_without_ports_only_the_address_counts(address: ipaddress.IPv4Address, port: int) -> None:
    assert Guard().refusal(str(address), port)
    assert not Guard().refusal("8.8.8.8", port)
    assert Guard([str(address)]).refusal(str(address), port) == ""


def test_an_address_inside_another_is_allowed_as_what_it_means() -> None:
    assert Guard(["127.0.0.1:80"]).refusal("::ffff:127.0.0.1", 80) == ""
    assert Guard(["10.0.0.0/8"]).refusal("10.200.0.1", 9000) == ""
    assert Guard(["fd00::/8"]).refusal("fd12::1", 9000) == ""


@pytest.mark.parametrize("text", ["localhost", "127.0.0.1:x", "10.0.0.1/8", "", "[::1", "1.2.3.4:5:6"])
def test_what_is_no_address_is_not_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="say it like"):
        Allowed.parse(text)
