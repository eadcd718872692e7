"""Access rules of the dashboard: which hosts, cookies, forms and redirects are accepted. Pure functions."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from gateway.dashboard.address import PREFIX
from gateway.http.forwarded import is_address

SESSION: Final = "sluice-session"
FORM: Final = "sluice-form"
"""The cookie that binds the forms of visitors who are not signed in."""
SALT_CHARACTERS: Final = 16
_LOCAL: Final = re.compile(r"/dashboard(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*(?:\?[A-Za-z0-9_.~%&=+:/-]*)?")
_HOST: Final = re.compile(r"(?:\[(?P<bracketed>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Door:
    """How a request reached the node: its scheme and host. The pages are available only if `is_open`."""

    base_url: str
    is_known: bool
    """Whether the host belongs to this node. If not, the request may come from an attack by another site."""
    is_secure: bool
    is_loopback: bool

    @property
    def is_open(self) -> bool:
        """Return whether a session cookie is safe on this connection: over TLS, or on this machine only."""
        return self.is_secure or self.is_loopback

    def cookie(self, name: str) -> str:
        """Return the name under which a cookie is stored.

        Over TLS, it has a prefix that prevents other hosts and insecure connections from setting the cookie.
        """
        return f"__Host-{name}" if self.is_secure else name


def door_of(host: str, base_url: str, public_url: str) -> Door:
    """Return the door of a request for `host`.

    `base_url` is the address that a trusted proxy reported, or else `public_url`, the address in the config.
    """
    found = _HOST.fullmatch(host.lower())
    name = "" if found is None else (found["bracketed"] or found["name"] or "").rstrip(".")
    ours = {urlsplit(url).hostname for url in (base_url, public_url)}
    is_known = found is not None and (name in ours or name == "localhost" or is_address(name))
    return Door(base_url, is_known, base_url.startswith("https://"), _is_loopback(name))


def form_token(binding: str, salt: str = "") -> str:
    """Return a token for a form. `binding` is the secret in the cookie that the form is bound to.

    Every page gets a different token, so the length of a compressed page reveals nothing about the secret (BREACH).
    """
    salt = salt or secrets.token_hex(8)
    return salt + hashlib.sha256(f"form {salt} {binding}".encode("utf-8", "surrogatepass")).hexdigest()


def is_own_form(headers: Mapping[bytes, bytes], door: Door, host: str) -> bool:
    """Return whether the browser reports that a page of this host sent the form.

    If the browser reports nothing, the request is accepted.
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return True
    return urlsplit(origin.decode("latin-1")).netloc.lower() in (host.lower(), urlsplit(door.base_url).netloc.lower())


def has_token(binding: str, sent: str) -> bool:
    """Return whether a form was sent with the token that belongs to its cookie."""
    expected = form_token(binding, sent[:SALT_CHARACTERS].ljust(SALT_CHARACTERS, "0"))
    return binding != "" and hmac.compare_digest(expected.encode("utf-8", "surrogatepass"), _encoded(sent))


def redirect_path(text: str) -> str:
    """Return the path to redirect to, or the first page if `text` is not a path of the dashboard."""
    return text if _LOCAL.fullmatch(text) and "//" not in text.partition("?")[0] else PREFIX


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (is_address(name) and ip_address(name).is_loopback)
