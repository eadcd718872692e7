"""The transport to a host that the caller names checks every address, and connects only to checked ones."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.fakes.scripted_exchange import OK, ScriptedExchange
from tests.scheduler.webhooks.receivers import OTHER_PUBLIC, PUBLIC, Resolver
from tests.upstreams.guard.test_addresses import EVASIONS
from upstreams.guard.pinned import ADDRESSES_TRIED, REMEMBERED_S, RESOLVE_S, NameUnknown, PinnedExchange
from upstreams.model.errors import TargetRefused
from upstreams.transport.http import HttpCall
from upstreams.transport.origin import Origin

CALL = HttpCall("GET", Origin("https", "forum.example.com", 443), "/latest.json")
LONG_S = 1_000.0


async def test_connection_goes_to_the_checked_address() -> None:
    exchange, resolver = ScriptedExchange(OK), Resolver([PUBLIC, OTHER_PUBLIC])
    await PinnedExchange(exchange, resolver)(CALL, trio.current_time() + LONG_S)
    assert [call.origin for call in exchange.calls] == [Origin("https", "forum.example.com", 443, PUBLIC)]
    assert exchange.calls[0]._replace(origin=CALL.origin) == CALL
    assert resolver.asked == [("forum.example.com", 443)]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "nonsense"])
async def test_one_private_address_refuses_the_name(address: str) -> None:
    exchange = ScriptedExchange(OK)
    for found in ([address], [PUBLIC, address], [address, PUBLIC]):
        with pytest.raises(TargetRefused):
            await PinnedExchange(exchange, Resolver(found))(CALL, trio.current_time() + LONG_S)
    assert exchange.calls == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "0x7f.1", "intranet", "db.internal", "2130706433"])
async def test_host_is_checked_as_written_through_an_egress(host: str) -> None:
    exchange = ScriptedExchange(OK)
    for resolve in (Resolver([PUBLIC]), None):
        call = CALL._replace(origin=Origin("https", host, 443))
        with pytest.raises(TargetRefused):
            await PinnedExchange(exchange, resolve)(call, trio.current_time() + LONG_S)
    assert exchange.calls == []


async def test_addresses_are_cached_for_some_seconds(autojump_clock: MockClock) -> None:
    exchange, resolver = ScriptedExchange(OK), Resolver([PUBLIC], [OTHER_PUBLIC], ["127.0.0.1"])
    pinned = PinnedExchange(exchange, resolver)
    for _ in range(3):
        await pinned(CALL, trio.current_time() + LONG_S)
    await trio.sleep(REMEMBERED_S)
    await pinned(CALL, trio.current_time() + LONG_S)
    assert [call.origin.address for call in exchange.calls] == [PUBLIC] * 3 + [OTHER_PUBLIC]
    await trio.sleep(REMEMBERED_S)
    with pytest.raises(TargetRefused):
        await pinned(CALL, trio.current_time() + LONG_S)
    assert len(resolver.asked) == 3


async def test_next_address_is_tried_after_refused_connection_but_not_bad_certificate() -> None:
    silent, lying = httpx.ConnectError("refused"), httpx.ConnectError("no certificate")
    lying.__cause__ = ssl.SSLError("self-signed")
    exchange = ScriptedExchange(silent, httpx.ConnectTimeout("late"), OK)
    answer = await PinnedExchange(exchange, Resolver([PUBLIC, OTHER_PUBLIC, "9.9.9.9", "1.1.1.1"]))(
        CALL, LONG_S * LONG_S
    )
    assert answer == OK
    assert [call.origin.address for call in exchange.calls] == [PUBLIC, OTHER_PUBLIC, "9.9.9.9"]
    exchange = ScriptedExchange(lying, OK)
    with pytest.raises(httpx.ConnectError):
        await PinnedExchange(exchange, Resolver([PUBLIC, OTHER_PUBLIC]))(CALL, LONG_S * LONG_S)
    assert len(exchange.calls) == 1


@pytest.mark.parametrize(("error", "is_certain"), [(socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)])
async def test_unknown_name_and_failing_name_servers_are_different_errors(error: int, is_certain: bool) -> None:
    async def unknown(_host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(error, "no")

    with pytest.raises(NameUnknown) as caught:
        await PinnedExchange(ScriptedExchange(OK), unknown)(CALL, trio.current_time() + LONG_S)
    assert caught.value.is_certain is is_certain


async def test_silent_name_servers_time_out_at_their_limit_or_the_deadline(autojump_clock: MockClock) -> None:
    async def silent(_host: str, _port: int) -> Sequence[str]:
        await trio.sleep_forever()
        raise AssertionError

    for within_s, waited_s in ((LONG_S, RESOLVE_S), (1.0, 1.0)):
        began_at = trio.current_time()
        with pytest.raises(NameUnknown):
            await PinnedExchange(ScriptedExchange(OK), silent)(CALL, trio.current_time() + within_s)
        assert trio.current_time() - began_at == pytest.approx(waited_s)


def test_evasion_table_has_more_than_60_urls() -> None:
    assert len(EVASIONS) > 60


async def test_only_tried_addresses_are_cached() -> None:
    """Goal: a caller's name servers cannot fill the memory. Each address is still checked."""
    many = [f"93.184.{number // 256}.{number % 256}" for number in range(4_000)]
    pinned = PinnedExchange(ScriptedExchange(OK), Resolver(many))
    await pinned(CALL, trio.current_time() + LONG_S)
    ((_, kept),) = pinned._known.values()
    assert kept == tuple(many[:ADDRESSES_TRIED])
    with pytest.raises(TargetRefused):
        await PinnedExchange(ScriptedExchange(OK), Resolver([*many, "10.0.0.1"]))(CALL, trio.current_time() + LONG_S)
