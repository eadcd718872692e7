"""Cursor tokens.

Each one contains the position of the next page, is signed, and is valid only for one endpoint and its parameters
(decisions 10).
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import blake2b

import orjson

from upstreams.model.errors import InvalidCursor, UpstreamFailed
from upstreams.model.params import State

PREFIX = "cur_"
_MAC_BYTES = 12
_TOKEN_MAX = 4_096
_PAYLOAD_MAX = (_TOKEN_MAX - len(PREFIX)) * 3 // 4 - _MAC_BYTES


class CursorSigner:
    """Creates and opens tokens: `cur_` + base64url(12 bytes of MAC + the state as JSON)."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def _mac(self, binding: bytes, payload: bytes) -> bytes:
        digest = blake2b(len(binding).to_bytes(4) + binding, digest_size=_MAC_BYTES, key=self._key, person=b"cursor")
        digest.update(payload)
        return digest.digest()

    def seal(self, binding: bytes, state: State) -> str:
        """Return a token for `state`.

        It is valid only with the same `binding`, which identifies the endpoint and parameters.

        Raises:
            UpstreamFailed: The token would be longer than a request accepts.
        """
        payload = orjson.dumps(dict(state))
        if len(payload) > _PAYLOAD_MAX:
            raise UpstreamFailed(
                "the next page", (f"the upstream's cursor for the next page is longer than {_PAYLOAD_MAX} bytes")
            )
        return PREFIX + urlsafe_b64encode(self._mac(binding, payload) + payload).rstrip(b"=").decode()

    def open(self, binding: bytes, token: str) -> State:
        """Return the state that a token contains.

        Raises:
            InvalidCursor: The token is malformed, was changed, or belongs to another request.
        """
        raw = _decoded(token)
        mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(binding, payload)):
            raise InvalidCursor("belongs to another request, or was changed")
        state: State = orjson.loads(payload)
        return state


def _decoded(token: str) -> bytes:
    if not token.startswith(PREFIX) or len(token) > _TOKEN_MAX:
        raise InvalidCursor(f"must be a next_cursor from an earlier response, which starts with {PREFIX}")
    body = token.removeprefix(PREFIX)
    try:
        raw = urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except (Base64Error, ValueError) as exc:
        raise InvalidCursor("is malformed: not valid base64url") from exc
    if urlsafe_b64encode(raw).rstrip(b"=").decode() != body:
        raise InvalidCursor("is malformed: not the token that was issued")
    if len(raw) <= _MAC_BYTES:
        raise InvalidCursor("is malformed: too short")
    return raw
