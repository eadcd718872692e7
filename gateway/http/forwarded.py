"""Headers of trusted proxies: the client's address, and the base URL that the client used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network
_HOST = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_SCHEMES = ("http", "https")


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks such as `10.0.0.0/8` or `::1`. Raises ValueError."""
    return tuple(ip_network(text, strict=False) for text in texts)


class TrustedProxies:
    """Reads `Host`, `Forwarded` and `X-Forwarded-*`, but only from peers in the trusted networks."""

    def __init__(self, networks: Iterable[Network]) -> None:
        self._networks = tuple(networks)

    def client(self, peer: tuple[str, int] | None, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the address of the client of a connection: the last address that is not a trusted proxy.

        Each proxy appends the address of its peer, so every address before the last untrusted one may be forged.
        """
        if peer is None:
            return None
        address = peer[0]
        if not self._networks or not self._trusts(address):
            return address
        for named in reversed(_named(headers)):
            if not is_address(named):
                break
            address = named
            if not self._trusts(address):
                break
        return address

    def base_url(self, peer: tuple[str, int] | None, headers: Mapping[bytes, bytes], otherwise: str) -> str:
        """Return the base URL for links in the response: the URL that the client used at a trusted proxy.

        If a header has several values, the last one counts, because the nearest proxy added it. Without a scheme, the
        scheme of `otherwise` is used. For an untrusted peer, the result is `otherwise`.
        """
        if peer is None or not self._networks or not self._trusts(peer[0]):
            return otherwise
        named = _last(_pairs(headers), "host") or _last_item(headers, b"x-forwarded-host") or _text(headers, b"host")
        if _HOST.fullmatch(named) is None:
            return otherwise
        scheme = (_last(_pairs(headers), "proto") or _last_item(headers, b"x-forwarded-proto")).lower()
        return f"{scheme if scheme in _SCHEMES else otherwise.partition('://')[0]}://{named.lower()}"

    def _trusts(self, address: str) -> bool:
        parsed = ip_address(address)
        return any(parsed in network for network in self._networks)


def _named(headers: Mapping[bytes, bytes]) -> list[str]:
    """Return the addresses in the headers, in order. `Forwarded` (RFC 7239) has priority if present."""
    if b"forwarded" not in headers:
        return [_bare(part) for part in _text(headers, b"x-forwarded-for").split(",")]
    return [_bare(pairs.get("for", "")) for pairs in _pairs(headers)]


def _pairs(headers: Mapping[bytes, bytes]) -> list[dict[str, str]]:
    """Parse the elements of `Forwarded`: one mapping for each proxy."""
    elements = []
    for element in _text(headers, b"forwarded").split(","):
        pairs = (pair.partition("=") for pair in element.split(";"))
        elements.append({name.strip().lower(): value.strip().strip('"') for name, _, value in pairs})
    return elements


def _last(elements: list[dict[str, str]], name: str) -> str:
    return elements[-1].get(name, "")


def _last_item(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return _text(headers, name).rpartition(",")[2].strip()


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")


def _bare(text: str) -> str:
    """Strip quotes, brackets and port from an address."""
    text = text.strip().strip('"')
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
