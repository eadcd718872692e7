"""The address of a browser, and the error when a connection to it ends."""

from __future__ import annotations

from typing import Final, NamedTuple

import httpx

CONNECT_S: Final = 5.0
"""The timeout for connecting to the browser's machine."""
ANSWER_S: Final = 20.0
"""The timeout for the browser's first answer on a new connection.

A single page can block the browser for seconds: 40 MB sent by a page take 2.6 s of an idle core.
"""


class BrowserLost(httpx.TransportError):
    """The connection to the browser ended."""


class BrowserAddress(NamedTuple):
    """The address of a browser's WebSocket. `path` identifies the browser's process and changes on restart."""

    host: str
    port: int
    path: str
    is_tls: bool
