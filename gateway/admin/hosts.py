"""The names by which an admin address answers, so that no web page in an operator's browser can ask it.

A page can make its own name mean this machine (DNS rebinding) and would then read what is answered as its own. Its name
stands in `Host`, so only known names are answered; an address in digits is nobody's name. What a page sends across
sites has an `Origin`.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from gateway.server.asgi import HTTPScope

_FORM_TYPES = (b"text/plain", b"multipart/form-data")
"""Types that a page may send anywhere unasked. curl sends the third such type of any body; there `Origin` must do."""


class KnownHosts:
    """The names by which an admin address is asked."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are those of the config; an address in digits and `localhost` need not be named."""
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    def refusal(self, scope: HTTPScope) -> tuple[int, str] | None:
        """The status and the reason with which a request is refused, if it is.

        421 is for whom the name means another server (RFC 9110, 15.5.20), 403 for what crosses sites.
        """
        headers = scope["headers"]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1 or not all(self._is_known(host) for host in hosts):
            return 421, "this name is not one of the admin address; add it to admin.hosts, or ask by an IP address"
        if any(name == b"origin" for name, _ in headers):
            return 403, "the admin address answers no web page of another site"
        kinds = [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"]
        if any(kind in _FORM_TYPES for kind in kinds):
            return 415, "send application/json"
        return None

    def _is_known(self, host: bytes) -> bool:
        text = host.decode("latin-1").lower()
        name = text[1 : text.find("]")] if text.startswith("[") else text.partition(":")[0]
        return name.rstrip(".") in self._names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
