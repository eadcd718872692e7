"""Parses the address of Redis."""

import ssl
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from storage.errors import StoreUnusable

Address: TypeAlias = tuple[str, int]
Form: TypeAlias = Literal["single", "cluster", "sentinel"]

_FORMS: dict[str, tuple[Form, bool]] = {
    "redis": ("single", False),
    "rediss": ("single", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
}
_EXPECTED = (
    "redis://HOST:PORT/DB, redis+cluster://HOST:PORT,HOST:PORT or redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB "
    "(rediss for TLS)"
)
_PORTS: dict[Form, int] = {"single": 6379, "cluster": 6379, "sentinel": 26379}


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials, database and TLS settings for a connection to a server."""

    username: str = ""
    password: str = ""
    db: int = 0
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A parsed address. `addresses` contains the server, some cluster members, or the sentinels."""

    form: Form
    addresses: tuple[Address, ...]
    service: str
    access: Access


def read_url(url: str) -> RedisUrl:
    """Parse an address.

    Raises:
        StoreUnusable: with a message for the operator, without the password.
    """
    try:
        parts = urlsplit(url)
        form, is_tls = _FORMS[parts.scheme]
        addresses = tuple(_address(host, _PORTS[form]) for host in parts.netloc.rpartition("@")[2].split(","))
        service, db = _path(parts.path.strip("/"), form)
    except (KeyError, ValueError) as exc:
        raise StoreUnusable(f"not a Redis address; expected {_EXPECTED}") from exc
    if form == "single" and len(addresses) > 1:
        raise StoreUnusable("redis:// accepts one server; for several, use redis+cluster:// or redis+sentinel://")
    return RedisUrl(form, addresses, service, _access(parts, db, is_tls=is_tls))


def _address(text: str, port: int) -> Address:
    """Parse `host`, `host:port` or `[v6]:port`."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.path:
        raise ValueError(text)
    return parts.hostname, parts.port or port


def _path(path: str, form: Form) -> tuple[str, int]:
    """Return the service name (Sentinel only) and the database number (not for a cluster)."""
    if form == "single":
        return "", int(path or 0)
    if form == "cluster":
        if path:
            raise ValueError(path)
        return "", 0
    service, _, db = path.partition("/")
    if not service:
        raise ValueError(path)
    return unquote(service), int(db or 0)


def _access(parts: SplitResult, db: int, *, is_tls: bool) -> Access:
    username, _, password = parts.netloc.rpartition("@")[0].partition(":")
    tls = ssl.create_default_context() if is_tls else None
    return Access(unquote(username), unquote(password), db, tls)
