"""Access to admin operations: the token, or a proof valid for one request on one connection for a limited time."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from gateway.admin.access import CHALLENGE_S, CHALLENGES_MAX, AdminAccess, ChallengeRefused
from gateway.admin.proof import AdminHandshake, node_proof, request_proof

TOKEN = "the admin token of this test"
LIST = "/admin/account.list"
CLIENT, OTHER, NODE = ("127.0.0.1", 50_000), ("127.0.0.1", 50_001), ("127.0.0.1", 8_081)
NONCE = "a1" * 32


def scope(authorization: str = "", *, path: str = LIST, method: str = "POST", **ends: Any) -> Any:
    headers = [(b"authorization", authorization.encode("latin-1"))] if authorization else []
    return {"headers": headers, "method": method, "path": path, "client": CLIENT, "server": NODE, **ends}


def challenged(access: AdminAccess, **ends: Any) -> AdminHandshake:
    """Return the handshake of a challenge, after checking the node's proof."""
    asked = scope(**ends)
    found = access.challenge(asked, orjson.dumps({"nonce": NONCE}))
    handshake = AdminHandshake(NONCE, found["nonce"], asked["client"], asked["server"])
    assert found["proof"] == node_proof(TOKEN, handshake)
    return handshake


def proved(handshake: AdminHandshake, token: str = TOKEN, path: str = LIST, body: bytes = b"{}") -> str:
    mac = request_proof(token, handshake, method="POST", path=path, body=body)
    return f"Sluice-Proof {handshake.node_nonce}:{mac}"


def may_pass(access: AdminAccess, asked: Any, body: bytes = b"{}") -> bool:
    is_proved = access.judge(asked)
    return is_proved is not None and is_proved(body)


def test_token_authorizes_every_request() -> None:
    access = AdminAccess(TOKEN)
    for body in (b"", b"{}", b"anything"):
        assert may_pass(access, scope(f"Bearer {TOKEN}"), body)


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer wrong", f"bearer {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xff"],
)
def test_malformed_or_wrong_authorization_is_rejected(authorization: str) -> None:
    assert AdminAccess(TOKEN).judge(scope(authorization)) is None


async def test_proof_authorizes_exactly_one_request() -> None:
    access = AdminAccess(TOKEN)
    authorization = proved(challenged(access))
    assert may_pass(access, scope(authorization))
    assert not may_pass(access, scope(authorization))


@pytest.mark.parametrize(
    ("terms", "body"),
    [
        ({}, b'{"limit":1}'),
        ({}, b""),
        ({"path": "/admin/ledger.verify"}, b"{}"),
        ({"method": "GET"}, b"{}"),
        ({"client": OTHER}, b"{}"),
        ({"server": ("127.0.0.1", 8_082)}, b"{}"),
        ({"client": None}, b"{}"),
    ],
)
async def test_proof_is_bound_to_operation_body_and_connection(terms: dict[str, Any], body: bytes) -> None:
    access = AdminAccess(TOKEN)
    authorization = proved(challenged(access))
    assert not may_pass(access, scope(authorization, **terms), body)
    assert not may_pass(access, scope(authorization)), "a challenge can be used only once"


async def test_caller_without_token_cannot_prove_anything() -> None:
    access = AdminAccess(TOKEN)
    assert not may_pass(access, scope(proved(challenged(access), "guessed")))


@pytest.mark.parametrize("made_up", ["Sluice-Proof ", "Sluice-Proof :", f"Sluice-Proof {'0' * 64}:{'0' * 64}"])
async def test_made_up_proof_is_rejected(made_up: str) -> None:
    access = AdminAccess(TOKEN)
    challenged(access)
    assert not may_pass(access, scope(made_up))


@pytest.mark.parametrize(("waited_s", "passes"), [(CHALLENGE_S - 1, True), (CHALLENGE_S + 1, False)])
async def test_challenge_expires(waited_s: float, passes: bool, autojump_clock: MockClock) -> None:
    access = AdminAccess(TOKEN)
    authorization = proved(challenged(access))
    await trio.sleep(waited_s)
    assert may_pass(access, scope(authorization)) is passes


async def test_challenge_flood_is_bounded_and_new_challenges_work() -> None:
    access = AdminAccess(TOKEN)
    oldest, second = challenged(access), challenged(access)
    for _ in range(CHALLENGES_MAX - 1):
        challenged(access, client=OTHER)
    assert not may_pass(access, scope(proved(oldest)))
    assert may_pass(access, scope(proved(second)))
    assert may_pass(access, scope(proved(challenged(access))))


BODIES = (b"", b"{}", b'{"nonce":""}', b'{"nonce":"xyz"}', b'{"nonce":7}', b"\xff", b"[" * 60_000, b'"' + b"a1" * 32)


@pytest.mark.parametrize("body", BODIES)
async def test_invalid_challenge_is_rejected(body: bytes) -> None:
    with pytest.raises(ChallengeRefused):
        AdminAccess(TOKEN).challenge(scope(), body)


@pytest.mark.parametrize("ends", [{"client": None}, {"server": None}, {"server": ("/run/sluice.sock", None)}])
async def test_connection_with_unknown_ends_gets_no_challenge(ends: dict[str, Any]) -> None:
    with pytest.raises(ChallengeRefused):
        AdminAccess(TOKEN).challenge(scope(**ends), orjson.dumps({"nonce": NONCE}))


async def test_each_challenge_gets_a_new_node_nonce() -> None:
    access = AdminAccess(TOKEN)
    assert challenged(access).node_nonce != challenged(access).node_nonce
