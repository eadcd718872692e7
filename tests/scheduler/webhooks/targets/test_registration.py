"""The addresses of a webhook's name at registration: none may be private, if they can be looked up in time."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_network

import pytest
import trio

from scheduler.webhooks.targets.registration import RESOLVE_S, check_target
from tests.fakes.patient_clock import VIRTUALLY
from tests.scheduler.webhooks.receivers import OTHER_PUBLIC, PUBLIC, Resolver
from upstreams.guard.resolver import Found, SystemResolver
from upstreams.model.errors import TargetRefused

URL = "https://hooks.example.com/in"
TEST_S = 20.0
SPECIAL = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4", "::1/128", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64"),
    *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "ff00::/8"),
)
"""IANA's special-purpose networks, each with its first and its last address."""


async def refused(*addresses: str, url: str = URL) -> bool:
    try:
        await check_target(url, Resolver(addresses), allow_insecure=False)
    except TargetRefused:
        return True
    return False


@pytest.mark.parametrize("network", SPECIAL)
async def test_name_with_one_special_purpose_address_is_rejected(network: str) -> None:
    ends = ip_network(network)
    for address in (str(ends[0]), str(ends[-1])):
        assert await refused(address)
        assert await refused(PUBLIC, address, OTHER_PUBLIC)


@pytest.mark.parametrize("addresses", [[], ["fe80::1%eth0"], ["127.1"], ["nonsense"]], ids=str)
async def test_name_with_an_invalid_address_is_rejected(addresses: list[str]) -> None:
    assert await refused(*addresses)


async def test_name_with_only_public_addresses_is_accepted() -> None:
    resolver = Resolver([PUBLIC, "2606:4700::1111"])
    await check_target("https://hooks.example.com:8443/in", resolver, allow_insecure=False)
    assert resolver.asked == [("hooks.example.com", 8443)]


async def test_literal_address_is_checked_without_resolving() -> None:
    resolver = Resolver(["127.0.0.1"])
    await check_target(f"https://{PUBLIC}/", resolver, allow_insecure=False)
    await check_target("http://localhost:1/", resolver, allow_insecure=True)
    assert resolver.asked == []
    assert await refused(url="https://127.0.0.1/")


async def test_unknown_host_name_is_accepted() -> None:
    async def unknown(_host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    await check_target(URL, unknown, allow_insecure=False)


@VIRTUALLY
async def test_silent_name_servers_delay_registration_only_briefly() -> None:
    async def silent(_host: str, _port: int) -> Sequence[str]:
        await trio.sleep_forever()
        raise AssertionError

    began_at = trio.current_time()
    await check_target(URL, silent, allow_insecure=False)
    assert trio.current_time() - began_at == pytest.approx(RESOLVE_S)


async def test_silent_name_servers_use_a_limited_number_of_threads() -> None:
    """Method: callers that time out keep naming new hosts, whose lookups block until the test ends them."""
    ends, under_way, most = threading.Event(), Counter[bytes](), 0

    def lookup(host: bytes, _port: int, **_terms: object) -> Found:
        nonlocal most
        under_way[host] += 1
        most = max(most, under_way.total())
        try:
            if host.startswith(b"silent"):
                assert ends.wait(TEST_S)
            return [(0, 0, 0, "", (PUBLIC, 443))]
        finally:
            under_way[host] -= 1

    resolve = SystemResolver(threads=6, lookup=lookup)
    with trio.fail_after(TEST_S):
        try:
            for number in range(30):
                with trio.move_on_after(0.02):
                    await resolve(f"silent{number // 10}.example.com", 443)
            assert sorted(under_way.values()) == [2, 2, 2]
            with trio.move_on_after(0.1) as patience:
                await resolve("quick.example.com", 443)
            assert patience.cancelled_caught
        finally:
            ends.set()
        assert await resolve("quick.example.com", 443) == [PUBLIC]
    assert most == 6
