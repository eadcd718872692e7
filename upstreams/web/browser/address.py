"""The address of a browser, and the error when a connection to it ends."""

from __future__ import annotations

from typing import Final, NamedTuple

import httpx

CONNECT_S: Final = 5.0
"""The timeout for connecting to the browser's machine."""
ANSWER_S: Final = 20.0
"""The timeout for the browser's first answer on a new connection.

A single page can block the browser for seconds: a page that sends 40 MB keeps an idle core busy for 2.6 s.
"""


class BrowserLost(httpx.TransportError):
    """The connection to the browser ended."""


class BrowserAddress(NamedTuple):
    """The address of a browser's WebSocket. `path` identifies the browser's process and changes on restart."""

    host: str
    port: int
    path: str
    is_tls: bool
