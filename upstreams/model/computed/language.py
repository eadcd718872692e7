"""The language of a text, told by its script, its letters and the small words that every sentence has.

It needs no library and no model, so that it answers alike on every machine. It abstains where a text is too short or
names nothing: a wrong tag is worse than none. `docs/performance.md` compares it with libraries that do the same.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from upstreams.model.computed.category import category_of
from upstreams.model.computed.scores import (
    ALL_BITS,
    BITS,
    CATEGORIES,
    ENGLISH_AHEAD,
    NAMES,
    OF_LETTER,
    SHARED_BY,
    TAGS,
    everywhere,
    scores_of,
)

_READ_MAX: Final = 500
"""Characters that the words are taken from: more does not change the answer, only its cost."""
_ENOUGH_LETTERS: Final = re.compile(r"(?:[^\W\d_][\W\d_]*+){10}")
"""Ten letters, whatever stands between them: fewer do not tell a language."""
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
"""Ranges of code points, and the languages that are written in them."""
_TAGS_OF: Final = {block: tags for first, last, tags in _SCRIPTS for block in range(first >> 4, (last >> 4) + 1)}

_ENOUGH: Final = 9 * SHARED_BY
_AHEAD_TENTHS: Final = 14
"""The first language leads the second by this factor."""
_TOP_BIT: Final = 2 ** (BITS - 1)
"""Is set in a score, once what it lacks to it was added, where it is large enough."""
_ONES: Final = everywhere(TAGS, 1)
_TOP_BITS: Final = everywhere(TAGS, _TOP_BIT)
_SHORT_OF_ENOUGH: Final = everywhere(TAGS, _TOP_BIT - _ENOUGH)
_ASCII_SCORES: Final = everywhere(("en",), ENGLISH_AHEAD)
_IN_LATIN: Final = everywhere(set(TAGS) - {tag for _, _, tags in _SCRIPTS for tag in tags.split()})
_OF_CATEGORIES: Final = everywhere(CATEGORIES)


def language_and_category(text: str) -> tuple[str | None, str]:
    """The language and the category of a text, both of one look at its words."""
    read = text[:_READ_MAX].lower().replace("’", "'")
    scores = scores_of(read)
    has_subject = scores & _OF_CATEGORIES or len(text) > _READ_MAX
    return _language(text, read, scores), category_of(text) if has_subject else "other"


def language_of(text: str) -> str | None:
    """The language of a text as a tag such as `en`; short or unclear texts give None."""
    return language_and_category(text)[0]


def _language(text: str, read: str, scores: int) -> str | None:
    if scores & ALL_BITS < 10 and not _ENOUGH_LETTERS.search(text, 0, _READ_MAX * 4):
        return None
    if read.isascii():
        return _first(scores + _ASCII_SCORES & _IN_LATIN)
    among, letters = _IN_LATIN, _BEYOND_LATIN.findall(read)
    if letters and len(letters) * 2 >= len(_LATIN.findall(_ADDRESS.sub("", read))):
        tags = _written_in(letters)
        if len(tags) < 2:
            return next(iter(tags), None)
        among = everywhere(tags.intersection(TAGS))
    return _first(scores + sum(OF_LETTER.get(letter, 0) for letter in set(read)) & among)


def _written_in(letters: list[str]) -> set[str]:
    """The languages that are written in most of these letters."""
    counts = Counter(_TAGS_OF.get(ord(letter) >> 4, "") for letter in letters)
    del counts[""]
    if counts["ja"] * 10 >= counts["zh"]:  # its writers mix both
        counts["ja"] += counts.pop("zh", 0)
    return set(max(counts, key=counts.__getitem__).split()) if counts.total() else set()


def _first(scores: int) -> str | None:
    """The first language where it is well ahead of the second."""
    best, place, enough = 0, 0, scores + _SHORT_OF_ENOUGH & _TOP_BITS
    while enough:
        first_bit = (enough & -enough).bit_length() - BITS
        if (score := scores >> first_bit & ALL_BITS) > best:
            best, place = score, first_bit // BITS
        enough &= enough - 1
    if not best:
        return None
    near = scores + _ONES * (_TOP_BIT - 1 - 10 * best // _AHEAD_TENTHS) & _TOP_BITS
    return NAMES[place] if near.bit_count() == 1 else None
