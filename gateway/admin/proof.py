"""Proofs that a node and its client exchange to show that they have the admin token, without sending it.

The client sends a nonce to `POST /admin/challenge`. The node responds with its own nonce and `node_proof`. If the proof
is valid, the client sends the operation on the same connection, with `request_proof` for exactly this request. Both
proofs include the addresses of both ends of the connection, so they cannot be relayed: a malicious listener that
forwards to the node has a different connection to it. Requests and responses are not encrypted, because the address is
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
    """A challenge as known to both sides: their nonces and the connection."""

    client_nonce: str
    node_nonce: str
    client: End
    node: End


def node_proof(token: str, handshake: AdminHandshake) -> str:
    """Return the node's proof for a challenge, which only a node with the token can compute."""
    return _mac(token, b"node", handshake)


def request_proof(token: str, handshake: AdminHandshake, *, method: str, path: str, body: bytes) -> str:
    """Return the proof for exactly one request, computed with the token."""
    rest = (method.encode(), path.encode("utf-8", "surrogateescape"), hashlib.sha256(body).digest())
    return _mac(token, b"client", handshake, *rest)


def is_nonce(text: str) -> bool:
    """Return whether a text is 32 bytes in hexadecimal, the format of nonces."""
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
