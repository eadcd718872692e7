"""The address of an outbound proxy. It is separate from the tunnels, for code that only checks settings."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

_ADDRESS = re.compile(
    r"(?P<scheme>http|socks5h)://"
    r"(?:(?P<user>[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::(?P<password>[A-Za-z0-9._~!$&'()*+,;=:%-]*))?@)?"
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))"
    r":(?P<port>[0-9]{1,5})/?"
)
_PORT_MAX: Final = 65_535
_PART_BYTES_MAX: Final = 255
"""The maximum length of a user name and of a password in SOCKS5 (RFC 1929)."""
WANTED: Final = "must be a URL such as http://proxy.example:3128 or socks5h://user:password@proxy.example:1080"


class Proxy(NamedTuple):
    """An outbound proxy. Its text never contains the user name and the password."""

    scheme: str
    """`http`, which is asked to CONNECT, or `socks5h`."""
    host: str
    port: int
    user: bytes = b""
    password: bytes = b""

    def __repr__(self) -> str:
        return f"Proxy({self.scheme}, {self.host}, {self.port})"


def read_proxy(url: str) -> Proxy:
    """Return the proxy at a URL. User name and password are percent-encoded in the URL.

    Raises:
        ValueError: The URL is not the URL of a proxy. The message completes a sentence that starts with the name of the
            setting. It never contains the URL, which may contain a password.
    """
    found = _ADDRESS.fullmatch(url)
    if found is None:
        raise ValueError(f"{WANTED}, with a port; reserved characters in a password must be percent-encoded")
    port = int(found["port"])
    if not 0 < port <= _PORT_MAX:
        raise ValueError(f"must have a port from 1 to {_PORT_MAX}")
    user, password = (unquote_to_bytes(found[name] or "") for name in ("user", "password"))
    if found["user"] is not None and not user:
        raise ValueError("must have a user name before the password")
    if max(len(user), len(password)) > _PART_BYTES_MAX:
        raise ValueError(f"must have a user name and a password of at most {_PART_BYTES_MAX} bytes")
    if found["scheme"] == "http" and b":" in user:
        raise ValueError("must have a user name without a colon")
    return Proxy(found["scheme"], found["address"] or found["host"], port, user, password)
