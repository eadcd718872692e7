"""Listening on addresses: alone, or on ports reserved for several processes."""

import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing

import pytest
import trio

from gateway.node.listeners import AddressUnusable, bind, in_url, port_of, reserve, share

LOOPBACK = "127.0.0.1"
Take = Callable[..., Awaitable[object]]


async def test_reserved_port_accepts_no_connection() -> None:
    (place,) = await reserve(LOOPBACK, 0, change="server.port")
    with closing(place):
        port = place.getsockname()[1]
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream(LOOPBACK, port)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((LOOPBACK, port))


async def test_processes_that_share_a_port_all_get_connections() -> None:
    with trio.fail_after(10), ExitStack() as held:
        places = await reserve(LOOPBACK, 0, change="server.port")
        port = places[0].getsockname()[1]
        listeners = [
            *await share(LOOPBACK, port, change="server.port"),
            *await share(LOOPBACK, port, change="server.port"),
        ]
        for sock in (*places, *(listener.socket for listener in listeners)):
            held.enter_context(closing(sock))
        taken = [0, 0]

        async def take(number: int) -> None:
            while True:
                await (await listeners[number].accept()).aclose()
                taken[number] += 1

        async with trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(take, number)
            for _ in range(60):
                async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
                    assert await stream.receive_some(1) == b""
            nursery.cancel_scope.cancel()
    assert sum(taken) == 60
    assert all(taken)


async def test_every_address_of_a_host_is_bound_on_one_port() -> None:
    places = await reserve("localhost", 0, change="server.port")
    ports = {place.getsockname()[1] for place in places}
    for place in places:
        place.close()
    assert len(ports) == 1


@pytest.mark.parametrize("take", [bind, reserve, share])
async def test_port_in_use_is_rejected_with_the_setting_to_change(take: Take) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressUnusable) as refused:
            await take(LOOPBACK, port, change="admin.port or .host")
    assert str(refused.value) == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use; change admin.port or .host"
    )


async def test_shared_port_cannot_be_bound_alone() -> None:
    listeners = await share(LOOPBACK, 0, change="server.port")
    with closing(listeners[0].socket), pytest.raises(AddressUnusable, match="in use"):
        await bind(LOOPBACK, port_of(listeners), change="server.port")


def test_host_is_formatted_for_a_url() -> None:
    assert (in_url("::1"), in_url("a.example")) == ("[::1]", "a.example")
