"""One attempt against real receivers on loopback that stand at a public address, each with its own way to fail."""

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


# What arrives


async def test_the_frozen_bytes_arrive_with_their_headers_and_nothing_else_is_asked() -> None:
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


async def test_a_receiver_can_verify_what_it_got() -> None:
    async with receiving(OK) as scene:
        headers = signed_headers(BODY, delivery_id="whd_1", keys=["a secret"], at=1_800_000_000, header_name="x-s")
        await scene.sender.attempt(scene.url, BODY, headers=headers, deadline_at=trio.current_time() + TEST_S)
        head, _, body = scene.server.requests[0].partition(b"\r\n\r\n")
        sent = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        verify("a secret", sent["x-s"], body, now=1_800_000_000)
        assert sent["webhook-id"] == "whd_1"


async def test_the_receivers_name_is_announced_and_its_certificate_checked() -> None:
    names: list[str | None] = []
    tls = server_tls()
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    async with receiving(OK, tls=tls) as scene:
        assert (await scene.attempt()).status == 200
        assert (names, scene.net.connected) == ([HOST], [PUBLIC])


@pytest.mark.parametrize("status", ["204 No Content", "202 Accepted", "301 Moved", "404 Not Found", "410 Gone"])
async def test_any_status_is_an_answer(status: str) -> None:
    async with receiving(always(reply(b"", status=status))) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, attempt.error, attempt.retry_after_s) == (int(status[:3]), None, None)


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
async def test_what_the_receiver_asks_to_wait_is_told(header: str, wait_s: float | None) -> None:
    answer = reply(b"", header, "Date: Fri, 15 Jan 2027 08:00:00 GMT", status="429 Too Many Requests")
    async with receiving(always(answer)) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, attempt.retry_after_s) == (429, wait_s)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with receiving(always(reply(b"", "Location: /elsewhere", status=f"{status} Elsewhere"))) as scene:
        assert (await scene.attempt()).status == status
        assert len(scene.server.requests) == 1


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    async with receiving(OK) as scene:
        assert (await scene.attempt()).status == 200
        assert scene.net.connected == [PUBLIC]


# Kept connections


async def test_a_connection_is_kept_for_the_next_attempt() -> None:
    async with receiving(OK) as scene:
        for _ in range(5):
            assert (await scene.attempt()).status == 200
        assert (scene.server.connections, len(scene.net.connected)) == (1, 1)


async def test_without_keeping_each_attempt_has_its_own() -> None:
    async with receiving(OK, idle_s=0) as scene:
        for _ in range(3):
            assert (await scene.attempt()).status == 200
        assert scene.server.connections == 3


async def test_a_kept_connection_that_was_reset_is_replaced_within_the_attempt() -> None:
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


# Receivers that fail


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


async def interim_for_ever(peer: Peer) -> None:
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
async def test_a_broken_answer_is_told_by_its_class(script: Script, error: str) -> None:
    async with receiving(script) as scene:
        attempt = await scene.attempt(within_s=SOON_S if error == "timed_out" else TEST_S)
        assert (attempt.status, attempt.error, attempt.answer) == (None, error, "")
        assert attempt.problem


async def test_interim_answers_without_end_are_bounded() -> None:
    async with receiving(interim_for_ever) as scene:
        assert (await scene.attempt(within_s=SOON_S)).error in ("timed_out", "answer_malformed")


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await peer.send("äß".encode() * 5_000)


async def test_an_endless_body_is_read_no_further_than_needed() -> None:
    async with receiving(endless) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, len(attempt.answer)) == (200, ANSWER_CHARACTERS_KEPT)
        assert attempt.answer.startswith("äßäß")


async def test_an_answer_that_is_no_text_can_still_be_stored() -> None:
    async with receiving(always(reply(b"\0\xff\xfe"))) as scene:
        assert (await scene.attempt()).answer == "\N{REPLACEMENT CHARACTER}" * 3


@pytest.mark.parametrize("name", ["other.example.com", "*.hooks.example.com", PUBLIC])
async def test_a_certificate_of_another_name_is_refused_before_anything_is_sent(name: str) -> None:
    async with receiving(OK, tls=server_tls(name)) as scene:
        attempt = await scene.attempt()
        assert (attempt.status, attempt.error, scene.server.requests) == (None, "tls_failed", [])
        assert "CERTIFICATE_VERIFY_FAILED" in attempt.problem


async def test_a_receiver_without_tls_is_refused() -> None:
    async def garbage(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await trio.sleep_forever()

    async with receiving(garbage, in_the_clear=True) as scene:
        attempt = await scene.attempt(f"https://127.0.0.1:{scene.server.origin.port}/")
        assert (attempt.status, attempt.error) == (None, "tls_failed")


async def test_a_handshake_that_never_ends_is_bounded() -> None:
    with trio.fail_after(TEST_S), socket.create_server(("127.0.0.1", 0)) as listener:
        async with receiving(OK, routes={PUBLIC: listener.getsockname()}) as scene:
            assert (await scene.attempt(within_s=SOON_S)).error == "timed_out"


async def test_where_nobody_listens_the_next_address_is_tried() -> None:
    async with receiving(OK, resolve=Resolver([OTHER_PUBLIC, PUBLIC])) as scene:
        assert (await scene.attempt()).status == 200
        assert scene.net.connected == [OTHER_PUBLIC, PUBLIC]


async def test_where_nobody_listens_at_all_it_cannot_connect() -> None:
    async with receiving(OK, resolve=Resolver([f"151.101.1.{n}" for n in range(10)])) as scene:
        assert (await scene.attempt()).error == "connect_failed"
        assert len(scene.net.connected) == 3


# The guard at every attempt


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
async def test_a_target_that_may_not_be_is_not_even_resolved(url: str) -> None:
    resolver = Resolver([PUBLIC])
    async with receiving(OK, resolve=resolver) as scene:
        attempt = await scene.attempt(url)
        assert (attempt.error, resolver.asked, scene.net.connected) == ("target_refused", [], [])


@pytest.mark.parametrize("addresses", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["10.0.0.1", PUBLIC], ["::1"], []])
async def test_a_name_with_any_address_that_is_not_public_is_not_connected_to(addresses: list[str]) -> None:
    async with receiving(OK, resolve=Resolver(addresses)) as scene:
        attempt = await scene.attempt()
        assert (attempt.error, scene.net.connected) == ("target_refused", [])


async def test_a_name_that_means_something_else_a_moment_later_leads_nowhere_unchecked() -> None:
    """Goal: rebinding finds no gap. Method: the resolver turns private after its first answer."""
    resolver = Resolver([PUBLIC], ["127.0.0.1"])
    async with receiving(OK, resolve=resolver) as scene:
        assert (await scene.attempt()).status == 200
        assert (len(resolver.asked), scene.net.connected) == (1, [PUBLIC])
        assert (await scene.attempt()).error == "target_refused"
        assert (len(resolver.asked), scene.net.connected) == (2, [PUBLIC])
        assert len(scene.server.requests) == 1


async def test_a_checked_address_that_fails_is_not_resolved_again() -> None:
    resolver = Resolver([OTHER_PUBLIC], ["127.0.0.1"])
    async with receiving(OK, resolve=resolver) as scene:
        assert (await scene.attempt()).error == "connect_failed"
        assert (len(resolver.asked), scene.net.connected) == (1, [OTHER_PUBLIC])


async def test_a_public_address_needs_no_resolver() -> None:
    resolver = Resolver(["127.0.0.1"])
    async with receiving(OK, tls=server_tls(PUBLIC), resolve=resolver) as scene:
        attempt = await scene.attempt(f"https://{PUBLIC}:{scene.server.origin.port}/")
        assert (attempt.status, resolver.asked) == (200, [])


async def test_an_unknown_name_is_told_as_such() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with receiving(OK, resolve=unknown) as scene:
        attempt = await scene.attempt()
        assert (attempt.error, attempt.problem) == (
            "name_unknown",
            f"{HOST} has no address: Name or service not known",
        )


async def test_a_resolver_that_never_answers_is_bounded() -> None:
    async def silent(host: str, port: int) -> list[str]:
        await trio.sleep_forever()
        raise AssertionError

    async with receiving(OK, resolve=silent) as scene:
        assert (await scene.attempt(within_s=SOON_S)).error == "name_unknown"


async def test_tests_may_deliver_in_the_clear_to_this_machine() -> None:
    async with receiving(OK, resolve=Resolver(["127.0.0.1"]), in_the_clear=True) as scene:
        assert (await scene.attempt()).status == 200
        assert (await scene.attempt(scene.url.replace(HOST, "127.0.0.1"))).status == 200


async def test_the_system_resolver_gives_all_addresses_of_a_name() -> None:
    with trio.fail_after(TEST_S):
        resolve = SystemResolver()
        found = await resolve("localhost", 443)
        assert set(found) <= {"127.0.0.1", "::1"}
        assert found
        with pytest.raises(socket.gaierror):
            await resolve("256.256.256.256.", 443)


# Cancelled


def sockets() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("socket:"):
            yield target


async def test_an_attempt_that_is_cancelled_at_any_step_leaves_no_socket() -> None:
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
