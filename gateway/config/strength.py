"""How hard a master secret is to guess. Who sees one cursor can try secrets against it for as long as they like.

No estimate can tell a random secret from a famous one: have it generated.
"""

from __future__ import annotations

import re
from itertools import pairwise
from math import log2
from typing import Final, Literal

GUESSABLE_BITS: Final = 36.0
"""Below it a secret is guessed by a laptop."""
DOUBTFUL_BITS: Final = 72.0
_CHARACTERS_MAX: Final = 72
"""More are not looked at, which takes ever longer."""
_REST_CHARACTERS_MIN: Final = 8
_STAND_INS: Final = re.compile(
    "sluice|secret|change|replace|placeholder|master|default|example|sample|insert|enter|dummy|todo|fixme|password"
    "|(?<![a-z])(?:your|token|key|value|here|this|with|the|me|my|a|it)(?![a-z])|[^a-z0-9]",
    re.IGNORECASE,
)
"""Words that stand where a secret ought to be, as manuals and templates have them, and what stands between them."""

_DRAWN: Final = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
_DISTINCT_MIN: Final = 22
Strength = Literal["guessable", "doubtful", "good"]


def judge_strength(secret: str) -> Strength:
    """Whether a secret can be guessed, might be, or cannot."""
    if looks_random(secret):
        return "good"
    from zxcvbn import zxcvbn  # noqa: PLC0415 - its word lists take a sixth of a second, which few secrets need

    if secret.isascii() and len(_STAND_INS.sub("", secret)) < _REST_CHARACTERS_MIN:
        return "guessable"
    one_line = " ".join(secret[:_CHARACTERS_MAX].splitlines())  # it fails on a date before the end of a line
    bits = log2(float(zxcvbn(one_line)["guesses"]))
    return "guessable" if bits < GUESSABLE_BITS else "doubtful" if bits < DOUBTFUL_BITS else "good"


def looks_random(secret: str) -> bool:
    """Whether a secret can only have been drawn by lot, as 32 bytes in base64 are: nobody writes so.

    Of two neighbours most are of different kinds (capital, small, digit, other), where words have few such changes;
    and many characters are distinct, where what repeats itself has few.
    """
    if _DRAWN.fullmatch(secret) is None or len(set(secret)) < _DISTINCT_MIN:
        return False
    kinds = ["A" if c.isupper() else "a" if c.islower() else "1" if c.isdigit() else "-" for c in secret]
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes * 9 >= len(secret) * 5
