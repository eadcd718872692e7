"""Signatures of deliveries: Sluice's own (spec 5.3) and Standard Webhooks, over the same bytes with the same secrets.

Sluice's signature uses the secret's whole text as the key. Standard Webhooks uses the bytes that follow `whsec_` in
base64; for an owner's secret in another form, it uses the UTF-8 bytes. Generated secrets work with both.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Callable, Sequence

from scheduler.webhooks.errors import SignatureRefused

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of secrets
TOLERANCE_S = 300.0
_SECRET_BYTES = 32
_HEADER_CHARACTERS_MAX = 4_096
_INSTANT = re.compile(r"[0-9]{1,12}")

Headers = tuple[tuple[str, str], ...]


def new_secret(random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """Return a new signing secret, for a webhook whose owner sent none."""
    return SECRET_PREFIX + base64.b64encode(random_bytes(_SECRET_BYTES)).decode("ascii")


def signed_headers(body: bytes, *, delivery_id: str, keys: Sequence[str], at: float, header_name: str) -> Headers:
    """Return the headers that authenticate a delivery, signed with the time of its attempt.

    `keys` are the webhook's secrets, the current one first. During a rotation, the previous one follows.
    """
    return ((header_name, sign(body, keys=keys, at=at)), *_standard_headers(body, delivery_id, keys, int(at)))


def sign(body: bytes, *, keys: Sequence[str], at: float) -> str:
    """Return the signature header's value: `t=<unix seconds>,v1=<hex>`, with a `v1` for each secret.

    The previous secret's signature comes last, because a receiver that keeps only the last `v1` may still have that
    secret.
    """
    stamp = int(at)
    return ",".join((f"t={stamp}", *(f"v1={_hex_digest(key, stamp, body)}" for key in keys)))


def verify(secret: str, header: str, body: bytes, *, now: float, tolerance_s: float = TOLERANCE_S) -> float:
    """Verify a delivery as its receiver does, and return the time at which it was signed.

    Raises:
        SignatureRefused: the header cannot be read, no `v1` matches this secret and body, or the timestamp is too far
            off.
    """
    stamp, offered = _read(header)
    wanted = _hex_digest(secret, stamp, body).encode("ascii")
    # Every signature is compared in constant time, so that the duration reveals nothing about near matches.
    if not sum(hmac.compare_digest(wanted, each.encode("utf-8")) for each in offered):
        raise SignatureRefused("no v1 signature matches this body and secret")
    if abs(now - stamp) > tolerance_s:
        raise SignatureRefused(
            f"its timestamp is {abs(now - stamp):.0f} s off; at most {tolerance_s:.0f} s are allowed"
        )
    return float(stamp)


def _read(header: str) -> tuple[int, list[str]]:
    """Return the timestamp and every `v1` of a signature header's value.

    Other items are reserved for later versions.
    """
    if len(header) > _HEADER_CHARACTERS_MAX:
        raise SignatureRefused(f"the header is longer than {_HEADER_CHARACTERS_MAX} characters")
    pairs = [tuple(item.strip().split("=", 1)) for item in header.split(",") if "=" in item]
    instants = [value for name, value in pairs if name == "t"]
    offered = [value for name, value in pairs if name == "v1"]
    if len(instants) != 1 or not _INSTANT.fullmatch(instants[0]) or not offered:
        raise SignatureRefused("the header is not of the form t=<unix seconds>,v1=<hex>")
    return int(instants[0]), offered


def _hex_digest(secret: str, stamp: int, body: bytes) -> str:
    return hmac.digest(secret.encode("utf-8"), b"%d.%b" % (stamp, body), "sha256").hex()


def _standard_headers(body: bytes, delivery_id: str, keys: Sequence[str], stamp: int) -> Headers:
    """Return the headers of Standard Webhooks 1.0. The id is the same for all attempts."""
    content = b"%b.%d.%b" % (delivery_id.encode("ascii"), stamp, body)
    digests = (hmac.digest(_standard_key(key), content, "sha256") for key in keys)
    return (
        ("webhook-id", delivery_id),
        ("webhook-timestamp", str(stamp)),
        ("webhook-signature", " ".join(f"v1,{base64.b64encode(digest).decode('ascii')}" for digest in digests)),
    )


def _standard_key(secret: str) -> bytes:
    encoded = secret.removeprefix(SECRET_PREFIX)
    if encoded and encoded != secret:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):  # ValueError if the text is not ASCII
            pass
    return secret.encode("utf-8")
