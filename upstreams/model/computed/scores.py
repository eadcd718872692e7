"""Scores of a text: one per language, from its words, and one per topic, from its keywords.

All scores of a text are packed into one integer, with 16 bits for each. Each piece of text has one cached integer, and
the scores of a text are the sum over its pieces. In a text of `READ_MAX` characters, no score can reach its top bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from struct import Struct
from typing import Final

from upstreams.model.computed.category import CATEGORY_OF, words_of

_AROUND: Final = ".,;:!?…·\"'`*_~()[]{}<>«»„“”‘–—|-।،؟"
"""Punctuation that is stripped from words. URLs, account names and tags start with other characters and are not words.
"""
_LETTERS: Final = {
    "de": "ßäöü", "es": "ñ¿¡áóí", "pt": "ãõçêáó", "et": "õäöü", "hu": "őűöüóá", "pl": "łźżśęąćń", "lt": "ęąėųįšž",
    "cs": "řěůšžýčá", "sk": "ľĺŕäšžýčá", "ro": "țşţăâî", "tr": "şğıçöü", "vi": "ăơưđạếệộảềấ", "sv": "åäö",
    "da": "åøæ", "no": "åøæ", "is": "æþðáó", "hr": "đćčšž", "lv": "ģķļņāēī", "eo": "ĉĝŭŝ", "fr": "çœêùèà", "ca": "çòàè",
    "sq": "çë", "nl": "ë", "it": "ùìòàè", "fi": "äö",
    "ru": "ыэё", "uk": "їєґі", "be": "ўіыэё", "bg": "ъ", "mk": "ѓќѕљњџј", "sr": "ђћљњџј", "kk": "қғұһәңі",
    "mn": "өүыэё",
    "ur": "ٹڈڑےںہھپچگیک", "ku": "ەڵڕێۆپچگیک", "fa": "پچژگیک", "ar": "ةيكىإأ",
}  # fmt: skip
"""Letters that only some languages of a script use."""

_ENDINGS: Final = {
    "en": "ing ion ent ers ted ess ful ies ity ive ble ism", "de": "ung eit ich sch ten cht", "nl": "ijk eid aan ing",
    "fr": "ion ent eux que ité aux", "es": "ión dad nte ado cia ndo", "pt": "ção ões ade nte ado ndo",
    "it": "one ità nte ato gli zza",
    "sv": "ing het rna", "da": "ing hed rne", "no": "ing het ene", "fi": "sta ssa lla ksi nen", "tr": "lar ler mak mek",
    "hu": "ban ben nak nek", "ro": "lor lui rea", "ca": "ció tat nts", "id": "kan nya", "pl": "ego nie ści",
    "cs": "ého ost",
    "sk": "ého osť", "ru": "ого ния ать ых", "uk": "ого ння ати", "bg": "ата ите ият", "hr": "nje ost", "eo": "ojn ajn",
}  # fmt: skip
"""Common word endings of each language."""
READ_MAX: Final = 250
"""The number of characters read in one pass. Reading more would cost more and rarely change the result."""
SHARED_BY: Final = 12
"""The maximum number of languages among which the weight of a word, an ending or a letter is divided."""
_WORD_WEIGHT: Final = 10 * SHARED_BY
_ENDING_WEIGHT: Final = 5 * SHARED_BY
_LETTER_WEIGHT: Final = 8 * SHARED_BY
ENGLISH_AHEAD: Final = 3 * SHARED_BY
"""The score added to English if a text contains only ASCII letters, because English is then the most likely language.
"""

_NEAR_ENGLISH = "en nl af de da no fr es pt it ca pl cs sk ro hr ga sq fi et tl sv hu cy tr lv lt vi id is eo eu ht sw"
_BEYOND_LATIN = "ru uk be bg sr mk kk mn ur ku fa ar hi mr ne"
TAGS: Final = (*_NEAR_ENGLISH.split(), *_BEYOND_LATIN.split())
"""The languages with word lists. The languages that share words with English come first, which keeps the integers
small."""
CATEGORIES: Final = tuple(dict.fromkeys(CATEGORY_OF.values()))
BITS: Final = 16
ALL_BITS: Final = 2**BITS - 1
_SHIFT: Final = {name: BITS * place for place, name in enumerate((*TAGS, *CATEGORIES))}
_SUBJECTS_SHIFT: Final = BITS * len(TAGS)
_PIECES_MAX: Final = 16_384
_SINGLE: Final = Struct(f"<{len(_SHIFT)}H")
_PIECE_MAX: Final = 40
"""The maximum length of a cached piece, in characters."""


def everywhere(names: Iterable[str], score: int = ALL_BITS) -> int:
    """Return an integer in which each of these names has this score."""
    return sum(score << _SHIFT[name] for name in names)


def _weights(of: Mapping[str, Iterable[str]], weight: int) -> dict[str, int]:
    """Return the scores that each word, ending or letter adds to its languages."""
    found: dict[str, list[str]] = {}
    for tag, each in of.items():
        for item in dict.fromkeys(each):
            found.setdefault(item, []).append(tag)
    return {item: everywhere(tags, round(weight / len(tags))) for item, tags in found.items()}


_OF_ENDING: Final = _weights({tag: endings.split() for tag, endings in _ENDINGS.items()}, _ENDING_WEIGHT)
OF_LETTER: Final = _weights(_LETTERS, _LETTER_WEIGHT)
"""The scores of letters that only some languages of a script have."""


@cache
def _words() -> dict[str, int]:
    from upstreams.model.computed.small_words import SMALL_WORDS  # noqa: PLC0415 - 10 ms, needed only to read texts

    return _weights({tag: words.split() for tag, words in SMALL_WORDS.items()}, _WORD_WEIGHT)


def _of_languages(piece: str) -> int:
    """Return the language scores of a piece.

    The piece is looked up as a word. If it is unknown, it is looked up without surrounding punctuation, and then by its
    ending.
    """
    words = _words()
    if piece in words:
        return words[piece]
    word = piece.strip(_AROUND)
    found = words.get(word) or (words.get(word.partition("'")[0]) if "'" in word else None)
    if found is None:
        return _OF_ENDING.get(word[-3:], 0) if len(word) > 5 else 0
    return found


class _Pieces(dict[str, int]):
    """A cache of the scores of pieces of text. The pieces are in lower case."""

    def __missing__(self, piece: str) -> int:
        scores = _of_languages(piece)
        for word in words_of(piece):
            if word in CATEGORY_OF:
                scores += 1 << _SHIFT[CATEGORY_OF[word]]
        if len(piece) <= _PIECE_MAX:
            if len(self) == _PIECES_MAX:
                self.clear()
            self[piece] = scores
        return scores


_PIECES: Final = _Pieces()


def scores_of(read: str) -> tuple[int, int]:
    """Return the sum of the scores of a lower-case text's pieces, and how many pieces have a score."""
    scored = list(filter(None, map(_PIECES.__getitem__, read.split())))
    return sum(scored), len(scored)


def subject_of(scores: int) -> str:
    """Return the category with the highest score.

    It is `other` if no category has a score, and "" if several share it.
    """
    subjects = scores >> _SUBJECTS_SHIFT
    if not subjects:
        return "other"
    counts = values_of(subjects)
    best = max(counts)
    return CATEGORIES[counts.index(best)] if counts.count(best) == 1 else ""


def values_of(scores: int) -> tuple[int, ...]:
    """Return the scores unpacked, in the order of their names."""
    return _SINGLE.unpack(scores.to_bytes(_SINGLE.size, "little"))
