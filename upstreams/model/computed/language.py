"""The language of a text, detected from its script, its letters and common small words.

Detection needs no library and no model, so the result is the same on every machine. The result is None if a text is too
short or unclear, because a wrong tag is worse than none. `docs/performance.md` compares this module with language
detection libraries.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from upstreams.model.computed.category import category_of
from upstreams.model.computed.scores import (
    ALL_BITS,
    BITS,
    ENGLISH_AHEAD,
    OF_LETTER,
    READ_MAX,
    SHARED_BY,
    TAGS,
    everywhere,
    scores_of,
    subject_of,
    values_of,
)

TEXT_MAX: Final = 2 * READ_MAX
"""The maximum number of characters of a text that are read."""
_LETTERS_MIN: Final = 10
"""The minimum number of letters in a text whose language is detected. Every piece with a score contains a letter."""
_ENOUGH_LETTERS: Final = re.compile(rf"(?:[^\W\d_][\W\d_]*+){{{_LETTERS_MIN}}}")
"""Matches `_LETTERS_MIN` letters, with any other characters between them."""
_NO_LETTERS: Final = bytes(code for code in range(128) if not chr(code).isalpha())
_BEYOND_LATIN: Final = re.compile(r"[\u0370-\u1dff\u3040-\ud7ff\uf900-\ufaff\ufb1d-\ufdff\ufe70-\ufeff]")
_ADDRESS: Final = re.compile(r"https?://\S+|[@#][a-z0-9_]+")
_LATIN: Final = re.compile(r"[a-zA-Z\u00c0-\u024f\u1e00-\u1eff]")

_SCRIPTS: Final = (
    (0x0370, 0x03FF, "el"),
    (0x0400, 0x052F, "ru uk be bg sr mk kk mn"),
    (0x0530, 0x058F, "hy"),
    (0x0590, 0x05FF, "he"),
    (0x0600, 0x077F, "ar fa ur ku"),
    (0x0900, 0x097F, "hi mr ne"),
    (0x0980, 0x09FF, "bn"),
    (0x0A00, 0x0A7F, "pa"),
    (0x0A80, 0x0AFF, "gu"),
    (0x0B00, 0x0B7F, "or"),
    (0x0B80, 0x0BFF, "ta"),
    (0x0C00, 0x0C7F, "te"),
    (0x0C80, 0x0CFF, "kn"),
    (0x0D00, 0x0D7F, "ml"),
    (0x0D80, 0x0DFF, "si"),
    (0x0E00, 0x0E7F, "th"),
    (0x0E80, 0x0EFF, "lo"),
    (0x0F00, 0x0FFF, "bo"),
    (0x1000, 0x109F, "my"),
    (0x10A0, 0x10FF, "ka"),
    (0x1100, 0x11FF, "ko"),
    (0x1200, 0x137F, "am"),
    (0x1780, 0x17FF, "km"),
    (0x3040, 0x30FF, "ja"),
    (0x3130, 0x318F, "ko"),
    (0x3400, 0x9FFF, "zh"),
    (0xAC00, 0xD7AF, "ko"),
    (0xF900, 0xFAFF, "zh"),
    (0xFB50, 0xFDFF, "ar fa ur ku"),
    (0xFE70, 0xFEFF, "ar fa ur ku"),
)
"""Ranges of code points, with the languages that are written in them."""
_TAGS_OF: Final = {block: tags for first, last, tags in _SCRIPTS for block in range(first >> 4, (last >> 4) + 1)}

_SCORE_MIN: Final = 9 * SHARED_BY
_AHEAD_TENTHS: Final = 14
"""The factor by which the best score must exceed the second best, in tenths."""
_TOP_BIT: Final[int] = 1 << BITS - 1
"""`_count_near` adds the same amount to all scores. The sum has this bit set for every score that is high enough."""
_ONES: Final = everywhere(TAGS, 1)
_TOP_BITS: Final = everywhere(TAGS, _TOP_BIT)
_ENGLISH_SHIFT: Final = everywhere(("en",), 1).bit_length() - 1
_ASCII_SCORES: Final = everywhere(("en",), ENGLISH_AHEAD)
_IN_LATIN: Final = everywhere(set(TAGS) - {tag for _, _, tags in _SCRIPTS for tag in tags.split()})


def language_and_category(text: str) -> tuple[str | None, str]:
    """Return the language and the category of a text, both from one pass over its first words.

    More words are read only if these do not determine a language, for example because the text starts with a title or a
    URL.
    """
    read = _lower(text[:READ_MAX])
    scores, scored = scores_of(read)
    language = _language(read, scores, scored)
    if language is None and len(text) > READ_MAX:
        rest = _lower(text[READ_MAX:TEXT_MAX])
        language = _language(rest, *scores_of(rest))
    return language, subject_of(scores) or category_of(read)


def _lower(text: str) -> str:
    return text.lower().replace("’", "'")


def language_of(text: str) -> str | None:
    """Return the language of a text as a tag such as `en`, or None if the text is short or unclear."""
    return language_and_category(text)[0]


def _language(read: str, scores: int, scored: int) -> str | None:
    is_ascii = read.isascii()
    if scored < _LETTERS_MIN and not _has_letters(read, is_ascii=is_ascii):
        return None
    if is_ascii:
        return _best_language(scores + _ASCII_SCORES & _IN_LATIN)
    among, letters = _IN_LATIN, _BEYOND_LATIN.findall(read)
    if letters and len(letters) * 2 >= len(_LATIN.findall(_ADDRESS.sub("", read))):
        tags = _written_in(letters)
        if len(tags) < 2:
            return next(iter(tags), None)
        among = everywhere(tags.intersection(TAGS))
    return _best_language(scores + sum(OF_LETTER.get(letter, 0) for letter in set(read)) & among)


def _has_letters(read: str, *, is_ascii: bool) -> bool:
    if is_ascii:
        return len(read.encode().translate(None, _NO_LETTERS)) >= _LETTERS_MIN
    return _ENOUGH_LETTERS.search(read) is not None


def _written_in(letters: list[str]) -> set[str]:
    """Return the languages of the script to which most of these letters belong."""
    counts = Counter(_TAGS_OF.get(ord(letter) >> 4, "") for letter in letters)
    del counts[""]
    if counts["ja"] * 10 >= counts["zh"]:  # Japanese text mixes both scripts
        counts["ja"] += counts.pop("zh", 0)
    return set(max(counts, key=counts.__getitem__).split()) if counts.total() else set()


def _best_language(scores: int) -> str | None:
    """Return the language with the best score, or None if the second best score is too close."""
    english = scores >> _ENGLISH_SHIFT & ALL_BITS
    if english >= _SCORE_MIN and _count_near(scores, english) == 1:  # the usual case
        return "en"
    values = values_of(scores)
    best = max(values)
    return TAGS[values.index(best)] if best >= _SCORE_MIN and _count_near(scores, best) == 1 else None


def _count_near(scores: int, best: int) -> int:
    """Return how many languages have a score close to `best` or above it."""
    missing = _TOP_BIT - 1 - 10 * best // _AHEAD_TENTHS
    return (scores + _ONES * missing & _TOP_BITS).bit_count()
