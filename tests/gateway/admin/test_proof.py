"""Proofs of the admin token: valid for one request on one connection, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.proof import AdminHandshake, is_nonce, is_same, node_proof, request_proof

TOKEN = "the admin token of this test"
HANDSHAKE = AdminHandshake("a" * 64, "b" * 64, ("127.0.0.1", 50_000), ("127.0.0.1", 8_081))
OTHERS = {
    "another client nonce": replace(HANDSHAKE, client_nonce="a" * 63 + "b"),
    "another node nonce": replace(HANDSHAKE, node_nonce="c" * 64),
    "swapped nonces": replace(HANDSHAKE, client_nonce="b" * 64, node_nonce="a" * 64),
    "another client": replace(HANDSHAKE, client=("127.0.0.2", 50_000)),
    "another client port": replace(HANDSHAKE, client=("127.0.0.1", 50_001)),
    "another node": replace(HANDSHAKE, node=("127.0.0.2", 8_081)),
    "another node port": replace(HANDSHAKE, node=("127.0.0.1", 8_082)),
    "swapped ends": replace(HANDSHAKE, client=HANDSHAKE.node, node=HANDSHAKE.client),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def proof(token: str = TOKEN, handshake: AdminHandshake = HANDSHAKE, **terms: str | bytes) -> str:
    said = {"method": "POST", "path": "/admin/account.list", "body": b"{}", **terms}
    return request_proof(token, handshake, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_proof_is_valid_only_for_its_handshake(other: AdminHandshake) -> None:
    assert node_proof(TOKEN, other) != node_proof(TOKEN, HANDSHAKE)
    assert proof(handshake=other) != proof()


def test_proof_requires_the_token() -> None:
    assert node_proof("guessed", HANDSHAKE) != node_proof(TOKEN, HANDSHAKE)
    assert proof("guessed") != proof()


def test_node_proof_is_never_a_client_proof() -> None:
    """Reflecting a node's own responses proves nothing."""
    assert node_proof(TOKEN, HANDSHAKE) != proof(method="", path="", body=b"")


@given(st.tuples(TEXT, TEXT, st.binary(max_size=4)), st.tuples(TEXT, TEXT, st.binary(max_size=4)))
def test_proof_covers_request_part_boundaries(one: tuple[str, str, bytes], other: tuple[str, str, bytes]) -> None:
    first, second = (proof(method=method, path=path, body=body) for method, path, body in (one, other))
    assert (first == second) == (one == other)


def test_moving_a_letter_between_parts_changes_proof() -> None:
    assert proof(method="PO", path="ST/a") != proof(method="POST", path="/a")


def test_proof_covers_undecodable_paths() -> None:
    assert proof(path="/a\udcff") != proof(path="/a")


@given(st.binary(min_size=32, max_size=32))
def test_nonce_is_32_bytes_in_hexadecimal(raw: bytes) -> None:
    assert is_nonce(raw.hex())
    for text in (raw.hex()[:-1], raw.hex() + "0", raw.hex()[:-1] + "g", raw.hex() + "\n", " " + raw.hex()[1:]):
        assert not is_nonce(text)


@pytest.mark.parametrize("text", ["", "A" * 64, "\u0661" * 64, "0x" + "0" * 62])
def test_malformed_nonce_is_rejected(text: str) -> None:
    assert not is_nonce(text)


@pytest.mark.parametrize(("presented", "is_right"), [("abc", True), ("abd", False), ("", False), ("abc\udcff", False)])
def test_proof_comparison_handles_any_text(presented: str, is_right: bool) -> None:
    assert is_same(presented, "abc") is is_right
