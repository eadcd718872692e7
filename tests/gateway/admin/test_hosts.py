"""The host names that an admin address accepts, and the requests that web pages must not send to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.app import KnownHosts

KNOWN_HOSTS = KnownHosts(["sluice", "Node.Internal."])
KNOWN = (
    *("127.0.0.1", "127.0.0.1:8081", "[::1]:8081", "[::1]", "10.1.2.3:80", "8.8.8.8", "[2001:db8::1]"),
    *("localhost", "LocalHost:9", "localhost.", "sluice:8081", "SLUICE", "node.internal", "node.internal.:1"),
)
UNKNOWN = (
    *("", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8081", "sluice.evil", "evil.sluice"),
    *("127.1", "0x7f000001", "2130706433", "127.0.0.1 ", "[evil]", "::1", "internal", "\xff", "a@127.0.0.1"),
    *("[::1", "[::1:8081", "::1]", "[::1]8081", "[::1]:evil", "[[::1]]", "127.0.0.1]", "localhost:80:80", "sluice:x"),
)
FORMS = (b"text/plain", b"Text/Plain; charset=utf-8", b" text/plain ", b"multipart/form-data; boundary=x")
PLAIN = (b"application/json", b"application/x-www-form-urlencoded", b"text/plainer", b"")


def refusal(*headers: tuple[bytes, bytes]) -> tuple[int, str] | None:
    scope: Any = {"headers": list(headers)}
    return KNOWN_HOSTS.refusal(scope)


def host(name: str) -> tuple[bytes, bytes]:
    return b"host", name.encode("latin-1")


@pytest.mark.parametrize("name", KNOWN)
def test_known_names_and_ip_addresses_are_accepted(name: str) -> None:
    assert refusal(host(name)) is None


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_host_name_gets_421(name: str) -> None:
    """Goal: a page whose host name points to this machine cannot read anything (DNS rebinding)."""
    refused = refusal(host(name))
    assert refused is not None
    assert refused[0] == 421
    assert "admin.hosts" in refused[1]


@given(st.integers(0, 2**32 - 1), st.integers(1, 65_535))
def test_any_ip_address_is_accepted(number: int, port: int) -> None:
    digits = ".".join(str(byte) for byte in number.to_bytes(4, "big"))
    assert refusal(host(f"{digits}:{port}")) is None
    assert refusal(host(f"{digits}.example:{port}")) is not None


def test_request_without_host_is_accepted() -> None:
    assert refusal() is None


def test_request_with_two_hosts_is_rejected() -> None:
    refused = refusal(host("localhost"), host("localhost"))
    assert refused is not None
    assert refused[0] == 421


@pytest.mark.parametrize("origin", [b"http://evil.example", b"null", b"http://127.0.0.1:8080", b""])
def test_request_with_an_origin_header_is_rejected(origin: bytes) -> None:
    refused = refusal(host("localhost"), (b"origin", origin))
    assert refused is not None
    assert refused[0] == 403


@pytest.mark.parametrize("kind", FORMS)
def test_plain_text_and_multipart_bodies_are_rejected(kind: bytes) -> None:
    assert refusal(host("localhost"), (b"content-type", kind)) == (415, "send application/json")


@pytest.mark.parametrize("kind", PLAIN)
def test_json_urlencoded_and_untyped_bodies_are_accepted(kind: bytes) -> None:
    assert refusal(host("localhost"), (b"content-type", kind)) is None


def test_host_name_is_checked_first() -> None:
    refused = refusal(host("evil"), (b"origin", b"null"), (b"content-type", b"text/plain"))
    assert refused is not None
    assert refused[0] == 421
