"""Estimate how hard a master secret is to guess. Anyone who has a cursor can test guesses against it without limit.

No estimate can detect every well-known secret, so operators should generate their secret.
"""

from __future__ import annotations

import re
from itertools import pairwise
from math import log2
from typing import Final, Literal

GUESSABLE_BITS: Final = 36.0
"""A laptop can guess a secret that has fewer bits than this."""
DOUBTFUL_BITS: Final = 72.0
_CHARACTERS_MAX: Final = 72
"""The estimate ignores further characters, because it would take too long."""
_REST_CHARACTERS_MIN: Final = 8
_PLACEHOLDERS: Final = re.compile(
    "sluice|secret|change|replace|placeholder|master|default|example|sample|insert|enter|dummy|todo|fixme|password"
    "|(?<![a-z])(?:your|token|key|value|here|this|with|the|me|my|a|it)(?![a-z])|[^a-z0-9]",
    re.IGNORECASE,
)
"""Placeholder words from manuals and templates, and the characters that separate them."""

_RANDOM_SHAPE: Final = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
_DISTINCT_MIN: Final = 22
Strength = Literal["guessable", "doubtful", "good"]


def judge_strength(secret: str) -> Strength:
    """Classify a secret as guessable, doubtful or good."""
    if looks_random(secret):
        return "good"
    from zxcvbn import zxcvbn  # noqa: PLC0415 - word lists take 0.17 s to load, and few secrets need them

    if secret.isascii() and len(_PLACEHOLDERS.sub("", secret)) < _REST_CHARACTERS_MIN:
        return "guessable"
    one_line = " ".join(secret[:_CHARACTERS_MAX].splitlines())  # zxcvbn fails on a date that is followed by a line end
    bits = log2(float(zxcvbn(one_line)["guesses"]))
    return "guessable" if bits < GUESSABLE_BITS else "doubtful" if bits < DOUBTFUL_BITS else "good"


def looks_random(secret: str) -> bool:
    """Return whether a secret looks as if it was generated randomly, like 32 bytes in base64.

    In random text, most neighboring characters differ in kind (upper case, lower case, digit, other), unlike in words.
    Random text also has many distinct characters, unlike repetitive text.
    """
    if _RANDOM_SHAPE.fullmatch(secret) is None or len(set(secret)) < _DISTINCT_MIN:
        return False
    kinds = ["A" if c.isupper() else "a" if c.islower() else "1" if c.isdigit() else "-" for c in secret]
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes * 9 >= len(secret) * 5
