"""Single attempts at real receivers on loopback that appear at a public address. Each receiver fails in its own way."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from scheduler.webhooks.deliveries.sender import ANSWER_CHARACTERS_KEPT, open_sender
from scheduler.webhooks.signature import signed_headers, verify
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.upstream_server import Peer, Script, always, once, reply, until
from tests.scheduler.webhooks.receivers import (
    BODY,
    HOST,
    OTHER_PUBLIC,
    PUBLIC,
    TEST_S,
    Resolver,
    client_tls,
    receiving,
    server_tls,
)
from upstreams.guard.resolver import SystemResolver

SOON_S = 0.5
OK = always(reply(b"thanks"))


# Received requests


async def test_stored_bytes_arrive_with_their_headers_in_one_request() -> None:
    async with receiving(OK) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, attempt.error, attempt.answer) == (200, None, "thanks")
        assert 0 < attempt.latency_s < TEST_S
        (request,) = scene.server.requests
        head, _, body = request.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert (lines[0], body) == ("POST /in?x=1 HTTP/1.1", BODY)
        assert set(lines[1:]) == {
            f"Host: {HOST}:{scene.server.origin.port}",
            "content-type: application/json",
            "user-agent: sluice-webhooks",
            "accept-encoding: identity",
            "x-a: b",
            f"Content-Length: {len(BODY)}",
        }


async def test_receiver_can_verify_the_delivery() -> None:
    async with receiving(OK) as scene:
        headers = signed_headers(BODY, delivery_id="whd_1", keys=["a secret"], at=1_800_000_000, header_name="x-s")
        await scene.sender.attempt(scene.url, BODY, headers=headers, deadline_at=trio.current_time() + TEST_S)
        head, _, body = scene.server.requests[0].partition(b"\r\n\r\n")
        sent = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        verify("a secret", sent["x-s"], body, now=1_800_000_000)
        assert sent["webhook-id"] == "whd_1"


async def test_sni_is_sent_and_the_certificate_checked() -> None:
    names: list[str | None] = []
    tls = server_tls()
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    async with receiving(OK, tls=tls) as scene:
        assert (await scene.attempt()).status == 200
        assert (names, scene.net.connected) == ([HOST], [PUBLIC])


@pytest.mark.parametrize("status", [202, 204, 301, 302, 303, 307, 308, 404, 410])
async def test_any_status_is_recorded_and_no_redirect_followed(status: int) -> None:
    async with receiving(always(reply(b"", "Location: /elsewhere", status=f"{status} As Is"))) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, attempt.error, attempt.retry_after_s) == (status, None, None)
        assert len(scene.server.requests) == 1


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("Retry-After: 120", 120),
        ("Retry-After: Fri, 15 Jan 2027 08:01:00 GMT", 60),
        ("Retry-After: soon", None),
        ("Retry-After: -5", None),
        ("X: y", None),
    ],
)
async def test_retry_after_is_returned(header: str, wait_s: float | None) -> None:
    answer = reply(b"", header, "Date: Fri, 15 Jan 2027 08:00:00 GMT", status="429 Too Many Requests")
    async with receiving(always(answer)) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, attempt.retry_after_s) == (429, wait_s)


async def test_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    async with receiving(OK) as scene:
        assert (await scene.attempt()).status == 200
        assert scene.net.connected == [PUBLIC]


# Reused connections


async def test_connection_is_reused_for_the_next_attempt() -> None:
    async with receiving(OK) as scene:
        for _ in range(5):
            assert (await scene.attempt()).status == 200
        assert (scene.server.connections, len(scene.net.connected)) == (1, 1)


async def test_each_attempt_has_its_own_connection_without_reuse() -> None:
    async with receiving(OK, idle_s=0) as scene:
        for _ in range(3):
            assert (await scene.attempt()).status == 200
        assert scene.server.connections == 3


async def test_reset_idle_connection_is_replaced_within_the_attempt() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply(b"ok"))
        if peer.number == 1:
            await peer.request()
            await peer.reset()
        else:
            await OK(peer)

    async with receiving(script) as scene:
        assert [(await scene.attempt()).status for _ in range(2)] == [200, 200]
        assert scene.server.connections == 2


# Failing receivers


async def reset(peer: Peer) -> None:
    await peer.request()
    await peer.reset()


async def one_byte_a_second(peer: Peer) -> None:
    await peer.request()
    for byte in reply(b"x" * 1_000):
        await peer.send(bytes([byte]))
        await trio.sleep(1)


async def drip(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    while True:
        await peer.send(b"x")
        await trio.sleep(0.01)


async def silence(peer: Peer) -> None:
    await peer.request()
    await trio.sleep_forever()


async def endless_interim_responses(peer: Peer) -> None:
    await peer.request()
    while True:
        await peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await trio.sleep(0.01)


HUGE_HEADERS = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 500) for n in range(500)) + b"\r\n"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (reset, "connection_lost"),
        (once(), "connection_lost"),
        (once(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal"), "connection_lost"),
        (once(b"garbage\r\n\r\n"), "answer_malformed"),
        (always(HUGE_HEADERS), "answer_malformed"),
        (once(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "answer_malformed"),
        (one_byte_a_second, "timed_out"),
        (drip, "timed_out"),
        (silence, "timed_out"),
    ],
)
async def test_broken_response_has_its_error_class(script: Script, error: str) -> None:
    async with receiving(script) as scene:
        attempt = await scene.attempt(within_s=SOON_S if error == "timed_out" else TEST_S)
        assert (attempt.status, attempt.error, attempt.answer) == (None, error, "")
        assert attempt.problem


async def test_endless_interim_responses_are_limited() -> None:
    async with receiving(endless_interim_responses) as scene:
        assert (await scene.attempt(within_s=SOON_S)).error in ("timed_out", "answer_malformed")


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await peer.send("äß".encode() * 5_000)


async def test_endless_body_is_read_only_as_far_as_needed() -> None:
    async with receiving(endless) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, len(attempt.answer)) == (200, ANSWER_CHARACTERS_KEPT)
        assert attempt.answer.startswith("äßäß")


async def test_binary_response_can_be_stored() -> None:
    async with receiving(always(reply(b"\0\xff\xfe"))) as scene:
        assert (await scene.attempt()).answer == "\N{REPLACEMENT CHARACTER}" * 3


@pytest.mark.parametrize("name", ["other.example.com", "*.hooks.example.com", PUBLIC])
async def test_certificate_of_another_name_is_rejected_before_sending(name: str) -> None:
    async with receiving(OK, tls=server_tls(name)) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, attempt.error, scene.server.requests) == (None, "tls_failed", [])
        assert "CERTIFICATE_VERIFY_FAILED" in attempt.problem


async def test_receiver_without_tls_is_rejected() -> None:
    async def garbage(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await trio.sleep_forever()

    async with receiving(garbage, in_the_clear=True) as scene:
        attempt = await scene.attempt(f"https://127.0.0.1:{scene.server.origin.port}/")
        assert (attempt.status, attempt.error) == (None, "tls_failed")


async def test_endless_handshake_times_out() -> None:
    with trio.fail_after(TEST_S), socket.create_server(("127.0.0.1", 0)) as listener:
        async with receiving(OK, routes={PUBLIC: listener.getsockname()}) as scene:
            assert (await scene.attempt(within_s=SOON_S)).error == "timed_out"


async def test_next_address_is_tried_after_connection_refused() -> None:
    async with receiving(OK, resolve=Resolver([OTHER_PUBLIC, PUBLIC])) as scene:
        assert (await scene.attempt()).status == 200
        assert scene.net.connected == [OTHER_PUBLIC, PUBLIC]


async def test_connect_fails_if_every_address_refuses() -> None:
    async with receiving(OK, resolve=Resolver([f"151.101.1.{n}" for n in range(10)])) as scene:
        assert (await scene.attempt()).error == "connect_failed"
        assert len(scene.net.connected) == 3


# The target check at every attempt


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://[::ffff:127.0.0.1]/",
        "https://localhost/",
        "https://user@hooks.example.com/",
        "https://hooks.example.com:22/",
    ],
)
async def test_refused_target_is_not_resolved(url: str) -> None:
    resolver = Resolver([PUBLIC])
    async with receiving(OK, resolve=resolver) as scene:
        attempt = await scene.attempt(url)
        assert (attempt.error, resolver.asked, scene.net.connected) == ("target_refused", [], [])


@pytest.mark.parametrize("addresses", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["10.0.0.1", PUBLIC], ["::1"], []])
async def test_name_with_any_private_address_is_not_connected_to(addresses: list[str]) -> None:
    async with receiving(OK, resolve=Resolver(addresses)) as scene:
        attempt = await scene.attempt()
        assert (attempt.error, scene.net.connected) == ("target_refused", [])


async def test_dns_rebinding_never_reaches_an_unchecked_address() -> None:
    """Goal: DNS rebinding has no effect. Method: the resolver returns a private address from the second lookup on."""
    resolver = Resolver([PUBLIC], ["127.0.0.1"])
    async with receiving(OK, resolve=resolver) as scene:
        assert (await scene.attempt()).status == 200
        assert (len(resolver.asked), scene.net.connected) == (1, [PUBLIC])
        assert (await scene.attempt()).error == "target_refused"
        assert (len(resolver.asked), scene.net.connected) == (2, [PUBLIC])
        assert len(scene.server.requests) == 1


async def test_name_is_not_resolved_again_after_a_failed_connection() -> None:
    resolver = Resolver([OTHER_PUBLIC], ["127.0.0.1"])
    async with receiving(OK, resolve=resolver) as scene:
        assert (await scene.attempt()).error == "connect_failed"
        assert (len(resolver.asked), scene.net.connected) == (1, [OTHER_PUBLIC])


async def test_public_address_needs_no_resolver() -> None:
    resolver = Resolver(["127.0.0.1"])
    async with receiving(OK, tls=server_tls(PUBLIC), resolve=resolver) as scene:
        attempt = await scene.attempt(f"https://{PUBLIC}:{scene.server.origin.port}/")
        assert (attempt.status, resolver.asked) == (200, [])


async def test_unknown_name_has_its_error_class() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with receiving(OK, resolve=unknown) as scene:
        attempt = await scene.attempt()
        assert (attempt.error, attempt.problem) == (
            "name_unknown",
            f"{HOST} has no address: Name or service not known",
        )


async def test_unresponsive_resolver_times_out() -> None:
    async def silent(host: str, port: int) -> list[str]:
        await trio.sleep_forever()
        raise AssertionError

    async with receiving(OK, resolve=silent) as scene:
        assert (await scene.attempt(within_s=SOON_S)).error == "name_unknown"


async def test_tests_can_deliver_over_http_to_localhost() -> None:
    async with receiving(OK, resolve=Resolver(["127.0.0.1"]), in_the_clear=True) as scene:
        assert (await scene.attempt()).status == 200
        assert (await scene.attempt(scene.url.replace(HOST, "127.0.0.1"))).status == 200


async def test_system_resolver_returns_all_addresses_of_a_name() -> None:
    with trio.fail_after(TEST_S):
        resolve = SystemResolver()
        found = await resolve("localhost", 443)
        assert set(found) <= {"127.0.0.1", "::1"}
        assert found
        with pytest.raises(socket.gaierror):
            await resolve("256.256.256.256.", 443)


# Cancellation


def sockets() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("socket:"):
            yield target


async def test_attempt_cancelled_at_any_step_leaves_no_socket() -> None:
    async with receiving(always(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"do", b"ne")) as scene:
        before, trusting = set(sockets()), client_tls()
        statuses: list[int | None] = []

        async def run() -> None:
            async with open_sender(resolve=Resolver([OTHER_PUBLIC, PUBLIC]), ssl_context=trusting) as sender:
                attempt = await sender.attempt(scene.url, BODY, headers=(), deadline_at=trio.current_time() + TEST_S)
                statuses.append(attempt.status)

        async def check(got_through: bool) -> None:
            await until(lambda: scene.server.open_connections == 0)
            await until(lambda: set(sockets()) <= before)

        assert await cancel_everywhere(run, check) > 5
        assert statuses[-1] == 200
