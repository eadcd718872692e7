"""How hard a master secret is to guess. Who sees one cursor can try secrets against it for as long as they like.

No estimate can tell a random secret from a famous one: have it generated.
"""

from __future__ import annotations

import re
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

Strength = Literal["guessable", "doubtful", "good"]


def judge_strength(secret: str) -> Strength:
    """Whether a secret can be guessed, might be, or cannot."""
    from zxcvbn import zxcvbn  # noqa: PLC0415 - its word lists take a sixth of a second, which only a start needs

    if secret.isascii() and len(_STAND_INS.sub("", secret)) < _REST_CHARACTERS_MIN:
        return "guessable"
    one_line = " ".join(secret[:_CHARACTERS_MAX].splitlines())  # it fails on a date before the end of a line
    bits = log2(float(zxcvbn(one_line)["guesses"]))
    return "guessable" if bits < GUESSABLE_BITS else "doubtful" if bits < DOUBTFUL_BITS else "good"
