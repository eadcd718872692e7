"""Access to the admin address: accepted host names, and proofs that are valid for one request."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import orjson
import pytest

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


def test_proof_authorizes_one_request_on_its_connection(address: AdminAddress) -> None:
    """`tests/gateway/admin/test_access.py` has the other terms of a proof."""
    with closing(address.connect()) as connection, closing(address.connect()) as other:
        authorization = proved(address.token, challenged(connection, address.token), LIST, b"{}")
        assert post(other, LIST, b"{}", authorization=authorization)[0] == 401
        authorization = proved(address.token, challenged(connection, address.token), LIST, b"{}")
        assert post(connection, LIST, b"{}", authorization=authorization) == (200, [])
        assert post(connection, LIST, b"{}", authorization=authorization)[0] == 401
        guessed = proved("guessed", challenged(connection, address.token), LIST, b"{}")
        assert post(connection, LIST, b"{}", authorization=guessed)[0] == 401


def test_invalid_challenge_is_rejected(address: AdminAddress) -> None:
    for body in (b"", b"[" * 60_000):
        assert call(f"{address.url}/admin/challenge", method="POST", body=body).status == 400


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", LIST, "/admin/challenge"])
def test_each_path_rejects_requests_that_web_pages_can_send(address: AdminAddress, path: str) -> None:
    """`tests/gateway/admin/test_hosts.py` has all kinds of them."""
    bearer = {"authorization": f"Bearer {address.token}"}
    for headers, status in (
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"origin": "http://127.0.0.1:8080"}, 403),
        ({"content-type": "text/plain"}, 415),
    ):
        for method in ("GET", "POST"):
            answered = call(address.url + path, method=method, headers={**bearer, **headers}, body=b"{}")
            assert answered.status == status, (method, headers)
            assert status != 421 or b"admin.hosts" in answered.body


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "LocalHost:9", "sluice:8081", "node.internal.", "api.example.com"])
def test_configured_names_and_ip_addresses_are_accepted(address: AdminAddress, host: str) -> None:
    assert call(f"{address.url}/healthz", headers={"host": host}).status == 200


def test_request_without_host_is_accepted(address: AdminAddress) -> None:
    with socket.create_connection(address.at, timeout=60) as sock:
        sock.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert sock.recv(100).split(b" ")[1] == b"200"


@pytest.mark.parametrize("begun", [b"GET /healthz HTT", b""], ids=["unfinished requests", "idle connections"])
def test_connections_beyond_the_limit_do_not_block_others(address: AdminAddress, begun: bytes) -> None:
    """Goal: the admin address uses no descriptors that requests need. Method: open more connections than its limit."""
    with ExitStack() as opened:
        for _ in range(400):
            opened.enter_context(socket.create_connection(address.at, timeout=60)).sendall(begun)
        assert call(f"{address.url}/healthz").status == 200
        assert address.place.json_of("account", "list") == []
