"""Judging a master secret: easy guesses are rejected, random secrets never are."""

import base64
import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.strength import judge_strength, looks_random

GUESSABLE = [
    "aaaaaaaaaaaaaaaa", "changeme-changeme", "changemechangemec", "1234567890123456", "0123456789abcdef",
    "abcdefghijklmnopqrstuvwxyz", "ZYXWVUTSRQPONMLKJI", "qwertyuiopasdfghjkl", "1qaz1qaz1qaz1qaz", "passwordpassword",
    "Password123456!!", "my-secret-secret", "sluice-secret-change-me", "your-secret-here-123", "xxxxxxxxxxxxxxxxxxxx",
    "replace-me-with-a-secret", "REPLACE_ME_REPLACE_ME", "default-secret-key-value", "abababababababab",
    "hunter2hunter2hunter2", "sluice2024sluice2024", "P@ssw0rdP@ssw0rd", "1111111122222222",
    "companyname-production", "December2024December2024", " " * 16, "\udcff" * 16, "\u4e2d" * 16,
]  # fmt: skip
DOUBTFUL = [
    "lighthouse gravel tandem", "correct horse battery staple", "tr0ub4dor&3-tr0ub4dor", "q9q99q9qq9q9q99q",
]  # fmt: skip
ALPHABETS = {
    "hexadecimal": (string.hexdigits[:16], 40),
    "base64": (string.ascii_letters + string.digits + "+/", 32),
    "letters and digits": (string.ascii_letters + string.digits, 32),
    "all typeable characters": (string.ascii_letters + string.digits + string.punctuation, 32),
}


@pytest.mark.parametrize("secret", GUESSABLE)
def test_common_guesses_are_guessable(secret: str) -> None:
    assert judge_strength(secret) == "guessable"


@pytest.mark.parametrize("secret", DOUBTFUL)
def test_words_and_names_are_doubtful(secret: str) -> None:
    assert judge_strength(secret) == "doubtful"


@given(st.binary(min_size=1, max_size=4), st.integers(4, 30))
def test_repeated_short_piece_is_never_good(piece: bytes, times: int) -> None:
    assert judge_strength(piece.hex() * times) != "good"


@given(st.text(max_size=300))
def test_any_text_can_be_rated(secret: str) -> None:
    assert judge_strength(secret) in ("guessable", "doubtful", "good")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\n1999\n"])
@pytest.mark.parametrize("date", ["1999", "311299", "31121999", "31.12.99", "\u0661\u0669\u0669\u0669"])
def test_random_secret_that_ends_with_a_date_is_not_guessable(date: str, end: str) -> None:
    assert judge_strength(f"vXq4-Lw8Rz_tK2mHd7-{date}{end}") in ("doubtful", "good")


WRITTEN = [
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p1qaz2wsx", "qwertyuiopasdfghjklzxcvbnmQWERTYUIOPASDFGHJKLZXCVBNM1234567890",
    "CorrectHorseBatteryStapleCorrectHorseBattery1", "P4ssw0rdP4ssw0rdP4ssw0rdP4ssw0rdP4ssw0rdP4ssw0rd",
    "the-quick-brown-fox-jumps-over-13-lazy-dogs-today", "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMN",
    "a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2", "Change-Me-Please-Change-Me-Please-Change-Me-2024",
]  # fmt: skip


def test_written_text_is_rated_in_detail_and_most_random_text_is_not() -> None:
    """Goal: few starts have to load the word lists, but a long text of words is always checked against them."""
    assert [secret for secret in WRITTEN if looks_random(secret)] == []
    draw = Random(5)
    drawn = [base64.urlsafe_b64encode(draw.randbytes(32)).decode() for _ in range(1_000)]
    assert sum(map(looks_random, drawn)) > 800
    assert all(judge_strength(secret) == "good" for secret in drawn[:20])


@pytest.mark.parametrize("kind", ALPHABETS)
def test_random_secrets_are_good(kind: str) -> None:
    """Goal: no generated secret is rejected. Method: many secrets from a fixed seed."""
    alphabet, length = ALPHABETS[kind]
    rng = Random(kind)
    for _ in range(50):
        secret = "".join(rng.choices(alphabet, k=length))
        assert judge_strength(secret) == "good", secret


def test_documented_command_makes_good_secrets() -> None:
    rng = Random(1)
    for _ in range(50):
        made = base64.b64encode(rng.randbytes(32)).decode()
        assert judge_strength(made) == "good", made
