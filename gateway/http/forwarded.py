"""The address of a request's client: its connection's, or what the proxies say that the operator trusts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks that texts such as `10.0.0.0/8` or `::1` name. Raises ValueError."""
    return tuple(ip_network(text, strict=False) for text in texts)


class TrustedProxies:
    """Believes `Forwarded` and `X-Forwarded-For` of certain networks, and of nobody else."""

    def __init__(self, networks: Iterable[Network]) -> None:
        self._networks = tuple(networks)

    def client(self, peer: tuple[str, int] | None, headers: Mapping[bytes, bytes]) -> str | None:
        """The address of the client behind the connection of `peer`: the last one that no trusted proxy has.

        Each proxy adds the address that it was called from at the end, so whatever stands before the first stranger
        may be invented.
        """
        if peer is None:
            return None
        address = peer[0]
        if not self._networks or not self._trusts(address):
            return address
        for named in reversed(_named(headers)):
            if not _is_address(named):
                break
            address = named
            if not self._trusts(address):
                break
        return address

    def _trusts(self, address: str) -> bool:
        parsed = ip_address(address)
        return any(parsed in network for network in self._networks)


def _named(headers: Mapping[bytes, bytes]) -> list[str]:
    """The addresses that the headers name, in their order; `Forwarded` (RFC 7239) where there is one."""
    forwarded = headers.get(b"forwarded")
    if forwarded is None:
        return [_bare(part) for part in headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")]
    named = []
    for element in forwarded.decode("latin-1").split(","):
        pairs = (pair.partition("=") for pair in element.split(";"))
        named.append(next((_bare(value) for name, _, value in pairs if name.strip().lower() == "for"), ""))
    return named


def _bare(text: str) -> str:
    """An address without quotes, brackets and port."""
    text = text.strip().strip('"')
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
