"""The language of a text, told by its script, its letters and the small words that every sentence has.

It needs no library and no model, so that it answers alike on every machine. It abstains where a text is too short or
names nothing: a wrong tag is worse than none. `docs/performance.md` compares it with libraries that do the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

_READ_MAX: Final = 500
"""Characters that the words are taken from: more does not change the answer, only its cost."""
_ENOUGH_LETTERS: Final = re.compile(r"(?:[^\W\d_][\W\d_]*+){10}")
"""Ten letters, whatever stands between them: fewer do not tell a language."""
_AROUND: Final = ".,;:!?…·\"'`*_~()[]{}<>«»„“”‘–—|-।،؟"
"""Signs around words. An address, an account's name or a tag begins with other ones, and is no word."""
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

_LETTERS: Final = {
    "de": "ßäöü", "es": "ñ¿¡áóí", "pt": "ãõçêáó", "et": "õäöü", "hu": "őűöüóá", "pl": "łźżśęąćń", "lt": "ęąėųįšž",
    "cs": "řěůšžýčá", "sk": "ľĺŕäšžýčá", "ro": "țşţăâî", "tr": "şğıçöü", "vi": "ăơưđạếệộảềấ", "sv": "åäö",
    "da": "åøæ", "no": "åøæ", "is": "æþðáó", "hr": "đćčšž", "lv": "ģķļņāēī", "eo": "ĉĝŭŝ", "fr": "çœêùèà", "ca": "çòàè",
    "sq": "çë", "nl": "ë", "it": "ùìòàè", "fi": "äö",
    "ru": "ыэё", "uk": "їєґі", "be": "ўіыэё", "bg": "ъ", "mk": "ѓќѕљњџј", "sr": "ђћљњџј", "kk": "қғұһәңі",
    "mn": "өүыэё",
    "ur": "ٹڈڑےںہھپچگیک", "ku": "ەڵڕێۆپچگیک", "fa": "پچژگیک", "ar": "ةيكىإأ",
}  # fmt: skip
"""Letters that some languages of a script have and the others have not."""

_ENDINGS: Final = {
    "en": "ing ion ent ers ted ess ful ies ity ive ble ism", "de": "ung eit ich sch ten cht", "nl": "ijk eid aan ing",
    "fr": "ion ent eux que ité aux", "es": "ión dad nte ado cia ndo", "pt": "ção ões ade nte ado ndo",
    "it": "one ità nte ato gli zza",
    "sv": "ing het rna", "da": "ing hed rne", "no": "ing het ene", "fi": "sta ssa lla ksi nen", "tr": "lar ler mak mek",
    "hu": "ban ben nak nek", "ro": "lor lui rea", "ca": "ció tat nts", "id": "kan nya", "pl": "ego nie ści",
    "cs": "ého ost",
    "sk": "ého osť", "ru": "ого ния ать ых", "uk": "ого ння ати", "bg": "ата ите ият", "hr": "nje ost", "eo": "ojn ajn",
}  # fmt: skip
"""How long words often end in a language."""
_WORD_WEIGHT: Final = 1.0
_ENDING_WEIGHT: Final = 0.5
_LETTER_WEIGHT: Final = 0.8
"""Each is shared by all languages that have the word, the ending or the letter."""
_ENGLISH_AHEAD: Final = 0.3
"""English is what most texts without any other letters are."""
_ENOUGH: Final = 0.9
_AHEAD: Final = 1.4
"""The first language leads the second by this factor."""


def _shared(of: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The languages that have each word or letter."""
    found: dict[str, list[str]] = {}
    for tag, each in of.items():
        for item in dict.fromkeys(each):
            found.setdefault(item, []).append(tag)
    return {item: tuple(tags) for item, tags in found.items()}


@cache
def _having() -> dict[str, tuple[str, ...]]:
    from upstreams.model.computed.small_words import SMALL_WORDS  # noqa: PLC0415 - 10 ms, which only who reads texts needs

    return _shared({tag: words.split() for tag, words in SMALL_WORDS.items()})


_WITH_ENDING: Final = _shared({tag: endings.split() for tag, endings in _ENDINGS.items()})
_WITH_LETTER: Final = _shared(_LETTERS)
_NOT_LATIN: Final = {tag for _, _, tags in _SCRIPTS for tag in tags.split()}


def language_of(text: str) -> str | None:
    """The language of a text as a tag such as `en`; short or unclear texts give None."""
    if not _ENOUGH_LETTERS.search(text, 0, _READ_MAX * 4):
        return None
    read = text[:_READ_MAX].lower().replace("’", "'")
    among: set[str] | None = None
    if not read.isascii():
        letters = _BEYOND_LATIN.findall(read)
        if letters and len(letters) * 2 >= len(_LATIN.findall(_ADDRESS.sub("", read))):
            among = _written_in(letters)
            if len(among) < 2:
                return next(iter(among), None)
    return _first(_scores(read), among)


def _written_in(letters: list[str]) -> set[str]:
    """The languages that are written in most of these letters."""
    counts = Counter(_TAGS_OF.get(ord(letter) >> 4, "") for letter in letters)
    del counts[""]
    if counts["ja"] * 10 >= counts["zh"]:  # its writers mix both
        counts["ja"] += counts.pop("zh", 0)
    return set(max(counts, key=counts.__getitem__).split()) if counts.total() else set()


def _scores(read: str) -> dict[str, float]:
    """The languages whose words and letters a text has, and how much of them."""
    scores = {"en": _ENGLISH_AHEAD} if read.isascii() else {}
    having = _having()
    for piece in read.split():
        tags, weight = having.get(piece), _WORD_WEIGHT
        if tags is None:
            word = piece.strip(_AROUND)
            tags = having.get(word) or (having.get(word.partition("'")[0]) if "'" in word else None)
            if tags is None:
                tags, weight = _WITH_ENDING.get(word[-3:], ()) if len(word) > 5 else (), _ENDING_WEIGHT
        for tag in tags:
            scores[tag] = scores.get(tag, 0.0) + weight / len(tags)
    if not read.isascii():
        for letter in set(read):
            tags = _WITH_LETTER.get(letter, ())
            for tag in tags:
                scores[tag] = scores.get(tag, 0.0) + _LETTER_WEIGHT / len(tags)
    return scores


def _first(scores: dict[str, float], among: set[str] | None) -> str | None:
    """The first language where it is well ahead of the second; without `among`, of those in Latin letters."""
    best, next_best, first = 0.0, 0.0, None
    for tag, score in scores.items():
        if tag in _NOT_LATIN if among is None else tag not in among:
            continue
        if score > best:
            best, next_best, first = score, best, tag
        elif score > next_best:
            next_best = score
    return first if best >= max(_ENOUGH, _AHEAD * next_best) else None
