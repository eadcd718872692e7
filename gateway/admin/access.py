"""Check who may run operations at an admin address: clients with the token, or with a proof that they know it."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec
import trio

from gateway.admin import proof
from gateway.server.asgi import HTTPScope

CHALLENGES_MAX = 1_024
CHALLENGE_S = 30.0

IsProved = Callable[[bytes], bool]
"""Returns whether a request with this body is authorized."""


class Challenge(msgspec.Struct, frozen=True):
    """The body of a challenge request."""

    nonce: str


class ChallengeRefused(Exception):
    """The challenge is not valid. The text says why."""


@dataclass(frozen=True, slots=True)
class _Issued:
    """A challenge that the node has answered, and that the client has not used for a request yet."""

    handshake: proof.AdminHandshake
    until: float


class AdminAccess:
    """Answers challenges, and checks that requests are authorized.

    At most `CHALLENGES_MAX` answered challenges are stored, for `CHALLENGE_S` seconds each.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._bearer = b"Bearer " + token.encode()
        self._issued: dict[str, _Issued] = {}

    def challenge(self, scope: HTTPScope, body: bytes) -> dict[str, str]:
        """Return the node's nonce and proof, which are valid for one request on this connection.

        Raises:
            ChallengeRefused: the body is not a challenge, or the addresses of the connection are unknown.
        """
        ends = _connection_ends(scope)
        try:
            nonce = msgspec.json.decode(body, type=Challenge).nonce
        except msgspec.DecodeError as exc:
            raise ChallengeRefused(str(exc)) from exc
        if ends is None or not proof.is_nonce(nonce):
            raise ChallengeRefused(f"a nonce has {proof.NONCE_CHARACTERS} hexadecimal digits")
        handshake = proof.AdminHandshake(nonce, secrets.token_hex(proof.NONCE_CHARACTERS // 2), *ends)
        self._store(handshake)
        return {"nonce": handshake.node_nonce, "proof": proof.node_proof(self._token, handshake)}

    def judge(self, scope: HTTPScope) -> IsProved | None:
        """Return a function that checks whether a body makes the request authorized; None if no body can.

        A request with a proof uses up its challenge, even if the proof turns out to be wrong.
        """
        presented = dict(scope["headers"]).get(b"authorization", b"")
        if hmac.compare_digest(presented, self._bearer):
            return lambda _body: True
        if not presented.startswith(proof.SCHEME):
            return None
        nonce, _, sent = presented.removeprefix(proof.SCHEME).decode("latin-1").partition(":")
        issued = self._issued.pop(nonce, None)
        if issued is None or issued.until < trio.current_time():
            return None
        if _connection_ends(scope) != (issued.handshake.client, issued.handshake.node):
            return None
        return partial(self._is_proved, scope, issued.handshake, sent)

    def _is_proved(self, scope: HTTPScope, handshake: proof.AdminHandshake, sent: str, body: bytes) -> bool:
        expected = proof.request_proof(self._token, handshake, method=scope["method"], path=scope["path"], body=body)
        return proof.is_same(sent, expected)

    def _store(self, handshake: proof.AdminHandshake) -> None:
        """Store a challenge. Above the limit, the oldest one is dropped.

        During a flood of challenges, a client may lose its own and must then retry.
        """
        if len(self._issued) >= CHALLENGES_MAX:
            del self._issued[next(iter(self._issued))]
        self._issued[handshake.node_nonce] = _Issued(handshake, trio.current_time() + CHALLENGE_S)


def _connection_ends(scope: HTTPScope) -> tuple[proof.End, proof.End] | None:
    client, server = scope.get("client"), scope.get("server")
    if client is None or server is None or server[1] is None:
        return None
    return (client[0], client[1]), (server[0], server[1])
