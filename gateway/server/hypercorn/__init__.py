"""The other engine: TLS and HTTP/2, which the native server does not speak, on the same edge and the same bounds.

It exists for an operator who has a certificate and wants no proxy in front. Hypercorn reads and writes the protocols;
what surrounds a connection (accepting, draining, slow readers, upgrades, last-resort handlers) is Sluice's own, since
Hypercorn's lets one client end the server. It serves in the clear too, so that both engines pass the same tests. It
takes several times the CPU of the native engine. `serve_hypercorn` is its only entry.
"""

from gateway.server.hypercorn.engine import serve_hypercorn

__all__ = ["serve_hypercorn"]
