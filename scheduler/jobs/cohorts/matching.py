"""Keyword matching in texts: normalized, case-insensitive, whole words in every script (decisions 14).

A word ends where the next character does not continue it. Four rules decide what continues a word:

- Letters of scripts with spaces between words are continued by any other such letter, mark, digit or underscore: `acme`
  matches in `#acme`, but not in `acmecorp`.
- Han, Hiragana, Thai, Lao, Khmer and others put no spaces between words. A keyword in them matches wherever its letters
  occur, unless the match would separate a mark, a vowel or a small kana from its letter.
- Katakana is continued only by Katakana, because Katakana words are written next to other scripts.
- Hangul is continued by Hangul; a Korean particle may follow the word.

A change between kinds of letters ends a word: `Apple` matches in `Apple公司`, and `acme` in `acme는`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import trio

LONG_TEXT: Final = 10_000
"""For longer texts, there is a checkpoint before each keyword, so that other tasks run in between."""
_IGNORED: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Invisible characters (Default_Ignorable_Code_Point), which caseless matching removes."""
_WORD: Final = r"\p{L}\p{M}\p{N}_"
_SPACELESS: Final = (
    r"\p{Han}\p{Hiragana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Javanese}\p{Balinese}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}"
)
_KATAKANA: Final = r"\p{Katakana}ー"
_HANGUL: Final = r"\p{Hangul}"
_LEADING: Final = "\u0e40-\u0e44\u0ec0-\u0ec4\u1039\u17d2\u1a60\u1b44\ua9c0"
"""Vowels written before their consonant, and signs that put the next consonant below the previous one."""
_FOLLOWING: Final = r"\p{M}\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3ぁぃぅぇぉっゃゅょゎゕゖー々ゝゞ"
"""Marks, vowels written after their consonant, small kana, and repetition signs."""
_PARTICLES: Final = (
    "으로부터|로부터|에게서|한테서|에서|에게|한테|으로서|으로써|으로|로서|로써|로|까지|부터|조차|마저|처럼|같이|보다|"
    "이나마|나마|이나|나|이라고|라고|이라는|라는|이라도|라도|이라|라|이란|란|이며|며|이고|고|이다|입니다|인데|이야|야|"
    "하고|이랑|랑|밖에|마다|뿐|만|도|은|는|이|가|을|를|의|에|께서|께|와|과|들"
)
_ENDINGS: Final = "은|는|이|가|을|를|의|도|만|에|과|와"
"""Particles that may follow another particle."""


class Keywords:
    """Normalized keywords, each once."""

    def __init__(self, normal: Sequence[str]) -> None:
        """`normal` contains keywords as returned by `normalized`. None of them is empty."""
        self.normal = tuple(normal)
        self._patterns = {one: _pattern(one) for one in self.normal}

    async def found_in(self, text: str) -> list[str]:
        """Return the keywords that occur in a text."""
        words = normalized(text)
        # This substring test rejects nearly all keywords, in about a hundredth of the time that the patterns take.
        present = [one for one in self.normal if one in words]
        if len(words) <= LONG_TEXT:
            return [one for one in present if self.matches_in(words, one)]
        found = []
        for one in present:
            await trio.lowlevel.checkpoint()
            if self.matches_in(words, one):
                found.append(one)
        return found

    def matches_in(self, words: str, keyword: str) -> bool:
        """Return whether a keyword occurs in a normalized text."""
        return self._patterns[keyword].search(words) is not None


@lru_cache(maxsize=32)  # one per concurrent step; 20 long keywords take 0.6 MB
def keywords_of(normal: tuple[str, ...]) -> Keywords:
    """Return the keywords, compiled once for all shards of a query."""
    return Keywords(normal)


def normalized(text: str) -> str:
    """Return a text in the form that is compared: NFKC, case-folded, without invisible characters, single spaces."""
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(_IGNORED.sub("", folded).split())


def _pattern(keyword: str) -> Any:
    import regex  # noqa: PLC0415 - most nodes never need it

    kinds = _kinds()
    before = next((rule[0] for kind, rule in kinds if kind.match(keyword[0])), "")
    after = next((rule[1] for kind, rule in kinds if kind.match(keyword[-1])), "")
    return regex.compile(before + regex.escape(keyword, special_only=True) + after, regex.V1)


@lru_cache(maxsize=1)
def _kinds() -> tuple[tuple[Any, tuple[str, str]], ...]:
    """Return the kinds of letters, each with two patterns.

    The patterns must match before and after a keyword that starts or ends with a letter of that kind.
    """
    import regex  # noqa: PLC0415 - as above

    spaced = f"[[{_WORD}]--[{_SPACELESS}{_KATAKANA}{_HANGUL}]]"
    particles = f"(?:(?:{_PARTICLES})(?:{_ENDINGS})?)?"
    rules = {
        rf"[{_SPACELESS}]": (f"(?<![{_LEADING}])", f"(?![{_FOLLOWING}])"),
        rf"[{_KATAKANA}]": (f"(?<![{_KATAKANA}])", rf"(?![{_KATAKANA}\p{{M}}])"),
        rf"[{_HANGUL}]": (f"(?<![{_HANGUL}])", f"{particles}(?![{_HANGUL}])"),
        spaced: (f"(?<!{spaced})", f"(?!{spaced})"),
    }
    return tuple((regex.compile(kind, regex.V1), rule) for kind, rule in rules.items())
