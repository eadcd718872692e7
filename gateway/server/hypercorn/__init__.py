"""The engine for TLS and HTTP/2, which the native server does not support.

It serves the same app within the same limits.

It is for operators who have a certificate and do not want a proxy in front of the node. Hypercorn implements the
protocols. The code around a connection (accepting, draining, slow readers, upgrades, last-resort handlers) is Sluice's
own, because with Hypercorn's code a single client can end the server. This engine also works without TLS, so that the
tests of the native engine can run on it. It needs several times the CPU of the native engine. `serve_hypercorn` is the
only entry point.
"""

from gateway.server.hypercorn.engine import serve_hypercorn

__all__ = ["serve_hypercorn"]
