"""The guard for targets that a user names. Only clearly public hosts are called, regardless of how the URL is written.

URLs are parsed strictly: a URL that two parsers could interpret differently is refused, not repaired. Code that calls a
target must check twice, with `check_url` for the URL and then with `check_addresses` for all addresses that the name
resolves to, and must connect only to an address that was checked. Resolving the name again could return a different
address.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple

import idna

from upstreams.guard.table import is_private_name, why_not_public
from upstreams.model.errors import TargetRefused
from upstreams.transport.origin import DEFAULT_PORTS, Origin

URL_CHARACTERS_MAX = 2_048

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<target>[^#]*)(?:#.*)?")
_BEHIND_AUTHORITY = re.compile(r"[!-~]*")
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_NAME = re.compile(r"(?!.{254})(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER_AT_END = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""Matches an IPv4 address as `inet_aton` and browsers parse it: decimal, octal, hexadecimal, with one to four parts."""


class TargetRules(NamedTuple):
    """The schemes and ports that are allowed for a kind of target."""

    schemes: tuple[str, ...]
    ports: tuple[int, ...]
    free_above: int
    """Ports above this number are also allowed."""

    @property
    def described(self) -> str:
        """The allowed ports, written as text."""
        *others, last = (*map(str, self.ports), *(f"above {port}" for port in (self.free_above,) if port < _PORTS_END))
        return f"{', '.join(others)} or {last}"


_PORTS_END = 65_536
HTTPS: Final = TargetRules(("https",), (443, 8443), 1_024)
"""The rules of the specification (6.1)."""
OPEN_WEB: Final = TargetRules(("https", "http"), (80, 443, 8080, 8443), _PORTS_END)
"""The rules for web pages on any host (decisions 21)."""


class Target(NamedTuple):
    """A URL that may be called once its addresses are checked. `path` includes the query and starts with `/`."""

    scheme: str
    host: str
    """A host name in ASCII and lower case, or an address without brackets."""
    port: int
    path: str
    is_address: bool
    """Whether the host is an address. It is then already checked and need not be resolved."""

    def origin_at(self, address: str) -> Origin:
        """Return the origin to connect to: this host, at one of its checked addresses."""
        return Origin(self.scheme, self.host, self.port, address)


def check_url(url: str, *, rules: TargetRules = HTTPS, allow_insecure: bool = False) -> Target:
    """Parse a URL that a user wants to call, and refuse it unless its scheme, port and host are allowed (spec 6.1).

    `allow_insecure`, for tests only, allows http, any port, private addresses and private names.

    Raises:
        TargetRefused: The URL is refused. The message contains the reason and is shown to the user.
    """
    scheme, authority, path = _parts(url)
    if scheme not in rules.schemes and not (allow_insecure and scheme == "http"):
        raise TargetRefused("scheme", f"the URL must begin with {' or '.join(f'{one}://' for one in rules.schemes)}")
    if "@" in authority:
        raise TargetRefused("userinfo", "the URL must not contain a user name or a password")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise TargetRefused("malformed", "the URL's host and port cannot be read")
    port = int(found["port"] or DEFAULT_PORTS[scheme])
    if not (0 < port < _PORTS_END and (allow_insecure or port in rules.ports or port > rules.free_above)):
        raise TargetRefused("port", f"the URL's port must be {rules.described}")
    host, is_address = _host(found["host"])
    if is_address:
        check_addresses((host,), allow_insecure=allow_insecure)
    elif not allow_insecure and is_private_name(host):
        raise TargetRefused("host", "the URL's host is not a public name")
    return Target(scheme, host, port, path, is_address)


def check_addresses(addresses: Iterable[str], *, allow_insecure: bool = False) -> tuple[str, ...]:
    """Return the addresses of a name without duplicates, in order. If any is not clearly public, all are refused.

    Raises:
        TargetRefused: The name has no address, or an address is invalid or not public. The message does not contain the
            address, so that it reveals nothing about names inside a network.
    """
    checked = tuple(dict.fromkeys(addresses))
    if not checked:
        raise TargetRefused("address", "the URL's host has no address")
    for address in checked:
        try:
            words = why_not_public(address)
        except ValueError as exc:
            raise TargetRefused("address", "the URL's host has an address that cannot be read") from exc
        if words is not None and not allow_insecure:
            raise TargetRefused("address", f"the URL's host has an address that is not public: {words}")
    return checked


def _parts(url: str) -> tuple[str, str, str]:
    """Return the scheme in lower case, the authority, and the path with the query."""
    if len(url) > URL_CHARACTERS_MAX:
        raise TargetRefused("too_long", f"the URL is longer than {URL_CHARACTERS_MAX} characters")
    if "\\" in url or not url.isprintable() or any(map(str.isspace, url)):
        raise TargetRefused("malformed", "the URL contains a space, a backslash or a control character")
    found = _URL.fullmatch(url)
    if found is None:
        raise TargetRefused("malformed", "the URL must be complete, such as https://example.com/hook")
    path = found["target"]
    if not _BEHIND_AUTHORITY.fullmatch(path):
        raise TargetRefused("malformed", "the URL's path and query must be percent-encoded")
    return found["scheme"].lower(), found["authority"], path if path.startswith("/") else f"/{path}"


def _host(text: str) -> tuple[str, bool]:
    """Return a host in the form that is resolved and sent to the server, and whether it is an address."""
    if "%" in text:
        raise TargetRefused("host", "the URL's host must not contain a percent sign or a zone")
    if text.startswith("["):
        try:
            return str(IPv6Address(text[1:-1])), True
        except AddressValueError as exc:
            raise TargetRefused("host", "the URL's host is not a valid IPv6 address") from exc
    name = _in_ascii(text).lower()
    if _NUMBER_AT_END.fullmatch(name):
        try:
            return str(IPv4Address(name)), True
        except AddressValueError as exc:
            raise TargetRefused("host", "an IPv4 address must be four decimal numbers from 0 to 255") from exc
    if not _NAME.fullmatch(name):
        raise TargetRefused("host", "the URL's host is not a valid host name; it must not end with a dot")
    return name, False


def _in_ascii(name: str) -> str:
    """Return an international name in ASCII.

    Full-width or circled letters are refused, because the conversion would replace them with ordinary letters.
    """
    if name.isascii():
        return name
    try:
        if unicodedata.is_normalized("NFKC", name):
            return idna.encode(name.lower(), strict=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as exc:
        raise TargetRefused("host", "the URL's host contains characters that host names cannot contain") from exc
    raise TargetRefused("host", "the URL's host contains letters that are equivalent to other letters")
