"""The connection pool over real sockets: slots, idle connections, and the effects of cancellation."""

from itertools import count

import httpx
import pytest
import trio

from tests.fakes.upstream_server import (
    HungUp,
    Peer,
    Script,
    UpstreamServer,
    always,
    echo_target,
    open_upstream_server,
    reply,
    until,
)
from tests.upstreams.transport.connected import connected
from upstreams.transport.http import HttpAnswer, HttpCall
from upstreams.transport.pool import OriginStatistics
from upstreams.transport.pooled import Transport, open_transport


def _figures(transport: Transport, server: UpstreamServer) -> tuple[int, int, int]:
    """Return how many connections to the server are idle and busy, and how many calls wait."""
    figures = transport.statistics().origins.get(server.origin)
    return (0, 0, 0) if figures is None else (figures.idle, figures.busy, figures.waiting)


def released_echo() -> tuple[trio.Event, Script]:
    """Return a script that answers with the target of the request, but only after the event."""
    release = trio.Event()

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await release.wait()
            await peer.send(reply(request.split(b" ")[1]))

    return release, script


async def test_connection_is_reused_for_consecutive_calls():
    async with connected(echo_target) as (server, transport):
        for number in range(20):
            assert (await transport.exchange(server.call(f"/{number}"))).body == f"/{number}".encode()
        assert transport.statistics().origins == {server.origin: OriginStatistics(1, 0, 0, 1, 19)}
        assert server.connections == 1


async def test_most_recently_used_connection_is_taken_first():
    arrivals: list[int] = []

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            arrivals.append(peer.number)
            await trio.sleep(0.01 * peer.number)
            await peer.send(reply())

    async with connected(script) as (server, transport):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(transport.exchange, server.call())
        arrivals.clear()
        await transport.exchange(server.call())
        await transport.exchange(server.call())
    assert arrivals == [3, 3]


async def test_max_connections_is_enforced_without_starvation():
    busiest = 0

    async def script(peer: Peer) -> None:
        nonlocal busiest
        while True:
            request = await peer.request()
            busiest = max(busiest, server.open_connections)
            await peer.send(reply(request.split(b" ")[1]))

    async def ask_often(task: int) -> None:
        for turn in range(20):
            target = f"/{task}/{turn}"
            assert (await transport.exchange(server.call(target))).body == target.encode()

    async with connected(script, max_connections=3, within_s=10) as (server, transport):
        async with trio.open_nursery() as nursery:
            for task in range(20):
                nursery.start_soon(ask_often, task)
        assert transport.statistics().origins[server.origin] == OriginStatistics(3, 0, 0, 3, 397)
    assert busiest == 3


async def test_calls_get_slots_in_order_of_arrival():
    release, script = released_echo()

    async with connected(script, max_connections=1) as (server, transport):
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(transport.exchange, server.call(f"/{number}"))
                await until(lambda number=number: _figures(transport, server)[1:] == (1, number))
            release.set()
        assert _figures(transport, server) == (1, 0, 0)
    assert [request.split(b" ")[1].decode() for request in server.requests] == [f"/{number}" for number in range(10)]


async def test_cancelled_waiting_call_leaves_the_queue():
    release, script = released_echo()

    async with connected(script, max_connections=1) as (server, transport):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.exchange, server.call())
            await until(lambda: server.requests)
            with trio.move_on_after(0.02) as scope:
                await transport.exchange(server.call())
            assert scope.cancelled_caught
            assert _figures(transport, server) == (0, 1, 0)
            release.set()
        assert transport.statistics().origins[server.origin] == OriginStatistics(1, 0, 0, 1, 0)


async def test_slot_freed_by_a_failure_goes_to_a_waiter():
    async def script(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(0.01)
        if peer.number == 2:
            await peer.send(reply(b"second", "Connection: close"))

    async def fail() -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await transport.exchange(server.call())

    async with connected(script, max_connections=1) as (server, transport):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await until(lambda: server.requests)
            assert (await transport.exchange(server.call())).body == b"second"
        assert _figures(transport, server) == (0, 0, 0)


async def test_expired_idle_connection_is_not_reused():
    async with connected(echo_target, idle_s=0.02) as (server, transport):
        await transport.exchange(server.call())
        await trio.sleep(0.05)
        await transport.exchange(server.call())
        assert server.connections == 2
        await until(lambda: server.open_connections == 1)


async def test_calls_to_another_origin_drop_expired_connections():
    with trio.fail_after(5):
        async with (
            open_upstream_server(echo_target) as silent,
            open_upstream_server(echo_target) as other,
            open_transport(idle_s=0.02) as transport,
        ):
            await transport.exchange(silent.call())
            await trio.sleep(0.05)
            await transport.exchange(other.call())
            assert set(transport.statistics().origins) == {other.origin}
            await until(lambda: silent.open_connections == 0)


@pytest.mark.parametrize(("max_idle", "kept"), [(None, 4), (2, 2), (6, 6)])
async def test_idle_connections_are_bounded_over_all_origins(max_idle: int | None, kept: int):
    async with connected(echo_target, max_connections=1, max_idle=max_idle) as (server, transport):
        origins = [server.origin]
        async with trio.open_nursery() as nursery:
            listeners = []
            for _ in range(6):
                (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
                listeners.append(listener)
                origins.append(server.origin._replace(port=listener.socket.getsockname()[1]))

            async def answer(stream: trio.SocketStream) -> None:
                async with stream:
                    await stream.receive_some()
                    await stream.send_all(reply())
                    await stream.receive_some()

            nursery.start_soon(trio.serve_listeners, answer, listeners)
            for origin in origins:
                await transport.exchange(HttpCall("GET", origin, "/"))
            assert list(transport.statistics().origins) == origins[-kept:]
            nursery.cancel_scope.cancel()


async def test_close_closes_idle_and_later_busy_connections():
    release = trio.Event()

    async def script(peer: Peer) -> None:
        while True:
            if b"/slow" in await peer.request():
                await release.wait()
            await peer.send(reply(b"done"))

    with trio.fail_after(5):
        async with open_upstream_server(script) as server:
            transport = Transport()
            answers: list[HttpAnswer] = []
            async with trio.open_nursery() as nursery:

                async def ask_slowly() -> None:
                    answers.append(await transport.exchange(server.call("/slow")))

                nursery.start_soon(ask_slowly)
                await until(lambda: server.requests)
                await transport.exchange(server.call())
                await transport.aclose()
                await until(lambda: server.open_connections == 1)
                release.set()
            assert [answer.body for answer in answers] == [b"done"]
            assert transport.statistics().origins == {}
            await until(lambda: server.open_connections == 0)


class _CancelAtStep(trio.abc.Instrument):
    """Cancels the scope of a task when the task has run `step` steps."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self._task = task
        self._scope = scope
        self._left = step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def _exchange_cancelled_at(transport: Transport, call: HttpCall, step: int) -> bool:
    """Run one exchange that is cancelled after `step` steps. Return whether the cancellation came before its end."""
    with trio.CancelScope() as scope:
        instrument = _CancelAtStep(trio.lowlevel.current_task(), scope, step)
        trio.lowlevel.add_instrument(instrument)
        try:
            await transport.exchange(call)
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancelled_caught


@pytest.mark.parametrize("kept", [False, True])
async def test_call_cancelled_at_any_step_keeps_the_pool_consistent(kept: bool):
    """Goal: no slot is lost and no answer is mixed up. Method: cancel at each step of a call that waits for a slot."""

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.request()).split(b" ")[1]
            answer = reply(target + b"x" * 1000)
            for at in range(0, len(answer), 300):
                await peer.send(answer[at : at + 300])
                await trio.sleep(0.001)

    with trio.fail_after(20):
        async with open_upstream_server(script) as server:
            for step in count(1):
                async with open_transport(max_connections=1) as transport:
                    if kept:
                        await transport.exchange(server.call("/warm"))
                    cancelled = await _exchange_cancelled_at(transport, server.call(f"/cancelled/{step}"), step)
                    assert _figures(transport, server)[1:] == (0, 0)
                    answer = await transport.exchange(server.call(f"/after/{step}"))
                    assert answer.body.startswith(f"/after/{step}x".encode())
                    assert _figures(transport, server) == (1, 0, 0)
                if not cancelled:
                    break
            assert step > 4
            await until(lambda: server.open_connections == 0)


async def test_cancelled_waiter_passes_its_slot_on():
    release, script = released_echo()

    async def wait_in_vain() -> None:
        with waiter_scope:
            await transport.exchange(server.call("/in-vain"))

    async def hold_a_place() -> None:
        await transport.exchange(server.call())
        waiter_scope.cancel()  # cancelled in the same step in which it receives the slot

    waiter_scope = trio.CancelScope()
    async with connected(script, max_connections=1) as (server, transport):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold_a_place)
            await until(lambda: _figures(transport, server)[1] == 1)
            nursery.start_soon(wait_in_vain)
            await until(lambda: _figures(transport, server)[2] == 1)
            nursery.start_soon(transport.exchange, server.call("/behind"))
            await until(lambda: _figures(transport, server)[2] == 2)
            release.set()
        assert waiter_scope.cancelled_caught
        assert _figures(transport, server) == (1, 0, 0)


async def test_early_answer_to_a_long_body_is_read():
    async def script(peer: Peer) -> None:
        try:
            await peer.send(reply(b"early"))
            await peer.request()
        except HungUp:
            return

    async with connected(script) as (server, transport):
        assert (await transport.exchange(server.call(method="POST", body=b"x" * 2_000_000))).body == b"early"


async def test_concurrent_tasks_never_mix_up_answers():
    async def ask(task: int) -> None:
        for turn in range(30):
            with trio.move_on_after(0.002 if turn % 3 == 0 else 5):
                target = f"/{task}/{turn}"
                assert (await transport.exchange(server.call(target))).body == target.encode()

    async with connected(echo_target, max_connections=4, within_s=20) as (server, transport):
        async with trio.open_nursery() as nursery:
            for task in range(20):
                nursery.start_soon(ask, task)
        figures = transport.statistics().origins[server.origin]
        assert (figures.busy, figures.waiting) == (0, 0)
        assert figures.idle <= 4


async def test_statistics_forget_an_origin_without_connections():
    async with connected(always(reply(b"", "Connection: close"))) as (server, transport):
        await transport.exchange(server.call())
        assert transport.statistics().origins == {}
