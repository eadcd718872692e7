"""Where a browser is, and how a connection to it ends."""

from __future__ import annotations

from typing import Final, NamedTuple

import httpx

CONNECT_S: Final = 5.0
"""A browser's machine takes a connection within this."""
ANSWER_S: Final = 20.0
"""A browser answers within this on a new connection. One page alone can keep it busy for seconds: with 40 MB that it
sends for 2.6 s of a quiet core, during which the browser hears nobody."""


class BrowserLost(httpx.TransportError):
    """The connection to the browser ended."""


class BrowserAddress(NamedTuple):
    """The end of a browser's WebSocket. `path` names the browser's process: another one has another."""

    host: str
    port: int
    path: str
    is_tls: bool
