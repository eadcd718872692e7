"""The doors of the dashboard: which host, which cookies, which forms and which ways on are let through. Pure rules."""

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
"""The cookie that binds the forms of who has not signed in."""
SALT_CHARACTERS: Final = 16
_LOCAL: Final = re.compile(r"/dashboard(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*(?:\?[A-Za-z0-9_.~%&=+:/-]*)?")
_HOST: Final = re.compile(r"(?:\[(?P<bracketed>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Door:
    """The way by which a request came. `is_open`: its pages may be used."""

    base_url: str
    is_known: bool
    """Its host is one of this node's: another's page cannot have been made to lead here."""
    is_secure: bool
    is_loopback: bool

    @property
    def is_open(self) -> bool:
        """Whether a session's cookie would be safe: over TLS, or without leaving this machine."""
        return self.is_secure or self.is_loopback

    def cookie(self, name: str) -> str:
        """The name of a cookie: over TLS no other host, and nobody in the clear, can set one of this name."""
        return f"__Host-{name}" if self.is_secure else name


def door_of(host: str, base_url: str, public_url: str) -> Door:
    """The door of a request for `host`.

    `base_url` is the address that was opened as trusted proxies say, else that of the config, `public_url`.
    """
    found = _HOST.fullmatch(host.lower())
    name = "" if found is None else (found["bracketed"] or found["name"] or "").rstrip(".")
    ours = {urlsplit(url).hostname for url in (base_url, public_url)}
    is_known = found is not None and (name in ours or name == "localhost" or is_address(name))
    return Door(base_url, is_known, base_url.startswith("https://"), _is_loopback(name))


def form_token(binding: str, salt: str = "") -> str:
    """The token that forms carry; `binding` is the secret of the cookie that they belong to.

    No two pages have the same one, so that the length of a compressed page tells nothing of it (BREACH).
    """
    salt = salt or secrets.token_hex(8)
    return salt + hashlib.sha256(f"form {salt} {binding}".encode("utf-8", "surrogatepass")).hexdigest()


def is_own_form(headers: Mapping[bytes, bytes], door: Door, host: str) -> bool:
    """Whether a form was sent by a page of this host, as browsers say; one that says nothing is believed."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return True
    return urlsplit(origin.decode("latin-1")).netloc.lower() in (host.lower(), urlsplit(door.base_url).netloc.lower())


def has_token(binding: str, sent: str) -> bool:
    """Whether a form carries the token of its cookie."""
    expected = form_token(binding, sent[:SALT_CHARACTERS].ljust(SALT_CHARACTERS, "0"))
    return binding != "" and hmac.compare_digest(expected.encode("utf-8", "surrogatepass"), _encoded(sent))


def way_on(text: str) -> str:
    """A path of the dashboard to go on to; anything else leads to the first page."""
    return text if _LOCAL.fullmatch(text) and "//" not in text.partition("?")[0] else PREFIX


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (is_address(name) and ip_address(name).is_loopback)
