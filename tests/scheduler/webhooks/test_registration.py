"""What a webhook's name means while it is registered: nothing private, as far as anybody can tell in time."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_network

import pytest
import trio
from trio.testing import MockClock

from scheduler.webhooks.registration import RESOLVE_S, check_target
from scheduler.webhooks.resolver import SystemResolver
from tests.scheduler.webhooks.receivers import OTHER_PUBLIC, PUBLIC, Resolver
from upstreams.errors import TargetRefused

URL = "https://hooks.example.com/in"
SPECIAL = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4", "::1/128", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64"),
    *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "ff00::/8"),
)
"""The special-purpose registries of IANA, each by its first and its last address."""


async def refused(*addresses: str, url: str = URL) -> bool:
    try:
        await check_target(url, Resolver(addresses), allow_insecure=False)
    except TargetRefused:
        return True
    return False


@pytest.mark.parametrize("network", SPECIAL)
async def test_one_address_of_a_special_registry_refuses_a_name(network: str) -> None:
    ends = ip_network(network)
    for address in (str(ends[0]), str(ends[-1])):
        assert await refused(address)
        assert await refused(PUBLIC, address, OTHER_PUBLIC)


@pytest.mark.parametrize("addresses", [[], ["fe80::1%eth0"], ["127.1"], ["nonsense"]], ids=str)
async def test_what_is_no_address_refuses_a_name(addresses: list[str]) -> None:
    assert await refused(*addresses)


async def test_a_name_that_is_all_public_passes() -> None:
    resolver = Resolver([PUBLIC, "2606:4700::1111"])
    await check_target("https://hooks.example.com:8443/in", resolver, allow_insecure=False)
    assert resolver.asked == [("hooks.example.com", 8443)]


async def test_an_address_is_judged_as_it_is_written_and_tests_may_register_any() -> None:
    resolver = Resolver(["127.0.0.1"])
    await check_target(f"https://{PUBLIC}/", resolver, allow_insecure=False)
    await check_target("http://localhost:1/", resolver, allow_insecure=True)
    assert resolver.asked == []
    assert await refused(url="https://127.0.0.1/")


async def test_a_name_that_nobody_knows_is_left_to_the_attempts() -> None:
    async def unknown(_host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    await check_target(URL, unknown, allow_insecure=False)


async def test_name_servers_that_are_silent_hold_nobody_up_for_long(autojump_clock: MockClock) -> None:
    async def silent(_host: str, _port: int) -> Sequence[str]:
        await trio.sleep_forever()
        raise AssertionError

    began_at = trio.current_time()
    await check_target(URL, silent, allow_insecure=False)
    assert trio.current_time() - began_at == pytest.approx(RESOLVE_S)


async def test_all_hosts_together_may_be_given_one_bound_of_threads() -> None:
    limiter = trio.CapacityLimiter(1)
    resolve = SystemResolver(limiter)
    async with limiter:  # somebody else's name is being asked for
        with trio.move_on_after(0.05) as patience:
            await resolve("localhost", 443)
        assert patience.cancelled_caught
    with trio.fail_after(20):
        assert await resolve("localhost", 443)
