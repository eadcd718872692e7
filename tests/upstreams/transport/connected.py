"""A server that sends exactly what a test chooses, and a transport for calls to it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from tests.fakes.upstream_server import Script, UpstreamServer, open_upstream_server
from upstreams.transport.pooled import Transport, open_transport


@asynccontextmanager
async def connected(
    script: Script, tls: ssl.SSLContext | None = None, *, within_s: float = 5.0, **options: Any
) -> AsyncIterator[tuple[UpstreamServer, Transport]]:
    """Run the server and the transport until the block ends, which must be within `within_s`."""
    with trio.fail_after(within_s):
        async with open_upstream_server(script, tls) as server, open_transport(**options) as transport:
            yield server, transport
