"""Suggestions for misspelled names are the same as after comparing every name, at a fraction of the cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from random import Random

import pytest

from upstreams.known_names import KnownNames
from upstreams.platforms import load_platforms

PATHS = [f"/v1/{platform.slug}/{one.resource}" for platform in load_platforms() for one in platform.endpoints]
LETTERS = "abcdefghijklmnopqrstuvwxyz/_"


def misspelled(text: str, rng: Random) -> str:
    """Return the text with one to four of its letters changed, removed or added."""
    letters = list(text)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(4, len(letters))
        letters[place : place + rng.randint(0, 1)] = rng.choice(["", *LETTERS])
    return "".join(letters)


def test_suggestion_equals_full_comparison() -> None:
    rng, names = Random(34), KnownNames(PATHS)
    texts = [misspelled(rng.choice(PATHS), rng) for _ in range(100)]
    expected = [next(iter(get_close_matches(text, PATHS, n=1, cutoff=0.6)), None) for text in texts]
    found = [names.nearest(text) for text in texts]
    different = [pair for pair in zip(expected, found, strict=True) if pair[0] != pair[1]]
    assert len(different) <= 1, "in one of a hundred, several names may be equally similar"
    assert None not in (meant for meant in found), "every one of these has a suggestion"


@pytest.mark.parametrize("text", ["", "x", "/", "zzzzzzzzzzzzzzzzzzzz", "\ud83d\ude00" * 50, "qx" * 5_000])
def test_dissimilar_text_has_no_suggestion(text: str) -> None:
    assert KnownNames(PATHS).nearest(text) is None
    assert KnownNames(()).nearest(text) is None


def test_cutoff_decides_how_similar_a_name_must_be() -> None:
    names = KnownNames(["profile", "posts"])
    assert names.nearest("profil", cutoff=0.9) == "profile"
    assert names.nearest("prof", cutoff=0.9) is None
    assert names.nearest("prof") == "profile"


def test_suggestion_costs_a_small_part_of_a_full_comparison() -> None:
    """Method: compare CPU time with that of the full comparison in the same process: 800 names, the worst texts."""
    many = [*PATHS, *(path.replace("/v1/", f"/v1/{number}") for number in range(4) for path in PATHS)]
    names = KnownNames(many)
    names.nearest("the first one reads the names")
    for text in ("/v1/stackexchange/questoins", "/v1/gitlab/repo/isues/coments"):
        whole_s = min(cpu(partial(get_close_matches, text, many, n=1, cutoff=0.6)) for _ in range(3))
        ours_s = min(cpu(partial(names.nearest, text)) for _ in range(3))
        assert ours_s * 4 < whole_s


def cpu(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s
