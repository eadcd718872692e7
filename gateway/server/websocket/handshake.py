"""Validates requests for a WebSocket (RFC 6455, 4.2.1), for both engines. No I/O."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wsproto.utilities import generate_accept_token

from gateway.server.errors import RequestRefused

_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")  # 16 bytes in Base64
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VERSION = b"13"
_OTHER_VERSION = ((b"upgrade", b"websocket"), (b"sec-websocket-version", _VERSION))


@dataclass(frozen=True, slots=True)
class Handshake:
    """A valid handshake request: the headers that its response needs, and the client's subprotocols by preference."""

    accept: bytes
    subprotocols: tuple[str, ...]


def read_handshake(method: str, version: str, headers: Sequence[tuple[bytes, bytes]]) -> Handshake | None:
    """Return the handshake of a request with these headers (names in lower case), or None for a plain request.

    Raises:
        RequestRefused: the request asks for a WebSocket but violates RFC 6455. A 426 names the version that this server
        supports.
    """
    if method != "GET" or version != "1.1":
        return None
    if b"upgrade" not in _options(headers, b"connection") or b"websocket" not in _options(headers, b"upgrade"):
        return None
    if _values(headers, b"transfer-encoding") or any(int(size) for size in _values(headers, b"content-length")):
        raise RequestRefused(400, "A request for a WebSocket must not have a body.")
    if _values(headers, b"sec-websocket-version") != [_VERSION]:
        raise RequestRefused(426, "This server supports version 13 of WebSocket.", _OTHER_VERSION)
    keys = _values(headers, b"sec-websocket-key")
    if len(keys) != 1 or _KEY.fullmatch(keys[0]) is None:
        raise RequestRefused(400, "Sec-WebSocket-Key must appear once, as 16 bytes in Base64.")
    return Handshake(generate_accept_token(keys[0]), _subprotocols(headers))


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def _items(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return the items of a list that may span several headers."""
    items = (item.strip(b" \t") for value in _values(headers, name) for item in value.split(b","))
    return [item for item in items if item]


def _options(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [item.lower() for item in _items(headers, name)]


def _subprotocols(headers: Sequence[tuple[bytes, bytes]]) -> tuple[str, ...]:
    offered = _items(headers, b"sec-websocket-protocol")
    if len(set(offered)) != len(offered) or not all(_TOKEN.fullmatch(item) for item in offered):
        raise RequestRefused(400, "Sec-WebSocket-Protocol is malformed.")
    return tuple(item.decode() for item in offered)
