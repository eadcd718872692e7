"""The engine for TLS and HTTP/2, which the native server does not support, with the same edge and the same bounds.

It is meant for an operator who has a certificate and wants no proxy in front. Hypercorn reads and writes the protocols.
The code around a connection (accepting, draining, slow readers, upgrades, last-resort handlers) is Sluice's own,
because in Hypercorn's code one client can end the server. This engine also serves without TLS, so that both engines
pass the same tests. It takes several times the CPU of the native engine. `serve_hypercorn` is its only entry point.
"""

from gateway.server.hypercorn.engine import serve_hypercorn

__all__ = ["serve_hypercorn"]
