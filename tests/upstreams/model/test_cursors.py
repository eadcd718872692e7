"""Cursor tokens: only an unchanged token can be opened, and only for the request it belongs to."""

from __future__ import annotations

import string
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import InvalidCursor, UpstreamFailed

SIGNER = CursorSigner(b"a key of thirty-two bytes, no less")
BINDING = b"github/repo/issues?url=example/project"
INTEGERS = st.integers(-(2**63), 2**63 - 1)
STATES = st.dictionaries(st.text(max_size=3), st.text(st.characters(exclude_categories=["Cs"])) | INTEGERS, max_size=3)
TOKEN = SIGNER.seal(BINDING, {"p": 2})
ALPHABET = string.ascii_letters + string.digits + "-_=+/ %.\u0430"


@given(st.binary(max_size=80), STATES)
def test_token_opens_to_its_state(binding: bytes, state: dict[str, str | int]) -> None:
    token = SIGNER.seal(binding, state)
    assert token.startswith("cur_")
    assert set(token) <= set(string.ascii_letters + string.digits + "-_")
    assert SIGNER.open(binding, token) == state


def test_token_is_deterministic() -> None:
    assert SIGNER.seal(BINDING, {"p": 2}) == TOKEN
    assert SIGNER.seal(BINDING, {"p": 3}) != TOKEN


@given(st.binary(max_size=80))
def test_token_of_another_request_is_refused(binding: bytes) -> None:
    if binding != BINDING:
        with pytest.raises(InvalidCursor):
            SIGNER.open(binding, TOKEN)


@given(st.binary(min_size=1, max_size=20), st.binary(min_size=1, max_size=20))
def test_byte_cannot_move_between_binding_and_state(first: bytes, second: bytes) -> None:
    token = SIGNER.seal(first, {"c": second.hex()})
    with pytest.raises(InvalidCursor):
        SIGNER.open(first + second, token)


def test_token_of_another_key_is_refused() -> None:
    with pytest.raises(InvalidCursor):
        CursorSigner(b"another key").open(BINDING, TOKEN)


@given(st.integers(0, len(TOKEN) - 1), st.sampled_from(ALPHABET))
def test_changed_character_is_refused(place: int, char: str) -> None:
    changed = TOKEN[:place] + char + TOKEN[place + 1 :]
    if changed != TOKEN:
        with pytest.raises(InvalidCursor):
            SIGNER.open(BINDING, changed)


@given(st.integers(0, len(TOKEN)), st.text(alphabet=ALPHABET, min_size=1, max_size=5))
def test_appended_text_is_refused(place: int, more: str) -> None:
    with pytest.raises(InvalidCursor):
        SIGNER.open(BINDING, TOKEN[:place] + more + TOKEN[place:])


@given(st.integers(0, len(TOKEN) - 1))
def test_truncated_token_is_refused(length: int) -> None:
    with pytest.raises(InvalidCursor):
        SIGNER.open(BINDING, TOKEN[:length])


@given(st.binary(max_size=60))
def test_unsealed_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidCursor):
        SIGNER.open(BINDING, "cur_" + urlsafe_b64encode(raw).rstrip(b"=").decode())


@given(st.text())
def test_other_text_is_refused(text: str) -> None:
    for token in (text, f"cur_{text}"):
        with pytest.raises(InvalidCursor):
            SIGNER.open(BINDING, token)


@pytest.mark.parametrize("token", ["", "cur_", "cur_!!!!", "CUR_" + TOKEN[4:], "cur_" + "A" * 100_000, TOKEN + "="])
def test_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidCursor):
        SIGNER.open(BINDING, token)


@pytest.mark.parametrize("length", [1, 2_000, 3_000, 3_040, 3_060, 4_000, 1_000_000])
def test_token_too_long_to_send_back_is_not_issued(length: int) -> None:
    state = {"c": "x" * length}
    try:
        token = SIGNER.seal(BINDING, state)
    except UpstreamFailed:
        assert length > 3_000
    else:
        assert SIGNER.open(BINDING, token) == state
        assert length < 3_060
