"""The proofs with which a node and its client show that they have the admin token, without sending it.

The client sends a nonce to `POST /admin/challenge`. The node responds with its own nonce and `node_proof`. If this
proof is valid, the client sends the operation on the same connection, with a `request_proof` for exactly this request.

Both proofs include the addresses of both ends of the connection, so they cannot be relayed: a malicious listener that
forwards to the node does so on another connection. Requests and responses are not encrypted, because the address is
meant for loopback.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

SCHEME = b"Sluice-Proof "
CHALLENGE_PATH = "/admin/challenge"
NONCE_CHARACTERS = 64
_NONCE = re.compile(r"[0-9a-f]{64}")

End = tuple[str, int]
"""The address and port of one end of a connection."""


@dataclass(frozen=True, slots=True)
class AdminHandshake:
    """The facts about a challenge that both sides know: their nonces, and the ends of the connection."""

    client_nonce: str
    node_nonce: str
    client: End
    node: End


def node_proof(token: str, handshake: AdminHandshake) -> str:
    """Return the node's proof for a challenge. Only a node that has the token can compute it."""
    return _mac(token, b"node", handshake)


def request_proof(token: str, handshake: AdminHandshake, *, method: str, path: str, body: bytes) -> str:
    """Return the client's proof for exactly this request."""
    rest = (method.encode(), path.encode("utf-8", "surrogateescape"), hashlib.sha256(body).digest())
    return _mac(token, b"client", handshake, *rest)


def is_nonce(text: str) -> bool:
    """Return whether a text is a valid nonce: 32 bytes as lower-case hexadecimal digits."""
    return _NONCE.fullmatch(text) is not None


def is_same(presented: str, expected: str) -> bool:
    """Return whether two proofs are equal, in constant time."""
    return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), expected.encode())


def _mac(token: str, role: bytes, handshake: AdminHandshake, *rest: bytes) -> str:
    ends = (f"{host}%{port}".encode() for host, port in (handshake.client, handshake.node))
    nonces = (handshake.client_nonce.encode(), handshake.node_nonce.encode())
    parts = (b"sluice admin proof 1", role, *nonces, *ends, *rest)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()
