"""Where a browser is, and how a connection to it ends."""

from __future__ import annotations

from typing import Final, NamedTuple

import httpx

CONNECT_S: Final = 5.0


class BrowserLost(httpx.TransportError):
    """The connection to the browser ended."""


class BrowserAddress(NamedTuple):
    """The end of a browser's WebSocket. `path` names the browser's process: another one has another."""

    host: str
    port: int
    path: str
    is_tls: bool
