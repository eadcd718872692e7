"""Invented facts that are always the same for the same subject: counts, names, sentences, timestamps."""

from __future__ import annotations

from random import Random
from zlib import crc32

EPOCH_S = 1_577_836_800
"""The start of 2020. Invented times are in the five years after that."""

_SUBJECTS = [
    "The maintainer",
    "A reader",
    "Our team",
    "The new release",
    "This parser",
    "The queue",
    "A patient reviewer",
]
_VERBS = ["explains", "replaces", "measures", "documents", "simplifies", "keeps", "breaks"]
_OBJECTS = [
    "the retry loop",
    "a slow test",
    "the cache",
    "every open socket",
    "the release notes",
    "structured concurrency",
]
_FIRST = ["Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Radia", "Ken", "Lynn", "Leslie"]
_LAST = ["Marlow", "Quist", "Abara", "Lindgren", "Okafor", "Tanaka", "Novak", "Silva", "Haddad", "Moreau"]


def seeded(*subject: object) -> Random:
    """Return a random generator that depends only on the subject."""
    return Random(crc32("/".join(map(str, subject)).encode()))


def person(rng: Random) -> str:
    """Return the name of a person."""
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def sentence(rng: Random) -> str:
    """Return one plain English sentence."""
    return f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_OBJECTS)}."


def paragraph(rng: Random, sentences: int = 3) -> str:
    """Return a few sentences."""
    return " ".join(sentence(rng) for _ in range(sentences))


def unix_time(rng: Random) -> int:
    """Return a time from 2020 to 2024 in whole Unix seconds."""
    return EPOCH_S + rng.randrange(5 * 365 * 86_400)
