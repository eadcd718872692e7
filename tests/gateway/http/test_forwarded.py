"""The client's address: only trusted proxies count, and only for the addresses they have seen."""

from __future__ import annotations

import pytest

from gateway.http.forwarded import TrustedProxies, read_networks

PROXIES = TrustedProxies(read_networks(["10.0.0.0/8", "::1"]))


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("203.0.113.9", {b"x-forwarded-for": b"198.51.100.1"}, "203.0.113.9"),
        ("10.0.0.1", {}, "10.0.0.1"),
        ("10.0.0.1", {b"x-forwarded-for": b"198.51.100.1"}, "198.51.100.1"),
        ("10.0.0.1", {b"x-forwarded-for": b"1.1.1.1, 198.51.100.1, 10.2.3.4"}, "198.51.100.1"),
        ("10.0.0.1", {b"x-forwarded-for": b"10.9.9.9, 10.2.3.4"}, "10.9.9.9"),
        ("10.0.0.1", {b"x-forwarded-for": b"198.51.100.1:4711"}, "198.51.100.1"),
        ("10.0.0.1", {b"x-forwarded-for": b"nonsense"}, "10.0.0.1"),
        ("10.0.0.1", {b"x-forwarded-for": b"198.51.100.1, unknown"}, "10.0.0.1"),
        ("::1", {b"forwarded": b'for="[2001:db8::1]:4711";proto=https, for=10.1.1.1'}, "2001:db8::1"),
        ("::1", {b"forwarded": b"proto=https;For=198.51.100.7", b"x-forwarded-for": b"1.1.1.1"}, "198.51.100.7"),
        ("::1", {b"forwarded": b"for=_hidden"}, "::1"),
    ],
)
def test_client_is_the_last_address_that_is_not_a_trusted_proxy(
    peer: str, headers: dict[bytes, bytes], client: str
) -> None:
    assert PROXIES.client((peer, 1), headers) == client


OWN = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("peer", "headers", "begin"),
    [
        ("10.0.0.1", {b"host": b"api.example.com"}, "http://api.example.com"),
        (
            "10.0.0.1",
            {b"host": b"API.example.com:8443", b"x-forwarded-proto": b"https"},
            "https://api.example.com:8443",
        ),
        ("10.0.0.1", {b"host": b"inner", b"x-forwarded-host": b"evil.test, api.example.com"}, "http://api.example.com"),
        (
            "10.0.0.1",
            {b"host": b"inner", b"forwarded": b'host="api.example.com";proto=https'},
            "https://api.example.com",
        ),
        ("10.0.0.1", {b"host": b"[2001:db8::1]:8080"}, "http://[2001:db8::1]:8080"),
        ("10.0.0.1", {b"host": b"api.example.com", b"x-forwarded-proto": b"javascript"}, "http://api.example.com"),
        ("10.0.0.1", {b"host": b'a"><script>'}, OWN),
        ("10.0.0.1", {b"host": b"a/b"}, OWN),
        ("10.0.0.1", {}, OWN),
        ("203.0.113.9", {b"host": b"api.example.com", b"x-forwarded-host": b"evil.test"}, OWN),
    ],
)
def test_links_use_the_base_url_of_a_trusted_proxy(peer: str, headers: dict[bytes, bytes], begin: str) -> None:
    assert PROXIES.base_url((peer, 1), headers, OWN) == begin


def test_untrusted_peer_is_the_client_and_missing_peer_is_unknown() -> None:
    assert TrustedProxies(()).client(("10.0.0.1", 1), {b"x-forwarded-for": b"1.1.1.1"}) == "10.0.0.1"
    assert PROXIES.client(None, {}) is None
    assert TrustedProxies(()).base_url(("10.0.0.1", 1), {b"host": b"a.test"}, OWN) == OWN


@pytest.mark.parametrize("text", ["10.0.0.0/99", "example.com", ""])
def test_invalid_network_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        read_networks([text])
