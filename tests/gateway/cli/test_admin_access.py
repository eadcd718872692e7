"""Access to the admin address: accepted host names, and proofs that are valid for one request."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import orjson
import pytest

from gateway.admin.access import CHALLENGES_MAX
from gateway.admin.proof import AdminHandshake, node_proof, request_proof
from gateway.config.secrets import load_secret
from tests.fakes.calling import call
from tests.processes.commands import Commands
from tests.processes.place import Place

LIST = "/admin/account.list"


@dataclass(frozen=True, slots=True)
class AdminAddress:
    """A node's admin address and its token."""

    place: Place
    url: str
    token: str

    @property
    def at(self) -> tuple[str, int]:
        """Where the address listens."""
        return "127.0.0.1", int(self.url.rpartition(":")[2])

    def connect(self) -> HTTPConnection:
        """Open a separate connection."""
        connection = HTTPConnection(*self.at, timeout=60)
        connection.connect()
        return connection


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[AdminAddress]:
    """A node for all tests in this file."""
    place = Place(tmp_path_factory.mktemp("admin"), commands)
    place.configure(server={"base_url": "https://api.example.com"}, admin={"hosts": ["sluice", "Node.Internal"]})
    with place.serve("--sandbox") as node:
        yield AdminAddress(place, node.admin_url, load_secret({}, place.database.parent).admin_token)


def challenged(connection: HTTPConnection, token: str) -> AdminHandshake:
    """Return the handshake of a challenge, after checking the node's proof."""
    nonce = secrets.token_hex(32)
    status, found = post(connection, "/admin/challenge", orjson.dumps({"nonce": nonce}))
    assert status == 200
    handshake = AdminHandshake(nonce, found["nonce"], connection.sock.getsockname(), connection.sock.getpeername())
    assert found["proof"] == node_proof(token, handshake)
    return handshake


def post(connection: HTTPConnection, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, orjson.loads(answer.read())


def proved(token: str, handshake: AdminHandshake, path: str, body: bytes) -> str:
    mac = request_proof(token, handshake, method="POST", path=path, body=body)
    return f"Sluice-Proof {handshake.node_nonce}:{mac}"


def test_proof_authorizes_exactly_one_request(address: AdminAddress) -> None:
    with closing(address.connect()) as connection:
        authorization = proved(address.token, challenged(connection, address.token), LIST, b"{}")
        assert post(connection, LIST, b"{}", authorization=authorization) == (200, [])
        assert post(connection, LIST, b"{}", authorization=authorization)[0] == 401


@pytest.mark.parametrize(("path", "body"), [(LIST, b'{"limit":1}'), ("/admin/ledger.verify", b"{}"), (LIST, b"")])
def test_proof_is_bound_to_operation_and_body(address: AdminAddress, path: str, body: bytes) -> None:
    with closing(address.connect()) as connection:
        authorization = proved(address.token, challenged(connection, address.token), LIST, b"{}")
        assert post(connection, path, body, authorization=authorization)[0] == 401
        assert post(connection, LIST, b"{}", authorization=authorization)[0] == 401, "a challenge can be used only once"


def test_proof_is_bound_to_its_connection(address: AdminAddress) -> None:
    with closing(address.connect()) as connection, closing(address.connect()) as other:
        authorization = proved(address.token, challenged(connection, address.token), LIST, b"{}")
        assert post(other, LIST, b"{}", authorization=authorization)[0] == 401


def test_nothing_is_proved_without_the_token(address: AdminAddress) -> None:
    with closing(address.connect()) as connection:
        authorization = proved("guessed", challenged(connection, address.token), LIST, b"{}")
        assert post(connection, LIST, b"{}", authorization=authorization)[0] == 401
        for made_up in ("Sluice-Proof ", "Sluice-Proof :", "Sluice-Proof " + "0" * 64 + ":" + "0" * 64):
            assert post(connection, LIST, b"{}", authorization=made_up)[0] == 401


@pytest.mark.parametrize("body", [b"", b"{}", b'{"nonce":""}', b'{"nonce":"xyz"}', b'{"nonce":7}', b"[" * 60_000])
def test_invalid_challenge_is_rejected(address: AdminAddress, body: bytes) -> None:
    assert call(f"{address.url}/admin/challenge", method="POST", body=body).status == 400


def test_challenge_flood_is_bounded_and_new_challenges_work(address: AdminAddress) -> None:
    with closing(address.connect()) as flood, closing(address.connect()) as connection:
        first = challenged(connection, address.token)
        for _ in range(CHALLENGES_MAX):
            challenged(flood, address.token)
        forgotten = proved(address.token, first, LIST, b"{}")
        assert post(connection, LIST, b"{}", authorization=forgotten)[0] == 401
        fresh = proved(address.token, challenged(connection, address.token), LIST, b"{}")
        assert post(connection, LIST, b"{}", authorization=fresh)[0] == 200


PATHS = ["/healthz", "/readyz", "/metrics", LIST]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8081", "sluice.evil"]
)
def test_unknown_host_name_gets_421(address: AdminAddress, path: str, host: str) -> None:
    """Goal: a page whose host name points to this machine cannot read anything (DNS rebinding)."""
    answered = call(address.url + path, headers={"host": host, "authorization": f"Bearer {address.token}"})
    assert answered.status == 421
    assert b"admin.hosts" in answered.body


KNOWN = ["127.0.0.1", "127.0.0.1:8081", "[::1]:8081", "10.1.2.3:80", "LocalHost:9", "sluice:8081", "node.internal."]


@pytest.mark.parametrize("host", [*KNOWN, "api.example.com"])
def test_known_names_and_ip_addresses_are_accepted(address: AdminAddress, host: str) -> None:
    assert call(f"{address.url}/healthz", headers={"host": host}).status == 200


def test_request_without_host_is_accepted(address: AdminAddress) -> None:
    with socket.create_connection(address.at, timeout=60) as sock:
        sock.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert sock.recv(100).split(b" ")[1] == b"200"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:8080"])
def test_request_with_an_origin_header_is_rejected(address: AdminAddress, path: str, origin: str) -> None:
    for method in ("GET", "POST"):
        headers = {"origin": origin, "authorization": f"Bearer {address.token}"}
        assert call(address.url + path, method=method, headers=headers).status == 403


@pytest.mark.parametrize("kind", ["text/plain", "Text/Plain; charset=utf-8", "multipart/form-data; boundary=x"])
def test_plain_text_and_multipart_bodies_are_rejected(address: AdminAddress, kind: str) -> None:
    for path in (LIST, "/admin/challenge"):
        headers = {"content-type": kind, "authorization": f"Bearer {address.token}"}
        assert call(address.url + path, method="POST", headers=headers, body=b"{}").status == 415


def test_unfinished_requests_do_not_block_others_for_long(address: AdminAddress) -> None:
    socks = [socket.create_connection(address.at, timeout=60) for _ in range(300)]
    try:
        for sock in socks:
            sock.sendall(b"GET /healthz HTT")
        assert call(f"{address.url}/healthz").status == 200
    finally:
        for sock in socks:
            sock.close()


def test_idle_connections_beyond_limit_do_not_block_others(address: AdminAddress) -> None:
    """Goal: the admin address uses no descriptors that requests need. Method: open more connections than its limit."""
    socks = [socket.create_connection(address.at, timeout=60) for _ in range(400)]
    try:
        assert call(f"{address.url}/healthz").status == 200
        assert address.place.json_of("account", "list") == []
    finally:
        for sock in socks:
            sock.close()
