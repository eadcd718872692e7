"""Signatures: the specification's scheme, third-party verifiers, rotation of secrets, and rejected headers."""

import base64
import hashlib
import hmac
import re
import time
import warnings

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.webhooks.errors import SignatureRefused
from scheduler.webhooks.signature import Headers, new_secret, sign, signed_headers, verify

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # both packages are third-party code
    import standardwebhooks
    import stripe

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
OWN_SECRET = "a caller's own secret, ünd not base64"
SECRETS = (SECRET, new_secret(), OWN_SECRET, "whsec_not base64!", "whsec_", "8 chars.")
BODY = '{"run_id":"run_1","text":"ünïcödé  \\u0000 \\n"}'.encode()
AT = 1_800_000_000.0
HEADER = "x-sluice-signature"


def of(headers: Headers, name: str) -> str:
    return dict(headers)[name]


def test_header_matches_the_specification() -> None:
    wanted = hmac.new(SECRET.encode(), b"1800000000." + BODY, hashlib.sha256).hexdigest()
    assert sign(BODY, keys=[SECRET], at=AT + 0.99) == f"t=1800000000,v1={wanted}"


def test_both_schemes_sign_the_same_timestamp() -> None:
    headers = signed_headers(BODY, delivery_id="whd_1", keys=[SECRET], at=AT, header_name=HEADER)
    assert [name for name, _ in headers] == [HEADER, "webhook-id", "webhook-timestamp", "webhook-signature"]
    assert (of(headers, "webhook-id"), of(headers, "webhook-timestamp")) == ("whd_1", "1800000000")
    wanted = base64.b64encode(hmac.new(b"k" * 32, b"whd_1.1800000000." + BODY, hashlib.sha256).digest()).decode()
    assert of(headers, "webhook-signature") == f"v1,{wanted}"


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
def test_stripe_library_accepts_our_signature(secret: str) -> None:
    header = sign(BODY, keys=[secret], at=time.time())
    assert stripe.WebhookSignature.verify_header(BODY.decode(), header, secret, tolerance=300)
    with pytest.raises(stripe.SignatureVerificationError):
        stripe.WebhookSignature.verify_header(BODY.decode() + " ", header, secret, tolerance=300)


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
def test_standard_webhooks_library_accepts_our_signature(secret: str) -> None:
    body = orjson.dumps({"run_id": "run_1"})
    headers = dict(signed_headers(body, delivery_id="whd_1", keys=[secret], at=time.time(), header_name=HEADER))
    decodable = secret.startswith("whsec_") and len(secret) > 40
    theirs = secret if decodable else "whsec_" + base64.b64encode(secret.encode()).decode()
    assert standardwebhooks.Webhook(theirs).verify(body, headers) == {"run_id": "run_1"}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(theirs).verify(body + b" ", headers)


@settings(max_examples=30)
@given(st.binary(max_size=200), st.text(min_size=8, max_size=200), st.integers(0, 10**10))
def test_sign_and_verify_round_trip(body: bytes, secret: str, at: int) -> None:
    secret = secret.encode("utf-8", "replace").decode()
    assert verify(secret, sign(body, keys=[secret], at=at), body, now=at) == at


# Rotation


def test_either_secret_verifies_during_a_rotation_and_the_previous_comes_last() -> None:
    headers = signed_headers(BODY, delivery_id="whd_1", keys=["new secret", "old secret"], at=AT, header_name=HEADER)
    for secret in ("new secret", "old secret"):
        assert verify(secret, of(headers, HEADER), BODY, now=AT) == AT
    last = of(headers, HEADER).rpartition(",v1=")[2]
    assert last == sign(BODY, keys=["old secret"], at=AT).rpartition("v1=")[2]
    assert len(of(headers, "webhook-signature").split(" ")) == 2


def test_stripe_and_standard_webhooks_accept_either_secret_during_a_rotation() -> None:
    secrets = [new_secret(), new_secret()]
    body = b'{"run_id":"run_1"}'
    headers = dict(signed_headers(body, delivery_id="whd_1", keys=secrets, at=time.time(), header_name=HEADER))
    for secret in secrets:
        assert stripe.WebhookSignature.verify_header(body.decode(), headers[HEADER], secret, tolerance=300)
        assert standardwebhooks.Webhook(secret).verify(body, headers)


# Errors


@pytest.mark.parametrize("off_s", [0, 299, 300, -300])
def test_clocks_may_differ_within_the_tolerance(off_s: float) -> None:
    assert verify(SECRET, sign(BODY, keys=[SECRET], at=AT), BODY, now=AT + off_s) == AT


@pytest.mark.parametrize("off_s", [301, -301, 10**9])
def test_old_delivery_is_rejected(off_s: float) -> None:
    with pytest.raises(SignatureRefused, match="s are allowed"):
        verify(SECRET, sign(BODY, keys=[SECRET], at=AT), BODY, now=AT + off_s)
    assert verify(SECRET, sign(BODY, keys=[SECRET], at=AT), BODY, now=AT + off_s, tolerance_s=10**10) == AT


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=1800000000",
        "v1=00",
        "t=,v1=00",
        "t=-1,v1=00",
        "t=1e9,v1=00",
        "t=١٨٠,v1=00",
        "t=1800000000,t=1800000000,v1=00",
        "t=1800000000,v0=00",
        "t 1800000000,v1 00",
        "\0",
        "t=1800000000," + "v1=00," * 1_000,
        "t=9999999999999,v1=00",
    ],
)
def test_malformed_header_is_rejected(header: str) -> None:
    with pytest.raises(SignatureRefused, match="the header is"):
        verify(SECRET, header, BODY, now=AT)


@pytest.mark.parametrize(
    ("secret", "body", "change"),
    [
        ("another secret", BODY, lambda header: header),
        (SECRET, BODY + b"\n", lambda header: header),
        (SECRET, b"", lambda header: header),
        (SECRET, BODY, lambda header: header.replace("t=1800000000", "t=1800000001")),
        (SECRET, BODY, lambda header: header[:-1]),
        (SECRET, BODY, lambda header: header + "0"),
        (SECRET, BODY, lambda header: re.sub("v1=.*", lambda found: found[0].upper().replace("V1", "v1"), header)),
        (SECRET, BODY, lambda header: re.sub("v1=.*", "v1=", header)),
        (SECRET, BODY, lambda header: re.sub("v1=.*", "v1=é", header)),
    ],
)
def test_wrong_body_secret_timestamp_or_digest_is_rejected(secret: str, body: bytes, change: object) -> None:
    assert callable(change)
    with pytest.raises(SignatureRefused, match="no v1"):
        verify(secret, change(sign(BODY, keys=[SECRET], at=AT)), body, now=AT)


def test_spaces_and_later_versions_in_the_header_are_ignored() -> None:
    stamp, _, digest = sign(BODY, keys=[SECRET], at=AT).partition(",")
    assert verify(SECRET, f"{stamp}, v0=x, {digest} ,v2=later", BODY, now=AT) == AT


def test_valid_signature_is_accepted_at_any_position() -> None:
    """Method: the valid signature is placed first, last, or among many others."""
    good = sign(BODY, keys=[SECRET], at=AT).partition(",v1=")[2]
    bad = "0" * 64
    for offered in ([good, bad], [bad, good], [bad] * 20 + [good] + [bad] * 20):
        header = ",".join(["t=1800000000", *(f"v1={each}" for each in offered)])
        assert verify(SECRET, header, BODY, now=AT) == AT


def test_generated_secrets_have_256_random_bits_and_work_with_both_schemes() -> None:
    secret = new_secret(lambda count: bytes(range(count)))
    assert base64.b64decode(secret.removeprefix("whsec_"), validate=True) == bytes(range(32))
    assert len({new_secret() for _ in range(100)}) == 100
    assert 8 <= len(secret) <= 200
