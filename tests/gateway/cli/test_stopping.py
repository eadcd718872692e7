"""A node that is stopped finishes running requests, accepts no new ones, and exits with 0."""

import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
import trio

from tests.fakes.calling import Answered
from tests.processes.place import Place, Served
from tests.processes.waiting import wait_until

BILLED = "/v1/github/profile?handle=octocat"
LATENCY_S = 3.0
UNREADY_S = 2.0
"""Less than the running requests need, but far more than the node itself needs."""
LEAVES_S = 10.0
"""Far less than the allowed drain time."""
UPSTREAM_CALL = b'sluice_upstream_calls_total{platform="github",source="api"} 1.0'


@contextmanager
def running_request(
    place: Place, *, drain_s: float = 10.0, engine: str = "native"
) -> Iterator[tuple[Served, "Future[Answered]"]]:
    """A node, and a request of one credit out of 100 that waits for a slow upstream."""
    with place.sandbox(latency_s=LATENCY_S) as egress, ThreadPoolExecutor(1) as threads:
        place.configure(server={"drain_s": drain_s, "engine": engine}, upstreams={"egress": egress})
        _, key = place.new_key()
        with place.serve() as node:
            running = threads.submit(node.get, BILLED, key["key"])
            wait_until(lambda: UPSTREAM_CALL in node.admin("/metrics").body)
            yield node, running


def accepts(node: Served) -> bool:
    """Return whether the public address accepts new connections."""
    parts = urlsplit(node.url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


def balance(place: Place) -> int:
    """The balance of the only account."""
    (account,) = place.json_of("account", "list")
    assert account["held"] == 0
    return int(account["balance"])


@pytest.mark.parametrize("engine", ["native", "hypercorn"])
def test_running_request_finishes_and_new_ones_are_rejected(place: Place, engine: str) -> None:
    with running_request(place, engine=engine) as (node, running):
        ready = node.admin("/readyz")
        assert (ready.status, ready.body) == (200, b"ready\n")
        node.signal(signal.SIGTERM)
        wait_until(lambda: node.admin("/readyz").status != 200)
        draining = node.admin("/readyz")
        assert (draining.status, draining.body) == (503, b"draining\n")
        assert node.admin("/healthz").status == 200
        assert not accepts(node)
        assert running.result().json["credits_used"] == 1
        assert node.wait() == 0
    assert balance(place) == 99


@dataclass
class Crowd:
    """Clients of one node, with a connection each."""

    node: Served
    key: str
    answers: list[bytes] = field(default_factory=list)

    async def ask(self, handle: str) -> None:
        """Request a profile and keep the head of the response, or nothing if there is none."""
        parts = urlsplit(self.node.url)
        async with await trio.open_tcp_stream(parts.hostname, parts.port) as stream:
            target = f"/v1/github/profile?handle={handle}"
            await stream.send_all(f"GET {target} HTTP/1.1\r\nhost: x\r\nx-api-key: {self.key}\r\n\r\n".encode())
            head = b""
            with suppress(trio.BrokenResourceError):
                while data := await stream.receive_some(65_536):
                    head = head or data
            self.answers.append(head)

    async def ask_and_stop(self, handles: list[str]) -> float:
        """All clients send requests, the node is stopped, all get responses. Return the time until it was not ready."""
        running = f"sluice_leases {len(handles)}.0".encode()
        with trio.fail_after(90):
            async with trio.open_nursery() as asking:
                for handle in handles:
                    asking.start_soon(self.ask, handle)
                await trio.to_thread.run_sync(wait_until, lambda: running in self.node.admin("/metrics").body)
                unready_s = await trio.to_thread.run_sync(self._stop)
        return unready_s

    def _stop(self) -> float:
        told_at = time.monotonic()
        self.node.signal(signal.SIGTERM)
        wait_until(lambda: self.node.admin("/readyz").status != 200)
        return time.monotonic() - told_at


def test_hundreds_of_running_requests_are_answered_once(place: Place) -> None:
    """Goal: a stop loses no response. Method: 500 requests wait for a slow upstream; 200 more share a call."""
    limits = {"requests_per_minute": 10_000, "concurrent_requests": 1_000}
    with place.sandbox(latency_s=3.0) as egress:
        place.configure(
            server={"drain_s": 20, "shed": False},  # all requests come at the same time, and the machine may be slow
            limits=limits,
            upstreams={"egress": egress, "defaults": {"max_connections": 600}},
        )
        _, key = place.new_key(balance=1_000)
        with place.serve() as node:
            crowd = Crowd(node, key["key"])
            unready_s = trio.run(crowd.ask_and_stop, [f"user{at}" for at in range(500)] + ["user0"] * 200)
            answered_at = time.monotonic()
            assert node.wait() == 0
            left_s = time.monotonic() - answered_at
    assert len(crowd.answers) == 700
    assert all(head.startswith(b"HTTP/1.1 200 ") and b"\r\nconnection: close\r\n" in head for head in crowd.answers)
    assert balance(place) == 500
    assert unready_s < UNREADY_S
    assert left_s < LEAVES_S


def test_requests_beyond_the_drain_timeout_are_aborted_and_refunded(place: Place) -> None:
    with running_request(place, drain_s=0.2) as (node, running):
        assert node.stop() == 0
        with pytest.raises(ConnectionError):
            running.result()
    assert balance(place) == 100


def test_second_signal_ends_node_and_next_start_refunds(place: Place) -> None:
    with running_request(place) as (node, running):
        node.signal(signal.SIGTERM)
        node.logged("draining")
        node.signal(signal.SIGTERM)
        assert node.wait() == -signal.SIGTERM
        with pytest.raises(ConnectionError):
            running.result()
    with place.recovering().serve("--sandbox") as node:
        node.wait_for_recovery()
        (recovered,) = node.logged("recovered")
        assert (recovered["charges"], recovered["credits"]) == (1, 1)
        assert balance(place) == 100


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_connections_do_not_delay_a_stop(place: Place, number: signal.Signals) -> None:
    place.configure(server={"drain_s": 60})
    with place.serve("--sandbox") as node:
        parts = urlsplit(node.url)
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as idle:
            idle.sendall(b"GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n")
            assert idle.recv(12) == b"HTTP/1.1 200"
            started = time.monotonic()
            node.signal(number)
            assert node.wait() == 0
            assert time.monotonic() - started < 20  # far below drain_s, but far above the usual time of a stop
        assert node.popen.stdout is not None
        assert node.popen.stdout.read() == b""  # the node printed only one line


def all_of(client: socket.socket) -> bytes:
    """Read bytes until the end."""
    pieces = []
    while piece := client.recv(65_536):
        pieces.append(piece)
    return b"".join(pieces)


def test_stalled_clients_do_not_delay_a_stop(place: Place) -> None:
    """Method: a long-poll, and halves of a head, a WebSocket handshake and a body, at one signal."""
    place.configure(server={"drain_s": 20})
    _, key = place.new_key()
    own = f" HTTP/1.1\r\nhost: x\r\nx-api-key: {key['key']}\r\n"
    sent = {
        f"GET /v1/events?cursor=now&wait_s=25{own}\r\n": b"HTTP/1.1 200",
        f"GET /v1/status{own}": b"HTTP/1.1 408",
        f"GET /v1/events/ws{own}connection: upgrade\r\nupgrade: websocket\r\nsec-": b"HTTP/1.1 408",
        f"POST /v1/events/consumers/a/ack{own}content-length: 20\r\n\r\n{{": b"HTTP/1.1 400",
    }
    with place.serve() as node, ExitStack() as clients:
        parts = urlsplit(node.url)
        sockets = [
            clients.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=60)) for _ in sent
        ]
        for client, text in zip(sockets, sent, strict=True):
            client.sendall(text.encode())
        wait_until(lambda: b"sluice_events_waiting 1.0" in node.admin("/metrics").body)
        started = time.monotonic()
        node.signal(signal.SIGTERM)
        for client, status in zip(sockets, sent.values(), strict=True):
            answer = all_of(client)
            assert answer.startswith(status)
            assert b"\r\nconnection: close\r\n" in answer
        assert node.wait() == 0
        assert time.monotonic() - started < 15  # two seconds plus time for a slow machine; below drain_s
