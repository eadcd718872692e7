"""The address of a browser, and the error for a connection that ended."""

from __future__ import annotations

from typing import Final, NamedTuple

import httpx

CONNECT_S: Final = 5.0
"""The timeout for connecting to the browser's machine."""
ANSWER_S: Final = 20.0
"""The timeout for the browser's first answer on a new connection.

A single page can block the browser for seconds. For example, a page of 40 MB occupies an otherwise idle core for 2.6 s.
"""


class BrowserLost(httpx.TransportError):
    """The connection to the browser ended."""


class BrowserAddress(NamedTuple):
    """The address of a browser's WebSocket. `path` identifies the browser's process and changes on restart."""

    host: str
    port: int
    path: str
    is_tls: bool
