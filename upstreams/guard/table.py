"""Tables of non-public networks (from the IANA special-purpose registries) and of names that no public host has.

The table of networks is our own, because `ipaddress.is_global` accepts tunnels, translations and anycast relays. Each
of these can carry a packet to a private address.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_V4 = tuple(
    (IPv4Network(network), words)
    for network, words in (
        ("0.0.0.0/8", "this network (RFC 791)"),
        ("10.0.0.0/8", "private use (RFC 1918)"),
        ("100.64.0.0/10", "shared by a carrier's customers (RFC 6598)"),
        ("127.0.0.0/8", "loopback (RFC 1122)"),
        ("168.63.129.16/32", "a cloud's own service, public in form only"),
        ("169.254.0.0/16", "link-local (RFC 3927)"),
        ("172.16.0.0/12", "private use (RFC 1918)"),
        ("192.0.0.0/24", "protocol assignments (RFC 6890)"),
        ("192.0.2.0/24", "documentation (RFC 5737)"),
        ("192.31.196.0/24", "AS112 (RFC 7535)"),
        ("192.52.193.0/24", "multicast tunnels (RFC 7450)"),
        ("192.88.99.0/24", "6to4 relays (RFC 7526)"),
        ("192.168.0.0/16", "private use (RFC 1918)"),
        ("192.175.48.0/24", "AS112 (RFC 7534)"),
        ("198.18.0.0/15", "benchmarks (RFC 2544)"),
        ("198.51.100.0/24", "documentation (RFC 5737)"),
        ("203.0.113.0/24", "documentation (RFC 5737)"),
        ("224.0.0.0/4", "multicast (RFC 5771)"),
        ("240.0.0.0/4", "reserved (RFC 1112)"),
    )
)

_V6 = tuple(
    (IPv6Network(network), words)
    for network, words in (
        ("::1/128", "loopback (RFC 4291)"),
        ("::/128", "no address (RFC 4291)"),
        ("::ffff:0:0/96", "an IPv4 address in IPv6 form (RFC 4291)"),
        ("::ffff:0:0:0/96", "an IPv4 address in IPv6 form (RFC 2765)"),
        ("::/96", "an IPv4 address in IPv6 form (RFC 4291)"),
        ("64:ff9b::/96", "a translation to IPv4 (RFC 6052)"),
        ("64:ff9b:1::/48", "a translation to IPv4 (RFC 8215)"),
        ("100::/64", "discarded (RFC 6666)"),
        ("100:0:0:1::/64", "a dummy prefix (RFC 9780)"),
        ("2001::/32", "a tunnel, Teredo (RFC 4380)"),
        ("2001::/23", "protocol assignments (RFC 2928)"),
        ("2001:db8::/32", "documentation (RFC 3849)"),
        ("2002::/16", "a tunnel, 6to4 (RFC 3056)"),
        ("2620:4f:8000::/48", "AS112 (RFC 7534)"),
        ("3ffe::/16", "the former test network (RFC 3701)"),
        ("3fff::/20", "documentation (RFC 9637)"),
        ("5f00::/16", "segment routing (RFC 9602)"),
        ("fc00::/7", "private use (RFC 4193)"),
        ("fe80::/10", "link-local (RFC 4291)"),
        ("fec0::/10", "site-local (RFC 3879)"),
        ("ff00::/8", "multicast (RFC 4291)"),
    )
)
_V6_IN_USE = IPv6Network("2000::/3")
"""The only part of IPv6 from which public addresses are allocated (RFC 4291, 2.4)."""

_RESERVED_NAMES = frozenset({"alt", "arpa", "example", "internal", "invalid", "local", "localhost", "onion", "test"})
"""Last labels that no public host has (RFC 6761, RFC 6762, RFC 7686, RFC 9476, ICANN)."""
_NETWORKS_NAMES = frozenset({"corp", "home", "intranet", "lan", "localdomain", "private"})
"""Last labels that are not delegated and that private networks use."""


def why_not_public(address: str) -> str | None:
    """Return a text for the user that says why an address is not public; None if it is clearly public.

    Raises:
        ValueError: The text is not a valid IP address.
    """
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        return next((words for network, words in _V4 if found in network), None)
    return _why_not_public_v6(found)


def _why_not_public_v6(address: IPv6Address) -> str | None:
    if address.scope_id is not None:
        return "an address with a zone (RFC 4007)"
    words = next((words for network, words in _V6 if address in network), None)
    return words or (None if address in _V6_IN_USE else "not in use (RFC 4291)")


def is_private_name(host: str) -> bool:
    """Return whether no public host has this name, which must be in lower case. A single label is a local name."""
    return "." not in host or host.rpartition(".")[2] in _RESERVED_NAMES | _NETWORKS_NAMES
