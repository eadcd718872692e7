"""Proofs by which a node and its client show each other that they know the admin token, without ever sending it.

The client sends a nonce to `POST /admin/challenge`. The node answers with a nonce of its own and `node_proof`. When it
is right, the operation follows on the same connection with `request_proof` of exactly this request. Both cover the
connection's two ends, so that neither can be passed on: a listener elsewhere that asks the node meanwhile has another
connection to it. Requests and answers are in clear: the address is for loopback.
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
"""The address and the port of one end of a connection."""


@dataclass(frozen=True, slots=True)
class AdminHandshake:
    """A challenge as both sides know it: their nonces and the connection that it is for."""

    client_nonce: str
    node_nonce: str
    client: End
    node: End


def node_proof(token: str, handshake: AdminHandshake) -> str:
    """The answer to a challenge that only a node with the token can give."""
    return _mac(token, b"node", handshake)


def request_proof(token: str, handshake: AdminHandshake, *, method: str, path: str, body: bytes) -> str:
    """The proof that goes with one request, and with no other one, made with the token."""
    rest = (method.encode(), path.encode("utf-8", "surrogateescape"), hashlib.sha256(body).digest())
    return _mac(token, b"client", handshake, *rest)


def is_nonce(text: str) -> bool:
    """Whether this is 32 bytes in hexadecimal digits, as both sides make them."""
    return _NONCE.fullmatch(text) is not None


def is_same(presented: str, expected: str) -> bool:
    """Whether two proofs are equal; the time that it takes does not reveal where they differ."""
    return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), expected.encode())


def _mac(token: str, role: bytes, handshake: AdminHandshake, *rest: bytes) -> str:
    ends = (f"{host}%{port}".encode() for host, port in (handshake.client, handshake.node))
    nonces = (handshake.client_nonce.encode(), handshake.node_nonce.encode())
    parts = (b"sluice admin proof 1", role, *nonces, *ends, *rest)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()
